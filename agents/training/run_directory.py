"""Run directories: names, locks, contents and removal of empty ones."""

import contextlib
import datetime
import fcntl
import os
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from agents.analysis import run_groups
from agents.config import store
from agents.tools import errors
from agents.tools.runs import files, progress
from agents.training import storage

LOCK = 'lock'


@contextlib.contextmanager
def claimed(logdir: str | pathlib.Path, name: str) -> Iterator[pathlib.Path]:
    """Create a directory for a run that no other process will use.

    Named after the time, or the next free one.
    """
    now = datetime.datetime.now()
    with _made(pathlib.Path(logdir).absolute()) as parent:
        while True:
            directory = parent / f'{now:%Y%m%dT%H%M%S}-{name}'
            try:
                with files.telling(directory):
                    directory.mkdir()
                break
            except errors.WriteError:
                if not os.path.lexists(directory):
                    raise
                now += datetime.timedelta(seconds=1)
        try:
            yield directory
        finally:
            _remove_empty([directory])


@contextlib.contextmanager
def locked(directory: str | pathlib.Path) -> Iterator[None]:
    """Lock the directory of a run within this context; creates it if necessary.

    The lock belongs to the kernel and ends with the process.
    """
    path = pathlib.Path(directory).absolute()
    with _made(path), _lock(path / LOCK):
        try:
            files.require_no_links(path)
            files.clear_up(path)
            yield
        finally:
            with contextlib.suppress(OSError):
                if os.listdir(path) == [LOCK]:
                    (path / LOCK).unlink()


def require_name(name: str, logdir: str | pathlib.Path) -> None:
    """Refuse a name that is no directory within the logdir.

    Slashes make nested directories, as deep as runs are found.
    """
    part = r'\w[\w.=+@-]*'
    if not re.fullmatch(f'{part}(/{part}){{0,{run_groups.DEPTH - 1}}}', name):
        raise errors.ConfigError(
            f'--name={name} must name a directory within {logdir}, such as ant '
            'or robots/ant: letters, digits and _.=+@-, at most '
            f'{run_groups.DEPTH} parts.'
        )
    # All parents of a relative path but the last, which is the logdir itself.
    logdir = pathlib.Path(logdir)
    for parent in list(pathlib.Path(name).parents)[:-1]:
        if os.path.lexists(pathlib.Path(logdir, parent, store.CONFIG_FILE)):
            raise errors.ConfigError(
                f'--name={name} must not be within a run, which {parent} is. Choose another --name.'
            )


def is_run(directory: pathlib.Path) -> bool:
    """Return whether a directory holds a run; refuses other contents."""
    if os.path.lexists(directory / store.CONFIG_FILE):
        return True
    with contextlib.suppress(OSError):  # Then there is nothing yet.
        names = sorted({*os.listdir(directory)} - {LOCK})
        others = [name for name in names if not name.startswith('.')]
        runs = store.list_inside(directory) if others else []
        if runs:
            raise errors.ConfigError(
                f'{directory} holds {store.describe(runs)}. Choose the --name of a run.'
            )
        if others:
            raise errors.ConfigError(
                f'{directory} holds {", ".join(others[:5])} but no '
                f'{store.CONFIG_FILE}, so that it is no run to go on '
                'with. Put that back, or choose another --name.'
            )
    return False


def is_trained(directory: pathlib.Path) -> bool:
    """Return whether a run has been trained; refuses one with missing files.

    A run writes its settings and then its spaces before the first step, a row of results with each
    report, and creates the directory of checkpoints with the first of them. So rows or that
    directory imply that it was trained, and then there must be settings, spaces and a checkpoint.
    Otherwise nothing was saved, and a run starts from the beginning.
    """
    there = {
        name: os.path.lexists(directory / name)
        for name in (store.CONFIG_FILE, storage.SPACES, storage.CHECKPOINTS)
    }
    trained = there[storage.CHECKPOINTS] or _has_results(directory)
    missing = [
        name
        for name, evidence in (
            (store.CONFIG_FILE, trained or there[storage.SPACES]),
            (storage.SPACES, trained),
        )
        if evidence and not there[name]
    ]
    if trained and storage.last_checkpoint(directory) is None:
        missing.append('a checkpoint, or was stopped before the first')
    if missing:
        raise errors.ConfigError(
            f'The run {directory} has been trained but lacks '
            f'{" and ".join(missing)}. Put back what was removed, or choose '
            'another directory or --name to begin anew.'
        )
    return trained


def _has_results(directory: pathlib.Path) -> bool:
    if not os.path.lexists(directory / progress.FILE):
        return False
    return any(True for _ in progress.read(directory))


@contextlib.contextmanager
def _made(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Create a directory with its parents; empty ones are removed afterwards."""
    made: list[pathlib.Path] = []
    try:
        with files.telling(path):
            for each in (path, *path.parents):
                if not each.exists():
                    made.append(each)
            path.mkdir(parents=True, exist_ok=True)
        yield path
    finally:
        _remove_empty(made)


def remove_unused(directory: pathlib.Path) -> None:
    """Remove the directory of a run that contains only its lock."""
    with contextlib.suppress(OSError):
        if set(os.listdir(directory)) <= {LOCK}:
            (directory / LOCK).unlink(missing_ok=True)
            directory.rmdir()


def remove_abandoned(logdir: pathlib.Path, pattern: str) -> None:
    """Remove directories of runs that were killed early: those with only a lock that nobody holds.

    Args:
        logdir: Directory of all runs.
        pattern: Pattern of the names of the directories.
    """
    for directory in logdir.glob(pattern):
        with contextlib.suppress(OSError, errors.UserError):
            if os.listdir(directory) in ([], [LOCK]):
                with _lock(directory / LOCK):
                    remove_unused(directory)


def _remove_empty(directories: Sequence[pathlib.Path]) -> None:
    """Remove directories, each before its parent."""
    for directory in directories:
        with contextlib.suppress(OSError):  # It is not empty, or not there.
            directory.rmdir()


@contextlib.contextmanager
def _lock(path: pathlib.Path) -> Iterator[None]:
    with _open_for_good(path):
        yield


def _open_for_good(path: pathlib.Path) -> BinaryIO:
    """Open and lock a file, again if its last owner has just removed it."""
    while True:
        file = files.open_lock(path)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise errors.ConfigError(
                f'Another process is training in {path.parent}. Wait for it, '
                'or choose another --name.'
            ) from None
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(file.fileno()), os.lstat(path)):
                return file
        file.close()
