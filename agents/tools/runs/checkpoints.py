"""Files of checkpoints; the saver decides on their contents.

A checkpoint is a directory named after the step. It holds tensors in the safetensors format and a
manifest with their size and hash, and no code. It is written under another name, synced to disk
and renamed, so that a directory of that name is always complete.

The manifest also holds the version that wrote it, and the mean score of the evaluation before. The
best checkpoint follows from the manifests alone; no other file could contradict them.
"""

import contextlib
import hashlib
import json
import math
import os
import pathlib
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import agents
from agents.tools import errors
from agents.tools.runs import files

MANIFEST = 'manifest.json'
TENSORS = 'variables.safetensors'

# Limits for files that may come from strangers.
MANIFEST_BYTES = 10_000
FILE_BYTES = 2**32

# The names of checkpoints; steps are numbers of 64 bits.
_STEP = '[0-9]{12,18}'

# What is added to a checkpoint's name while another takes its place.
REPLACED = '.replaced'

# The word for the one with the highest score.
BEST = 'best'


class Scored(NamedTuple):
    """Step of a checkpoint, and the score of the evaluation before it."""

    step: int
    score: float


def path_of(directory: pathlib.Path, step: int) -> pathlib.Path:
    return directory / f'{step:012d}'


def steps(directory: pathlib.Path) -> list[int]:
    """Return the steps of all checkpoints in order."""
    if not files.is_directory(directory):
        return []
    with os.scandir(directory) as entries:
        found = [e.name for e in entries if e.is_dir(follow_symlinks=False)]
    numbers = [int(name) for name in found if re.fullmatch(_STEP, name)]
    return sorted(n for n in numbers if path_of(directory, n).name in found)


def find_best(
    directory: pathlib.Path, warn: Callable[[str], None], last: int | None = None
) -> Scored | None:
    """Return the checkpoint with the highest score; the first of equal ones.

    Args:
        directory: Directory of the checkpoints.
        warn: Called about damaged checkpoints that are skipped, if they have a higher score or none
            that can be read.
        last: Last step to consider, by default all.
    """
    known = steps(directory)
    counting = [step for step in known if last is None or step <= last]
    for scored in _by_score(directory, counting, warn):
        try:
            verify(path_of(directory, scored.step))
            return scored
        except errors.UserError as error:
            warn(f'{error} It was the best; the next best takes its place.')
    return None


@contextlib.contextmanager
def replacing(final: pathlib.Path, score: float | None = None) -> Iterator[pathlib.Path]:
    """Yield a directory to write a checkpoint into, which then gets its final name.

    An existing checkpoint of the name is kept until the new one is on disk.

    Args:
        final: Final name.
        score: Mean score of the evaluation before, if there was one.
    """
    new = final.with_name(f'.{final.name}.{os.getpid()}')
    try:
        # Perhaps left by a killed process that had the same number.
        shutil.rmtree(new, ignore_errors=True)
        files.make_directory(final.parent)
        new.mkdir()
        yield new
        seal(new, score)
        verify(new)
        _rename(new, final)
        files.sync(final.parent)
        shutil.rmtree(_replaced(final), ignore_errors=True)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def verify(path: pathlib.Path) -> None:
    """Raise an error unless every file of a checkpoint is as it was written."""
    try:
        if not files.is_directory(path):
            raise ValueError('there is no such directory')
        expected = _read_manifest(path)['files']
        if set(expected) != {TENSORS}:
            raise ValueError(
                f'{MANIFEST} lists other files than {TENSORS}, as those of earlier versions do'
            )
        if _summary(path / TENSORS) != expected[TENSORS]:
            raise ValueError(f'{TENSORS} has changed')
    except (errors.UserError, ValueError, LookupError, TypeError) as error:
        raise errors.UserError(
            f'The checkpoint {path} is not whole: {str(error).rstrip(".")}.'
        ) from error


