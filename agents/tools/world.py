"""Processes that MPI has started together, outside of graphs.

How they exchange plain values and how they end together. Needs no TensorFlow; for messages within
programs see `agents.tools.graph.mpi`.
"""

import contextlib
import functools
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import numpy as np

from agents.tools import errors, leftovers, shared_sum

# By which a launcher tells a process how many it is one of: those that speak
# PMI, such as that of MPICH, and that of Open MPI.
SIZES = 'PMI_SIZE', 'OMPI_COMM_WORLD_SIZE'
RANKS = 'PMI_RANK', 'OMPI_COMM_WORLD_RANK'

# The name of the thread that looks whether a rank waits for too long.
WATCH = 'agents-watch'

# Seconds within which all have to have started.
START_SECONDS = 300.0

# Seconds for what a rank has printed to get through its launcher.
FLUSH_SECONDS = 0.3

# Seconds that a rank waits before it tells why it ends, as one before it may
# tell the same and end all; how many wait longer than the one before; and
# seconds for one that only knows that something happened elsewhere.
TURN_SECONDS = 1.0
MOST_TURNS = 4
LATE_SECONDS = 5.0


class World:
    """Ranks of a training; this class is for a single one.

    All ranks must call the functions in the same order.

    Attributes:
        rank: Index of this rank.
        size: Number of ranks.
        seconds: Time spent on messages so far, mostly waiting for slower ranks.
    """

    rank = 0
    size = 1
    seconds = 0.0

    @property
    def is_first(self) -> bool:
        """True for the rank that prints and writes."""
        return self.rank == 0

    def share(self, value: Any) -> Any:
        """Return the value of the first rank; values as in JSON."""
        return value

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks in order."""
        return [value]

    def gather_here(self, value: Any) -> list[Any]:
        """Return the values of the ranks on this machine in order."""
        return [value]

    def count_here(self) -> tuple[int, int]:
        """Return the index of this rank on its machine, and the number of ranks there."""
        return 0, 1

    def watch(self, seconds: float) -> None:
        """End this process if it waits longer than `seconds` for another rank."""

    def wait_for_turn(self, late: bool = False) -> None:
        """Wait before reporting an error that other ranks may report as well.

        Args:
            late: Whether another rank is likely to know more.
        """

    def abort(self, code: int) -> None:
        """End all ranks at once, including this one."""


class _Watch:
    """Ends this process after it has waited for too long.

    Attributes:
        limit: Maximum seconds.
        since: Start of the current wait, or None.

    Args:
        rank: Index of this rank.
    """

    def __init__(self, rank: int):
        self.limit = START_SECONDS
        self.since: float | None = None
        self._rank = rank
        threading.Thread(target=self._look, name=WATCH, daemon=True).start()

    @contextlib.contextmanager
    def over(self) -> Iterator[None]:
        """Limit the time within this context."""
        self.since = time.monotonic()
        try:
            yield
        finally:
            self.since = None

    def _look(self) -> None:
        # Seconds are counted rather than read off a clock, which goes on while
        # all ranks are suspended.
        last, waited = None, 0.0
        while True:
            pause = min(self.limit / 10, 1.0)
            time.sleep(pause)
            if self.since is None or self.since != last:
                last, waited = self.since, 0.0
                continue
            waited += pause
            if waited >= self.limit:
                time.sleep(TURN_SECONDS * min(self._rank, MOST_TURNS))
                if self.since == last:
                    self._end()

    def _end(self) -> None:
        print(
            f'error: Rank {self._rank} has waited for the others for '
            f'{self.limit:g} s (rank_timeout): one of them hangs, has been '
            'stopped or is far slower. All are ended.',
            file=sys.stderr,
            flush=True,
        )
        time.sleep(FLUSH_SECONDS)
        # The thread that waits would have to be asked to abort properly.
        os._exit(1)


class Ranks(World):
    """Ranks that communicate by buffers over mpi4py.

    Args:
        comm: Communicator of all ranks.
        here: Communicator of the ranks on this machine.
        watch: Ends this process if a message takes too long.
    """

    def __init__(self, comm: Any, here: Any, watch: _Watch):
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self._comm = comm
        self._here = here
        self._watch = watch
        self._near: shared_sum.SharedSum | None = None
        if here.Get_size() == self.size:
            self._near = shared_sum.SharedSum(comm)

    def share(self, value: Any) -> Any:
        text = json.dumps(value).encode() if self.is_first else b''
        size = np.array(len(text), np.int64)
        self.send(self._comm.Bcast, size)
        packed = np.frombuffer(text, np.uint8).copy()
        packed.resize(int(size))
        self.send(self._comm.Bcast, packed)
        return json.loads(packed.tobytes())

    def gather(self, value: Any) -> list[Any]:
        return self._gather(self._comm, value)

    def gather_here(self, value: Any) -> list[Any]:
        return self._gather(self._here, value)

    def _gather(self, comm: Any, value: Any) -> list[Any]:
        text = np.frombuffer(json.dumps(value).encode(), np.uint8)
        sizes = np.empty(comm.size, np.int64)
        self.send(comm.Allgather, np.array([len(text)], np.int64), sizes)
        packed = np.empty(int(sizes.sum()), np.uint8)
        self.send(comm.Allgatherv, text, (packed, sizes))
        parts = np.split(packed, np.cumsum(sizes)[:-1])
        return [json.loads(part.tobytes()) for part in parts]

    def count_here(self) -> tuple[int, int]:
        return self._here.Get_rank(), self._here.Get_size()

    def send(self, message: Callable[..., None], *arguments: Any) -> None:
        """Call a function of the communicator within the time limit."""
        began = self._watch.since = time.monotonic()
        try:
            message(*arguments)
        finally:
            self._watch.since = None
            self.seconds += time.monotonic() - began

    def add_up(self, mine: np.ndarray, total: np.ndarray) -> None:
        """Set an array to the sum over all ranks."""
        near = self._near
        if near and near.works and mine.nbytes <= shared_sum.MOST_BYTES:
            self.send(near.add_up, mine, total)
        else:
            self.send(self._comm.Allreduce, mine, total)

    def collect(self, mine: np.ndarray, every: np.ndarray, root: int | None) -> None:
        """Gather arrays `[rank, ...]` to all ranks or to one."""
        if root is None:
            self.send(self._comm.Allgather, mine, every)
        else:
            self.send(self._comm.Gather, mine, every, root)

    def spread(self, array: np.ndarray, root: int) -> None:
        """Set an array to that of the rank `root`."""
        self.send(self._comm.Bcast, array, root)

    def watch(self, seconds: float) -> None:
        self._watch.limit = seconds

    def wait_for_turn(self, late: bool = False) -> None:
        turns = min(self.rank, MOST_TURNS)
        time.sleep(TURN_SECONDS * turns + LATE_SECONDS * late)

    def abort(self, code: int) -> None:
        _abort(code)


# The world of whoever is not told of other ranks.
ALONE = World()


def count_ranks() -> int:
    """Return the number of processes that the launcher started."""
    return max(int(os.environ.get(name, 1)) for name in SIZES)


@functools.cache
def connect() -> World:
    """Return the world of this process; cached."""
    if count_ranks() == 1:
        return ALONE
    watch = _Watch(guess_rank())
    with watch.over():
        return _find_ranks(watch)


def _find_ranks(watch: _Watch) -> Ranks:
    """Initialize MPI."""
    try:
        import mpi4py

        # Programs run on several threads, but only one of them speaks.
        mpi4py.rc.thread_level = 'serialized'
        from mpi4py import MPI
    except ImportError as error:
        raise errors.ConfigError(
            f'This is one of {count_ranks()} processes that MPI has started, '
            "but mpi4py is not installed: pip install 'agents[mpi]'."
        ) from error
    found = MPI.COMM_WORLD.Get_size()
    if found != count_ranks():
        raise errors.ConfigError(
            f'A launcher has started {count_ranks()} processes, but mpi4py '
            f'finds {found}, as it is of another MPI. Use the mpiexec that '
            'belongs to it.'
        )
    # Of their own, so that nobody else's messages come between.
    comm = MPI.COMM_WORLD.Dup()
    _end_all_at_errors(comm)
    here = comm.Split_type(MPI.COMM_TYPE_SHARED)
    here.Barrier()
    leftovers.remove_names()  # All have found it by now.
    return Ranks(comm, here, watch)


def guess_rank() -> int:
    """Return the rank by environment variables, before MPI is initialized."""
    return max(int(os.environ.get(name, 0)) for name in RANKS)


def _end_all_at_errors(comm: Any) -> None:
    """End all ranks after an uncaught exception.

    The others would wait for a rank that has ended.
    """
    before = sys.excepthook

    def tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        before(kind, error, trace)
        _abort(1)

    sys.excepthook = tell


def _abort(code: int) -> None:
    """End this process, whereupon the launcher ends all others.

    Not by MPI_Abort, which runs exit handlers: those of TensorFlow destroy objects that other
    threads still use, and the process may crash.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    time.sleep(FLUSH_SECONDS)
    os._exit(code)
