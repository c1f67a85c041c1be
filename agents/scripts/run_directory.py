"""The directory of a run: who it belongs to, and that none is left empty."""

import contextlib
import datetime
import fcntl
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import TextIO

from agents.tools import errors

LOCK = 'lock'


@contextlib.contextmanager
def claimed(logdir: str | pathlib.Path, name: str) -> Iterator[pathlib.Path]:
    """Make a directory for a run that no other process will use.

    It is named after the time, or the next that no other run has.
    """
    now = datetime.datetime.now()
    with _made(pathlib.Path(logdir)) as parent:
        while True:
            directory = parent / f'{now:%Y%m%dT%H%M%S}-{name}'
            try:
                directory.mkdir()
                break
            except FileExistsError:
                now += datetime.timedelta(seconds=1)
            except OSError as error:
                raise _cannot_write(directory, error) from error
        try:
            yield directory
        finally:
            _remove_empty([directory])


@contextlib.contextmanager
def locked(directory: str | pathlib.Path) -> Iterator[None]:
    """Refuse the directory of a run to others meanwhile; makes it if need be.

    The lock is the kernel's, so that it goes with the process.
    """
    with _made(pathlib.Path(directory)) as path, _lock(path / LOCK):
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                if os.listdir(path) == [LOCK]:
                    (path / LOCK).unlink()


@contextlib.contextmanager
def _made(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Make a directory and all it is in; what is empty then goes again."""
    made: list[pathlib.Path] = []
    try:
        try:
            for each in (path, *path.parents):
                if not each.exists():
                    made.append(each)
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _cannot_write(path, error) from error
        yield path
    finally:
        _remove_empty(made)


def _remove_empty(directories: Sequence[pathlib.Path]) -> None:
    """Remove directories, each before the one that it is in."""
    for directory in directories:
        with contextlib.suppress(OSError):  # It is not empty, or not there.
            directory.rmdir()


@contextlib.contextmanager
def _lock(path: pathlib.Path) -> Iterator[None]:
    file = _open_for_good(path)
    with file:
        yield


def _open_for_good(path: pathlib.Path) -> TextIO:
    """Open a file and lock it, unless it is removed by its last owner."""
    while True:
        try:
            file = path.open('w')
        except OSError as error:
            raise _cannot_write(path.parent, error) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise errors.ConfigError(
                f'Another process is training in {path.parent}. Wait for it, '
                'or choose another --timestamp.'
            ) from None
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        file.close()


def _cannot_write(path: pathlib.Path, error: OSError) -> errors.ConfigError:
    return errors.ConfigError(f'Cannot write to {path}: {error}.')
