"""Limit of the share of time that an activity takes."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator

# Seconds after which it may be done again, however long it takes.
LONGEST_PAUSE = 60.0


class Budget:
    """Allows an activity while it takes no more than a share of the time.

    The first time is not counted, as it includes setup.

    Args:
        share: Share of the time; 1 is unlimited.
        clock: Returns the time in seconds.
    """

    def __init__(self, share: float, clock: Callable[[], float] = time.perf_counter):
        self._share = share
        self._clock = clock
        self._is_first = True
        self._allowed_from = -math.inf

    def allows(self) -> bool:
        """Return whether the activity is allowed now."""
        return self._clock() >= self._allowed_from

    @contextlib.contextmanager
    def spend(self) -> Iterator[None]:
        """Measure the activity within this context."""
        began = self._clock()
        yield
        ended = self._clock()
        if not self._is_first:
            pause = (ended - began) * (1 / self._share - 1)
            self._allowed_from = ended + min(pause, LONGEST_PAUSE)
        self._is_first = False
