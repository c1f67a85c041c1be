"""Sums over ranks of one machine, by memory that they share."""

from typing import Any

import numpy as np

# The longest array that goes this way. Shared memory is scarce in containers.
MOST_BYTES = 2**22

# What arrays begin at multiples of, of the lines of a cache.
ALIGNMENT = 64


class SharedSum:
    """Adds arrays in half the time that a message takes, or less.

    Each rank copies its array to where all can see it, waits for the others,
    and adds up all of them, in the same order as everybody. The next array is
    copied to another place, where nobody can still be reading: who has come to
    the next waiting has read the last.

    Args:
        comm: A communicator of ranks of one machine.
    """

    def __init__(self, comm: Any):
        self._comm = comm
        self._window: Any = None
        self._room = 0
        self._turn = 0
        self._views: dict[tuple[str, int], list[list[np.ndarray]]] = {}

    def add_up(self, mine: np.ndarray, total: np.ndarray) -> None:
        """Set an array to the sum of those of all ranks."""
        key = mine.dtype.str, mine.size
        if key not in self._views:
            self._views[key] = self._view(mine)
        places = self._views[key][self._turn]
        self._turn = 1 - self._turn
        places[self._comm.rank][...] = mine.reshape(-1)
        self._window.Sync()
        self._comm.Barrier()
        self._window.Sync()
        flat = total.reshape(-1)
        np.add(places[0], places[1], out=flat)
        for place in places[2:]:
            np.add(flat, place, out=flat)

    def _view(self, like: np.ndarray) -> list[list[np.ndarray]]:
        """Where the arrays of each rank are, in both turns."""
        if like.nbytes > self._room:
            self._grow(like.nbytes)
        return [
            [
                np.frombuffer(
                    self._window.Shared_query(rank)[0],
                    like.dtype,
                    like.size,
                    turn * self._room,
                )
                for rank in range(self._comm.size)
            ]
            for turn in range(2)
        ]

    def _grow(self, size: int) -> None:
        """Make room; all ranks come here at once, as they add the same."""
        from mpi4py import MPI

        self._views.clear()
        if self._window is not None:
            self._window.Unlock_all()
            self._window.Free()
        self._room = -(-size // ALIGNMENT) * ALIGNMENT
        self._window = MPI.Win.Allocate_shared(
            2 * self._room, 1, comm=self._comm
        )
        self._window.Lock_all(MPI.MODE_NOCHECK)
