"""The files of checkpoints; their contents are the saver's.

A checkpoint is a directory named after the step. It holds a TensorFlow bundle
and a manifest with the length and the hash of every file, and no code. It is
written under another name, forced to the disk and then renamed, so that
whatever happens meanwhile, a directory with that name is whole.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
import tempfile
from collections.abc import Iterator

from agents.tools import errors

MANIFEST = 'manifest.json'
BUNDLE = 'variables'

# What is added to a checkpoint's name while another takes its place.
REPLACED = '.replaced'


def path_of(directory: pathlib.Path, step: int) -> pathlib.Path:
    return directory / f'{step:012d}'


def steps(directory: pathlib.Path) -> list[int]:
    """The steps of the checkpoints there are, in order."""
    if not directory.is_dir():
        return []
    names = [path.name for path in directory.iterdir()]
    return sorted(int(name) for name in names if _is_step(name))


@contextlib.contextmanager
def replacing(final: pathlib.Path) -> Iterator[pathlib.Path]:
    """A directory to write a checkpoint into, which then gets its name.

    One that has the name already is kept until the new one is on the disk.
    """
    new = final.with_name(f'.{final.name}.{os.getpid()}')
    try:
        # Perhaps left by a killed process that had the same number.
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        yield new
        _seal(new)
        verify(new)
        _rename(new, final)
        _sync(final.parent)
        shutil.rmtree(_replaced(final), ignore_errors=True)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def verify(path: pathlib.Path) -> None:
    """Raise an error unless every file of a checkpoint is as it was written."""
    try:
        manifest = json.loads((path / MANIFEST).read_text())
        files = manifest['files']
        for name, expected in files.items():
            file = path / pathlib.PurePath(name).name
            found = {'bytes': file.stat().st_size, 'sha256': _hash(file)}
            if found != expected:
                raise ValueError(f'{name} has changed')
        if f'{BUNDLE}.index' not in files:
            raise ValueError('it lists no variables')
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.UserError(
            f'The checkpoint {path} is not whole: {error}.'
        ) from error


def is_whole(path: pathlib.Path) -> bool:
    try:
        verify(path)
    except errors.UserError:
        return False
    return True


def clear_up(directory: pathlib.Path) -> None:
    """Finish what a process was killed in; only for who alone writes here.

    What such a process had not completed is of no use to anybody, and large.
    """
    if not directory.is_dir():
        return
    try:
        for path in [path for path in directory.iterdir() if path.is_dir()]:
            replaced = re.fullmatch(rf'([0-9]{{12,}}){REPLACED}', path.name)
            if replaced and not path.with_name(replaced[1]).exists():
                path.rename(path.with_name(replaced[1]))
            elif replaced or re.fullmatch(r'\.[0-9]{12,}\.[0-9]+', path.name):
                shutil.rmtree(path)
    except OSError as error:
        raise errors.UserError(
            f'Cannot clear up the checkpoints in {directory}: {error}.'
        ) from error


def _is_step(name: str) -> bool:
    return re.fullmatch('[0-9]{12,}', name) is not None


def _replaced(final: pathlib.Path) -> pathlib.Path:
    return final.with_name(f'{final.name}{REPLACED}')


def _seal(path: pathlib.Path) -> None:
    """Write the manifest and force all files to the disk."""
    files = {
        file.name: {'bytes': file.stat().st_size, 'sha256': _hash(file)}
        for file in sorted(path.iterdir())
    }
    (path / MANIFEST).write_text(json.dumps({'files': files}, indent=2))
    for each in (*path.iterdir(), path):
        _sync(each)


def _rename(new: pathlib.Path, final: pathlib.Path) -> None:
    """Give a checkpoint its name; one that has it gets another."""
    if not is_whole(final):
        _set_aside(final)
        new.rename(final)
        return
    final.rename(_replaced(final))
    try:
        new.rename(final)
    except OSError:
        _replaced(final).rename(final)
        raise


def _set_aside(damaged: pathlib.Path) -> None:
    """Rename a damaged checkpoint, if there is one, so that it can be seen."""
    if damaged.exists():
        aside = tempfile.mkdtemp('.damaged', f'{damaged.name}.', damaged.parent)
        damaged.rename(aside)


def _hash(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _sync(path: pathlib.Path) -> None:
    """Force a file or the entries of a directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
