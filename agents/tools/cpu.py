"""CPU cores that this process may run on."""

import contextlib
import os


def cores() -> list[int]:
    """Return the indices of the cores."""
    if hasattr(os, 'sched_getaffinity'):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def take_share(rank: int, count: int) -> None:
    """Pin this process to one of several equal shares of the cores, if there are enough.

    Args:
        rank: Index of the share.
        count: Number of shares.
    """
    mine = cores()
    size = len(mine) // count
    if size:
        with contextlib.suppress(OSError, AttributeError):
            os.sched_setaffinity(0, mine[rank * size : (rank + 1) * size])
