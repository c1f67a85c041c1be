"""Restarts of workers."""

from collections.abc import Callable

from agents.tools import errors


class Restarts:
    """Budget of restarts for the workers of all batches.

    Attributes:
        budget: Number of restarts allowed.
        count: Number of restarts so far.

    Args:
        budget: Number of restarts allowed.
        tell: Receives a line about each restart.
    """

    def __init__(self, budget: int = 0, tell: Callable[[str], None] = lambda text: None):
        self.budget = budget
        self.count = 0
        self._tell = tell

    def spend(self, error: errors.EnvError) -> None:
        """Count and report a restart, or raise the error if the budget is spent."""
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
