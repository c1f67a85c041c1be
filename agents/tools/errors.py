"""Errors that a user can fix, each with one clear message."""

import difflib
import numbers
import re
import signal
import traceback
from collections.abc import Iterable, Mapping
from typing import Any

# How long a message may be that quotes a file.
MOST_CHARACTERS = 2_000


class UserError(Exception):
    """Error that the user can fix; commands print it without a traceback.

    A message may quote a file of a stranger. It is always one line and contains no control
    characters, so that it moves no cursor and cannot pass for two messages.
    """

    def __init__(self, message: 'str | UserError' = ''):
        # Gymnasium makes one anew of another that comes from a process.
        super().__init__(self._clean(str(message)))

    @staticmethod
    def _clean(message: str) -> str:
        return shorten(escape(message), MOST_CHARACTERS)


class ConfigError(UserError, ValueError):
    """Invalid setting, name or file."""


class WriteError(UserError, OSError):
    """A file cannot be written, for example on a full disk."""


class MisfitError(ConfigError):
    """A checkpoint or an environment does not fit the run."""


class EnvError(UserError, RuntimeError):
    """An environment raised, died, hung or broke its contract.

    The message may contain a traceback of several lines.
    """

    @staticmethod
    def _clean(message: str) -> str:
        lines = message.expandtabs().split('\n')
        return '\n'.join(map(escape, lines))


class WorkerDied(EnvError):
    """A worker process ended by itself."""


class ElsewhereError(UserError):
    """Another rank failed, and knows the reason."""


class TooLate(BaseException):
    """A call of an environment exceeded its time limit."""


class Cancelled(UserError):
    """Stepping was cancelled, for example by Ctrl-C."""


def of_environment(error: BaseException, who: str, doing: str) -> BaseException:
    """Convert an exception of an environment to the error that ends the training.

    Environments may raise anything: SystemExit, GeneratorExit, an exception without a text. Only
    Ctrl-C stays what it is.

    Args:
        error: Exception of the environment, or about its results.
        who: Name of the environment, such as "Environment 3".
        doing: Name of the call, such as "in step".

    Returns:
        `EnvError` with the traceback, if it is not an `EnvError` already.
    """
    if isinstance(error, EnvError):
        return EnvError(f'{who}: {error}')
    # A worker, which ignores Ctrl-C, raises KeyboardInterrupt by itself only.
    heard = signal.getsignal(signal.SIGINT) != signal.SIG_IGN
    ours = (Cancelled, TooLate, *([KeyboardInterrupt] if heard else []))
    if isinstance(error, ours):
        return error
    return EnvError(f'{who} raised an error {doing}:\n{describe_trace(error)}')


def describe_trace(error: BaseException) -> str:
    """Format the traceback of an exception, even if its methods raise."""
    try:
        return ''.join(traceback.format_exception(error)).rstrip()
    except BaseException:
        frames = ''.join(traceback.format_tb(error.__traceback__))
        return f'{frames}{type(error).__name__}'


def text_of(error: BaseException) -> str:
    """Return the text of an exception, even if its methods raise."""
    try:
        return str(error)
    except BaseException:
        return '(its text raises an error itself)'


def describe(error: BaseException) -> str:
    """Return type and text of an exception in one line."""
    return escape(f'{type(error).__name__}: {text_of(error)}')


def escape(text: str) -> str:
    """Replace unprintable characters by escape sequences.

    Letters of all languages are kept. Control characters, line breaks and marks that change the
    direction of text are replaced.
    """
    return ''.join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def quantity(number: int, noun: str) -> str:
    """Format a number and its noun, as in `1 update` and `2,000 updates`."""
    return f'{number:,} {noun}' + 's' * (number != 1)


def shorten(text: str, most: int) -> str:
    """Replace the middle of a text that is too long by an ellipsis."""
    if len(text) <= most:
        return text
    half = (most - 3) // 2
    return f'{text[:half]} … {text[-half:]}'


def in_an_operation(message: str) -> str:
    """Return the first line of a TensorFlow error, without the name of the operation."""
    line = message.partition('\n')[0]
    return re.sub(r'^\{\{.*?\}\} | \[Op:.*$', '', line)


def in_a_line(error: EnvError) -> str:
    """Return the message of an error without its traceback."""
    first, *others = str(error).splitlines()
    return f'{first.rstrip(":")}: {others[-1]}' if others else first


def nearest(name: str, choices: Iterable[str]) -> str:
    """Suggest the closest choice, to end a sentence.

    Returns:
        `"; did you mean 'x'?"`, or a full stop if nothing is close.
    """
    close = difflib.get_close_matches(str(name), list(choices), n=1)
    return f'; did you mean {close[0]!r}?' if close else '.'


def require_integer(name: str, value: Any, least: int, most: int) -> None:
    """Refuse a value that is no integer within limits."""
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_integer or not least <= value <= most:
        raise ConfigError(
            f'{name} must be an integer from {least:,} to {most:,}, got '
            f'{shorten(repr(value), 100)}.'
        )


def require_positive(name: str, value: float) -> None:
    """Refuse a number below 1."""
    if value < 1:
        raise ConfigError(f'{name} must be at least 1, got {value}.')


def require_known(
    kind: str, name: str, choices: Iterable[str], synonyms: Mapping[str, str] | None = None
) -> None:
    """Refuse a name that is not among the choices, and list them.

    Args:
        kind: Kind of the name, such as "setting".
        name: Name.
        choices: Allowed names.
        synonyms: Names of other libraries, with the choices that they mean.
    """
    names = list(choices)
    if name not in names:
        meant = synonyms.get(name, name) if synonyms else name
        raise ConfigError(
            f'There is no {kind} {name!r}{nearest(meant, names)} There are {", ".join(names)}.'
        )
