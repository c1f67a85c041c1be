"""The errors that are a user's to mend, told in one clear message."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something the user can mend; commands print it without traceback."""


class ConfigError(UserError, ValueError):
    """A setting, name or file that cannot be used as it is."""


class WriteError(UserError, OSError):
    """Something cannot be written, for example on a disk that is full."""


class EnvError(UserError, RuntimeError):
    """An environment raised, died, hung or broke its contract."""


class WorkerDied(EnvError):
    """A worker process ended by itself, whatever its environment did."""


class Cancelled(UserError):
    """Stepping was called off from outside, for example by Ctrl-C."""


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


def require_known(kind: str, name: str, choices: Iterable[str]) -> None:
    """Refuse a name that is none of the choices, and say what there is."""
    names = list(choices)
    if name not in names:
        raise ConfigError(
            f'There is no {kind} {name!r}{nearest(name, names)} '
            f'There are {", ".join(names)}.'
        )
