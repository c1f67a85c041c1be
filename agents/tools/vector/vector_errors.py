"""Errors of vector environments."""

import contextlib
from collections.abc import Iterator

from agents.tools import errors


class VectorErrors:
    """Makes the errors of a vector environment.

    Attributes:
        count: Number of its environments, once known.

    Args:
        first: Index of its first environment within the batch.
    """

    def __init__(self, first: int):
        self.count = 0
        self._first = first

    @property
    def name(self) -> str:
        """Name of the vector environment in errors."""
        last = self._first + self.count - 1
        if last < self._first:
            return 'The vector of environments'
        return f'The vector of environments {self._first} to {last}'

    @contextlib.contextmanager
    def telling(self, doing: str) -> Iterator[None]:
        """Add the origin to exceptions of the vector environment within this context."""
        try:
            yield
        except BaseException as error:
            raise self.raised(doing, error) from None

    def told(self, text: object) -> errors.EnvError:
        """Return an error with a text and the origin."""
        return errors.EnvError(f'{self.name}: {text}')

    def raised(self, doing: str, error: BaseException) -> BaseException:
        """Return the error for an exception of the vector environment."""
        return errors.of_environment(error, self.name, doing)

    def broken(self, method: str, what: str, index: int | None = None) -> errors.EnvError:
        """Return the error for a wrong result.

        Args:
            method: Method that returned it.
            what: Description of the result.
            index: Index of the environment, if known.
        """
        who = self.name
        if index is not None:
            who = f'Environment {self._first + index}, one of a vector,'
        return errors.EnvError(
            f'{who} broke the contract of gymnasium.vector.VectorEnv.{method}: {what}.'
        )
