"""Workers that are started anew."""

from collections.abc import Callable

from agents.tools import errors


class Restarts:
    """How many workers that failed may be replaced, by all batches together.

    Attributes:
        budget: How many times in all.
        count: How many times so far.

    Args:
        budget: How many times in all.
        tell: Receives a line about each of them.
    """

    def __init__(self, budget: int = 0, tell: Callable[[str], None] = lambda text: None):
        self.budget = budget
        self.count = 0
        self._tell = tell

    def spend(self, error: errors.EnvError) -> None:
        """Count and tell one more, or raise the error if none is left."""
        if not self.budget:
            raise error
        if self.count >= self.budget:
            raise errors.EnvError(
                f'{error}\nIts worker was not started anew, since that has '
                f'happened worker_restarts={self.budget} times already.'
            ) from None
        self.count += 1
        self._tell(
            f'a worker is started anew, {self.count} of {self.budget}: {errors.in_a_line(error)}'
        )
