"""Whose turn it is, told by a few numbers in shared memory.

A request for a step is a number that the parent counts up; the reply is that
the worker writes the same. Who waits looks at the numbers as long as it stays
awake, see `agents.tools.workers.channel`. Before it sleeps it says so here, and
only then does the other send a byte that wakes it up. That spares both of them
the system calls that would take longer than a small environment's step.

It takes a processor on which others see what a process writes in the order in
which it writes it. Elsewhere everybody is taken to be asleep all the time.
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
    """The numbers that a parent and a worker share.

    Attributes:
        current: The index of the environment at work.

    Args:
        memory: Shared memory that begins with them.
    """

    def __init__(self, memory: mmap.mmap):
        self._numbers = memoryview(memory)[:SIZE].cast('q')
        self.current = self._numbers[CURRENT : CURRENT + 1]

    @property
    def asked(self) -> int:
        """The number of the last request."""
        return self._numbers[ASKED]

    @property
    def answered(self) -> int:
        """The number of the request that the last reply answers."""
        return self._numbers[ANSWERED]

    @property
    def kind(self) -> int:
        """The kind of the last request."""
        return self._numbers[KIND]

    def ask(self, number: int, kind: int) -> bool:
        """Make a request; returns whether the worker has to be woken up."""
        numbers = self._numbers
        numbers[KIND] = kind
        numbers[ASKED] = number
        return not IN_ORDER or numbers[WORKER_SLEEPS] == 1

    def answer(self, number: int) -> bool:
        """Reply to a request; returns whether the parent has to be woken up.

        By the time that this is looked up, the parent may have seen the reply
        and sleep because of the next request. That is not to be woken up.
        """
        numbers = self._numbers
        numbers[ANSWERED] = number
        return not IN_ORDER or numbers[AWAITED] == number

    def is_asked(self, number: int) -> bool:
        """Whether there is a request after the one of a number."""
        return IN_ORDER and self._numbers[ASKED] != number

    def is_answered(self, number: int) -> bool:
        """Whether the request of a number has been replied to."""
        return IN_ORDER and self._numbers[ANSWERED] == number

    def let_worker_sleep(self, sleeps: bool) -> None:
        """Say whether the worker looks at the numbers or has to be woken up."""
        self._numbers[WORKER_SLEEPS] = sleeps

    def let_parent_sleep(self, number: int) -> None:
        """Say that the parent has to be woken up by the reply to a request."""
        self._numbers[AWAITED] = number
