"""The processes that a launcher of MPI has started to do something together.

What they tell each other outside of graphs, and how they end together. Needs
no TensorFlow; for messages within programs see `agents.tools.graph.mpi`.
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
    """All ranks; here one that is alone, for which there is nothing to do.

    The functions have to be called by all ranks in the same order.

    Attributes:
        rank: Number of this rank, from zero.
        size: Number of ranks.
        seconds: Time spent on messages so far, most of it on waiting for
            slower ranks.
    """

    rank = 0
    size = 1
    seconds = 0.0

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that prints and writes."""
        return self.rank == 0

    def share(self, value: Any) -> Any:
        """What the first rank says, in plain values as in JSON."""
        return value

    def gather(self, value: Any) -> list[Any]:
        """What each rank says, in order."""
        return [value]

    def gather_here(self, value: Any) -> list[Any]:
        """What each rank of this machine says, in order."""
        return [value]

    def count_here(self) -> tuple[int, int]:
        """Which rank of its machine this is, and of how many."""
        return 0, 1

    def watch(self, seconds: float) -> None:
        """End this process once it has waited so long for another."""

    def wait_for_turn(self, late: bool = False) -> None:
        """Wait before telling what others may tell, who end everything then.

        Args:
            late: Whether another is likely to know more.
        """

    def abort(self, code: int) -> None:
        """End all ranks at once, this one as well."""


class _Watch:
    """Ends this process when it has waited for too long.

    Attributes:
        limit: After how many seconds.
        since: When that which is waited for was begun, if something is.

    Args:
        rank: Number of this rank.
    """

    def __init__(self, rank: int):
        self.limit = START_SECONDS
        self.since: float | None = None
        self._rank = rank
        threading.Thread(target=self._look, name=WATCH, daemon=True).start()

    @contextlib.contextmanager
    def over(self) -> Iterator[None]:
        """Watch over what is done within this context."""
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
    """Ranks that speak by a communicator of mpi4py, always of buffers.

    Args:
        comm: The communicator.
        here: That of the ranks on this machine.
        watch: Ends this process when a message takes too long.
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
        """Call a function of the communicator, under watch."""
        began = self._watch.since = time.monotonic()
        try:
            message(*arguments)
        finally:
            self._watch.since = None
            self.seconds += time.monotonic() - began

    def add_up(self, mine: np.ndarray, total: np.ndarray) -> None:
        """Set an array to the sum of those of all ranks."""
        near = self._near
        if near and near.works and mine.nbytes <= shared_sum.MOST_BYTES:
            self.send(near.add_up, mine, total)
        else:
            self.send(self._comm.Allreduce, mine, total)

    def collect(self, mine: np.ndarray, every: np.ndarray, root: int | None) -> None:
        """Gather arrays `[rank, ...]`, to all of the ranks or to one."""
        if root is None:
            self.send(self._comm.Allgather, mine, every)
        else:
            self.send(self._comm.Gather, mine, every, root)

    def spread(self, array: np.ndarray, root: int) -> None:
        """Set an array to that of one rank."""
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
    """How many processes a launcher has started together."""
    return max(int(os.environ.get(name, 1)) for name in SIZES)


@functools.cache
def connect() -> World:
    """Find the other ranks, if there are any."""
    if count_ranks() == 1:
        return ALONE
    watch = _Watch(guess_rank())
    with watch.over():
        return _find_ranks(watch)


def _find_ranks(watch: _Watch) -> Ranks:
    """Let MPI find the ranks."""
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
    """The number of this rank, before MPI tells it."""
    return max(int(os.environ.get(name, 0)) for name in RANKS)


def _end_all_at_errors(comm: Any) -> None:
    """Let an error that nobody catches end all ranks.

    A rank that has just ended is waited for, when the others speak to it and
    when it says goodbye to them.
    """
    before = sys.excepthook

    def tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        before(kind, error, trace)
        _abort(1)

    sys.excepthook = tell


def _abort(code: int) -> None:
    """End this process, whereupon the launcher ends all others.

    Not by MPI_Abort, which runs exit handlers: TensorFlow's destroy what other
    threads still use, and the process may crash.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    time.sleep(FLUSH_SECONDS)
    os._exit(code)
