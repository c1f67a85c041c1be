"""The cores that this process may run on."""

import contextlib
import os


def cores() -> list[int]:
    """The numbers of the cores."""
    if hasattr(os, 'sched_getaffinity'):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def take_share(rank: int, count: int) -> None:
    """Stay on one of several equal parts of the cores, if there are enough.

    Args:
        rank: Which of the parts.
        count: How many there are.
    """
    mine = cores()
    size = len(mine) // count
    if size:
        with contextlib.suppress(OSError, AttributeError):
            os.sched_setaffinity(0, mine[rank * size : (rank + 1) * size])