def last_whole(directory: pathlib.Path) -> pathlib.Path | None:
    """Return the last checkpoint that is undamaged."""
    paths = [path_of(directory, step) for step in reversed(steps(directory))]
    return next(filter(is_whole, paths), None)


def count_numbers(path: pathlib.Path) -> int:
    """Return the number of 32-bit numbers that fit into a checkpoint."""
    return (path / TENSORS).stat().st_size // 4


def is_whole(path: pathlib.Path) -> bool:
    try:
        verify(path)
    except errors.UserError:
        return False
    return True


def clear_up(directory: pathlib.Path) -> None:
    """Recover from an interrupted save. The caller must hold the lock of the run."""
    if not files.is_directory(directory):
        return
    with files.telling(directory):
        with os.scandir(directory) as entries:
            found = [e.path for e in entries if e.is_dir(follow_symlinks=False)]
        for path in map(pathlib.Path, found):
            replaced = re.fullmatch(f'({_STEP}){REPLACED}', path.name)
            if replaced and not path.with_name(replaced[1]).exists():
                path.rename(path.with_name(replaced[1]))
            elif replaced or re.fullmatch(rf'\.{_STEP}\.[0-9]+', path.name):
                shutil.rmtree(path)


def remove(path: pathlib.Path) -> None:
    with files.telling(path):
        shutil.rmtree(path)  # Which does not follow links.


def _replaced(final: pathlib.Path) -> pathlib.Path:
    return final.with_name(f'{final.name}{REPLACED}')


def seal(path: pathlib.Path, score: float | None = None) -> None:
    """Sync the tensors to disk and write the manifest."""
    files.sync(path / TENSORS)
    manifest: dict[str, Any] = {
        'version': agents.__version__,
        'files': {TENSORS: _summary(path / TENSORS)},
    }
    if score is not None:
        manifest['score'] = float(score)
    text = json.dumps(manifest, indent=2)
    files.write(path / MANIFEST, text.encode())


def _by_score(
    directory: pathlib.Path, steps: Sequence[int], warn: Callable[[str], None]
) -> list[Scored]:
    """Return those checkpoints that have a score, the best first."""
    found = []
    for step in steps:
        path = path_of(directory, step)
        if not os.path.lexists(path / MANIFEST):
            continue  # Somebody was killed who removed it.
        try:
            score = _read_manifest(path).get('score')
        except (errors.UserError, ValueError) as error:
            warn(
                f'The checkpoint {path} does not tell its score: {error}. It '
                'may have been the best.'
            )
            continue
        if score is not None:
            found.append(Scored(step, score))
    return sorted(found, key=lambda each: (-each.score, each.step))


def _read_manifest(path: pathlib.Path) -> dict[str, Any]:
    """Read the manifest of a checkpoint."""
    manifest = path / MANIFEST
    found = files.parse_json(files.read(manifest, MANIFEST_BYTES))
    if not isinstance(found, dict):
        raise ValueError(f'{MANIFEST} is no table')
    score = found.get('score', 0.0)
    if not (isinstance(score, float) and math.isfinite(score)):
        raise ValueError(f'{MANIFEST} has a score that is none')
    return found


def _rename(new: pathlib.Path, final: pathlib.Path) -> None:
    """Give a checkpoint its final name; an existing one of the name is renamed."""
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
    """Rename a damaged checkpoint, if there is one, to keep it for inspection."""
    if os.path.lexists(damaged):
        name = f'{damaged.name}.{secrets.token_hex(4)}.damaged'
        damaged.rename(damaged.with_name(name))


def _summary(path: pathlib.Path) -> dict[str, int | str]:
    """Return the size and the hash of a file."""
    digest, size = hashlib.sha256(), 0
    with files.opened(path, FILE_BYTES) as file:
        while part := file.read(2**20):
            digest.update(part)
            size += len(part)
    return {'bytes': size, 'sha256': digest.hexdigest()}
