"""What a mean over ranks takes within a program, beside mpi4py alone.

    python -m benchmarks.messages --ranks 2

Messages as small as a few numbers, as gradients of networks of 64 and 64 units
are, and as those of 256 and 256. The best of five.
"""

import argparse
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from agents.tools import world
from agents.tools.graph import mpi
from agents.tools.graph.backend import compiled, tf

# Numbers of 32 bits.
SIZES = 16, 11_000, 250_000
CALLS = 500
REPEATS = 5


def within(ranks: mpi.Ranks, size: int) -> Callable[[], object]:
    """Many means, each of the one before, as one program."""

    @compiled
    def means(x: tf.Tensor) -> tf.Tensor:
        def mean(count: tf.Tensor, x: tf.Tensor) -> tuple:
            return count + 1, ranks.mean(x)

        return tf.while_loop(lambda count, _: count < CALLS, mean, [0, x])[1]

    mine = tf.ones(size)
    return lambda: means(mine).numpy()


def by_mpi4py(comm: object, size: int) -> Callable[[], object]:
    """As many sums by mpi4py."""
    mine, total = np.ones(size, np.float32), np.empty(size, np.float32)

    def sums() -> None:
        for _ in range(CALLS):
            comm.Allreduce(mine, total)  # type: ignore[attr-defined]

    return sums


def measure() -> None:
    """Time both on each rank; the first one prints."""
    ranks = mpi.define(world.connect())
    assert isinstance(ranks, mpi.Ranks)
    from mpi4py import MPI  # As the world has set it up.

    for size in SIZES:
        seconds = []
        for run in (within(ranks, size), by_mpi4py(MPI.COMM_WORLD, size)):
            run()
            best = float('inf')
            for _ in range(REPEATS):
                MPI.COMM_WORLD.Barrier()
                started = time.perf_counter()
                run()
                best = min(best, time.perf_counter() - started)
            seconds.append(best / CALLS)
        if ranks.rank == 0:
            here, there = (1e6 * each for each in seconds)
            print(
                f'{4 * size:9,} bytes   within a program {here:7.1f} µs   '
                f'mpi4py alone {there:7.1f} µs',
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--ranks', type=int, default=2)
    parser.add_argument('--only', action='store_true', help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        measure()
        return
    mpiexec = pathlib.Path(sys.executable).with_name('mpiexec')
    own = [sys.executable, '-m', __spec__.name, '--only']
    subprocess.run([mpiexec, '-n', str(options.ranks), *own], check=True)


if __name__ == '__main__':
    main()
