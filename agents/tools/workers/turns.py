"""Sequence numbers in shared memory, by which a parent and a worker take turns.

To request a step, the parent increments a number; to reply, the worker writes the same number.
While waiting, each side spins on the numbers, see `agents.tools.workers.channel`. Before it blocks
it sets a flag here, and only then the other side sends a byte to wake it. This avoids system calls,
which take longer than a step of a small environment.

It needs a processor on which writes become visible in order. On others, both sides count as blocked
all the time.
"""

import mmap
import platform

SIZE = 64  # Bytes, a cache line.

# Which number is which: the index of the environment at work, the number and
# the kind of the last request, the number of the request that the last reply
# answers, whether the worker sleeps, and the request whose reply has to wake up
# the parent.
CURRENT, ASKED, KIND, ANSWERED, WORKER_SLEEPS, AWAITED = range(6)

# Kinds of requests: in words, which follow by the channel, or not.
IN_WORDS, STEP, RESET, ATTACH = range(4)

IN_ORDER = platform.machine().lower() in ('x86_64', 'amd64', 'i686', 'x86')


class Turns:
    """Numbers that a parent and a worker share.

    Attributes:
        current: Index of the environment that is active.

    Args:
        memory: Shared memory that begins with the numbers.
    """

    def __init__(self, memory: mmap.mmap):
        self._numbers = memoryview(memory)[:SIZE].cast('q')
        self.current = self._numbers[CURRENT : CURRENT + 1]

    @property
    def asked(self) -> int:
        """Number of the last request."""
        return self._numbers[ASKED]

    @property
    def answered(self) -> int:
        """Number of the request of the last reply."""
        return self._numbers[ANSWERED]

    @property
    def kind(self) -> int:
        """Kind of the last request."""
        return self._numbers[KIND]

    def ask(self, number: int, kind: int) -> bool:
        """Make a request; returns whether the worker has to be woken up."""
        numbers = self._numbers
        numbers[KIND] = kind
        numbers[ASKED] = number
        return not IN_ORDER or numbers[WORKER_SLEEPS] == 1

    def answer(self, number: int) -> bool:
        """Reply to a request; returns whether the parent has to be woken up.

        By the time of the check, the parent may have seen the reply and be blocked on the next
        request, for which it must not be woken.
        """
        numbers = self._numbers
        numbers[ANSWERED] = number
        return not IN_ORDER or numbers[AWAITED] == number

    def is_asked(self, number: int) -> bool:
        """Return whether there is a request after that of a number."""
        return IN_ORDER and self._numbers[ASKED] != number

    def is_answered(self, number: int) -> bool:
        """Return whether the request of a number has been answered."""
        return IN_ORDER and self._numbers[ANSWERED] == number

    def let_worker_sleep(self, sleeps: bool) -> None:
        """Set whether the worker is blocked and has to be woken up."""
        self._numbers[WORKER_SLEEPS] = sleeps

    def let_parent_sleep(self, number: int) -> None:
        """Ask to be woken up by the reply to a request."""
        self._numbers[AWAITED] = number
