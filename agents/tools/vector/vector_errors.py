"""Errors of vectors of environments, which say where they come from."""

import contextlib
from collections.abc import Iterator

from agents.tools import errors


class VectorErrors:
    """Makes the errors of a vector.

    Attributes:
        count: How many environments it has, once that is known.

    Args:
        first: Index of the first of them within the batch.
    """

    def __init__(self, first: int):
        self.count = 0
        self._first = first

    @property
    def name(self) -> str:
        """What to call the vector."""
        last = self._first + self.count - 1
        if last < self._first:
            return 'The vector of environments'
        return f'The vector of environments {self._first} to {last}'

    @contextlib.contextmanager
    def telling(self, doing: str) -> Iterator[None]:
        """Say of an error in the vector where it comes from."""
        try:
            yield
        except BaseException as error:
            raise self.raised(doing, error) from None

    def told(self, text: object) -> errors.EnvError:
        """An error that says all there is to say but for where it is from."""
        return errors.EnvError(f'{self.name}: {text}')

    def raised(self, doing: str, error: BaseException) -> BaseException:
        """The error of a vector that raised one."""
        return errors.of_environment(error, self.name, doing)

    def broken(self, method: str, what: str, index: int | None = None) -> errors.EnvError:
        """The error of a vector that returned what it should not.

        Args:
            method: Which method did.
            what: What it returned, or what is wrong of an environment's.
            index: Which environment's, if that is known.
        """
        who = self.name
        if index is not None:
            who = f'Environment {self._first + index}, one of a vector,'
        return errors.EnvError(
            f'{who} broke the contract of gymnasium.vector.VectorEnv.{method}: {what}.'
        )
