"""The errors that are a user's to mend, told in one clear message."""

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
    """Something the user can mend; commands print it without traceback.

    A message may quote a file, and the file may be a stranger's. Whatever is
    in it, the message is one line, which moves no cursor of a terminal and
    cannot be taken for two messages.
    """

    def __init__(self, message: 'str | UserError' = ''):
        # Gymnasium makes one anew of another that comes from a process.
        super().__init__(self._clean(str(message)))

    @staticmethod
    def _clean(message: str) -> str:
        return shorten(escape(message), MOST_CHARACTERS)


class ConfigError(UserError, ValueError):
    """A setting, name or file that cannot be used as it is."""


class WriteError(UserError, OSError):
    """Something cannot be written, for example on a disk that is full."""


class MisfitError(ConfigError):
    """A checkpoint or an environment does not fit the run."""


class EnvError(UserError, RuntimeError):
    """An environment raised, died, hung or broke its contract.

    The message may have several lines, which are those of a traceback.
    """

    @staticmethod
    def _clean(message: str) -> str:
        lines = message.expandtabs().split('\n')
        return '\n'.join(map(escape, lines))


class WorkerDied(EnvError):
    """A worker process ended by itself, whatever its environment did."""


class ElsewhereError(UserError):
    """Another rank cannot go on, and knows more of the reason."""


class TooLate(BaseException):
    """Something that an environment does has taken longer than it may."""


class Cancelled(UserError):
    """Stepping was called off from outside, for example by Ctrl-C."""


def of_environment(error: BaseException, who: str, doing: str) -> BaseException:
    """Make the error that a training ends by of one that an environment raised.

    An environment may raise anything: SystemExit, GeneratorExit, an exception
    without a text. Ctrl-C alone stays what it is.

    Args:
        error: What the environment raised, or found of its own results.
        who: Which environment, such as "Environment 3".
        doing: What it was asked for, such as "in step".

    Returns:
        An `EnvError` with the traceback, if it is not an `EnvError` already.
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
    """The traceback of an error, whatever its methods raise."""
    try:
        return ''.join(traceback.format_exception(error)).rstrip()
    except BaseException:
        frames = ''.join(traceback.format_tb(error.__traceback__))
        return f'{frames}{type(error).__name__}'


def text_of(error: BaseException) -> str:
    """The text of an error, or that there is none."""
    try:
        return str(error)
    except BaseException:
        return '(its text raises an error itself)'


def describe(error: BaseException) -> str:
    """The type and the text of an error, in a line."""
    return escape(f'{type(error).__name__}: {text_of(error)}')


def escape(text: str) -> str:
    """Replace characters that are not printed as themselves by their codes.

    Letters of all languages stay as they are. Control characters, ends of
    lines and marks that change the direction of writing do not.
    """
    return ''.join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def quantity(number: int, noun: str) -> str:
    """Write a number and its noun, as in `1 update` and `2,000 updates`."""
    return f'{number:,} {noun}' + 's' * (number != 1)


def shorten(text: str, most: int) -> str:
    """Leave out the middle of a text that has more characters than some."""
    if len(text) <= most:
        return text
    half = (most - 3) // 2
    return f'{text[:half]} … {text[-half:]}'


def in_an_operation(message: str) -> str:
    """Say what went wrong in an operation of TensorFlow, in a line.

    Where in the graph it was, and what followed from it, is of no help to a
    user.
    """
    line = message.partition('\n')[0]
    return re.sub(r'^\{\{.*?\}\} | \[Op:.*$', '', line)


def in_a_line(error: EnvError) -> str:
    """Say it without the traceback that it may have."""
    first, *others = str(error).splitlines()
    return f'{first.rstrip(":")}: {others[-1]}' if others else first


def nearest(name: str, choices: Iterable[str]) -> str:
    """Say which of the choices the name is closest to, to end a sentence.

    Returns:
        `"; did you mean 'x'?"`, or a full stop if nothing is close.
    """
    close = difflib.get_close_matches(str(name), list(choices), n=1)
    return f'; did you mean {close[0]!r}?' if close else '.'


def require_integer(name: str, value: Any, least: int, most: int) -> None:
    """Refuse what is no integer within limits, or a truth value."""
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_integer or not least <= value <= most:
        raise ConfigError(
            f'{name} must be an integer from {least:,} to {most:,}, got '
            f'{shorten(repr(value), 100)}.'
        )


def require_positive(name: str, value: float) -> None:
    """Refuse a number of things below 1."""
    if value < 1:
        raise ConfigError(f'{name} must be at least 1, got {value}.')


def require_known(
    kind: str, name: str, choices: Iterable[str], synonyms: Mapping[str, str] | None = None
) -> None:
    """Refuse a name that is none of the choices, and list these.

    Args:
        kind: What the name is of, such as "setting".
        name: The name.
        choices: Names that are allowed.
        synonyms: Names of other libraries, with the choices that they mean.
    """
    names = list(choices)
    if name not in names:
        meant = synonyms.get(name, name) if synonyms else name
        raise ConfigError(
            f'There is no {kind} {name!r}{nearest(meant, names)} There are {", ".join(names)}.'
        )
