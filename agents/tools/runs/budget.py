"""How often something may be done for it to cost little."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator

# Seconds after which it may be done again, however long it takes.
LONGEST_PAUSE = 60.0


class Budget:
    """Allows something as often as it takes no more than a share of the time.

    The first time is not counted: it is slower than all that follow, since
    what they need is prepared then.

    Args:
        share: The share; 1 is no limit.
        clock: Returns the seconds since some moment.
    """

    def __init__(self, share: float, clock: Callable[[], float] = time.perf_counter):
        self._share = share
        self._clock = clock
        self._is_first = True
        self._allowed_from = -math.inf

    def allows(self) -> bool:
        """Tell whether it may be done now."""
        return self._clock() >= self._allowed_from

    @contextlib.contextmanager
    def spend(self) -> Iterator[None]:
        """Do it within this context, which takes the time."""
        began = self._clock()
        yield
        ended = self._clock()
        if not self._is_first:
            pause = (ended - began) * (1 / self._share - 1)
            self._allowed_from = ended + min(pause, LONGEST_PAUSE)
        self._is_first = False
