"""Checkpoints that are complete, or not there at all."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from agents.tools import errors
from agents.tools.backend import tf

MANIFEST = 'manifest.json'
BUNDLE = 'variables'

# The variable that tells where the loop is, and the ending of a checkpoint's
# name while another takes its place.
PLACE = 'step'
REPLACED = '.replaced'

# How often to try to write a checkpoint, and the time between.
TRIES = 3
PAUSE_SECONDS = 0.5


class Saver:
    """Saves variables by name and restores them.

    A checkpoint is a directory named after the step. It holds a TensorFlow
    bundle and a manifest with the length and the hash of every file. It is
    written under another name, forced to the disk and then renamed, so that
    whatever happens meanwhile, a directory with that name is whole. No part of
    it is code.

    Args:
        directory: Directory of the checkpoints.
        variables: The variables by name.
        keep: How many checkpoints to keep.
        partial: Whether checkpoints may hold more than these variables.
    """

    def __init__(
        self,
        directory: str | pathlib.Path,
        variables: Mapping[str, tf.Variable],
        keep: int = 5,
        partial: bool = False,
    ):
        self._directory = pathlib.Path(directory)
        self._variables = dict(variables)
        self._keep = max(keep, 2)
        self._partial = partial

    def steps(self) -> list[int]:
        """The steps of the checkpoints there are, in order."""
        if not self._directory.exists():
            return []
        names = [path.name for path in self._directory.iterdir()]
        return sorted(int(n) for n in names if re.fullmatch('[0-9]{12,}', n))

    def save(self, step: int) -> pathlib.Path:
        """Write a checkpoint; the oldest make room only once it is whole."""
        final = self._path(step)
        if self._is_current(final):
            return final
        self._require_finite()
        for attempt in range(1, TRIES + 1):
            try:
                self._commit(final)
                break
            except OSError as error:
                if attempt == TRIES:
                    raise errors.UserError(
                        f'The checkpoint {final} cannot be written: {error}. '
                        'Those written before are intact.'
                    ) from error
                time.sleep(PAUSE_SECONDS)
        verify(final)
        # Those of later steps were found to be damaged when it was resumed.
        older = [other for other in self.steps() if other < step]
        for old in older[: 1 - self._keep]:
            shutil.rmtree(self._path(old))
        return final

    def restore(
        self,
        step: int | None = None,
        warn: Callable[[str], None] = print,
    ) -> int | None:
        """Set the variables to those of a checkpoint.

        Args:
            step: Which one; by default the last that is whole.
            warn: Told of checkpoints that are damaged and passed over.

        Returns:
            The step, or None if there are no checkpoints.
        """
        if not self._partial:  # Others only look, and perhaps meanwhile.
            _clear_up(self._directory)
        steps = self.steps() if step is None else [step]
        for candidate in reversed(steps):
            path = self._path(candidate)
            try:
                verify(path)
            except errors.UserError as error:
                if step is not None or candidate == steps[0]:
                    raise
                warn(f'{error} Falling back to the one before.')
                continue
            self._read(path)
            return candidate
        return None

    def _path(self, step: int) -> pathlib.Path:
        return self._directory / f'{step:012d}'

    def _is_current(self, path: pathlib.Path) -> bool:
        """Whether a checkpoint is whole and the loop is still where it was.

        One that was written during an evaluation has the same number of
        training steps as that after it.
        """
        if not _is_whole(path):
            return False
        reader = tf.train.load_checkpoint(str(path / BUNDLE))
        place = self._variables.get(PLACE)
        return place is None or reader.get_tensor(PLACE) == int(place)

    def _require_finite(self) -> None:
        for name, variable in self._variables.items():
            if variable.dtype.is_floating and not np.isfinite(variable).all():
                raise errors.UserError(
                    f'{name} holds values that are not finite, so that it is '
                    'not saved. The checkpoints written before are intact.'
                )

    def _commit(self, final: pathlib.Path) -> None:
        """Write under another name and rename once all is on the disk."""
        temporary = self._directory / f'.{final.name}.{os.getpid()}'
        try:
            # Perhaps left by a killed process that had the same number.
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)
            self._write(temporary)
            _replace(final, temporary)
            _sync(self._directory)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def _write(self, directory: pathlib.Path) -> None:
        names = sorted(self._variables)
        try:
            tf.raw_ops.SaveV2(
                prefix=str(directory / BUNDLE),
                tensor_names=names,
                shape_and_slices=[''] * len(names),
                tensors=[self._variables[name].read_value() for name in names],
            )
        except tf.errors.OpError as error:
            raise OSError(error.message) from error
        files = {
            path.name: {'bytes': path.stat().st_size, 'sha256': _hash(path)}
            for path in sorted(directory.iterdir())
        }
        manifest = directory / MANIFEST
        manifest.write_text(json.dumps({'files': files}, indent=2))
        for path in (*directory.iterdir(), directory):
            _sync(path)

    def _read(self, directory: pathlib.Path) -> None:
        prefix = str(directory / BUNDLE)
        reader = tf.train.load_checkpoint(prefix)
        shapes = reader.get_variable_to_shape_map()
        dtypes = reader.get_variable_to_dtype_map()
        stored = {
            name: (dtypes[name].name, shapes[name])
            for name in shapes
            if name in self._variables or not self._partial
        }
        expected = {
            name: (variable.dtype.name, variable.shape.as_list())
            for name, variable in self._variables.items()
        }
        if stored != expected:
            raise errors.ConfigError(
                f'The checkpoint {directory} does not fit the configuration:\n'
                f'{_difference(stored, expected)}'
            )
        for name, variable in self._variables.items():
            variable.assign(reader.get_tensor(name))


def verify(directory: pathlib.Path) -> None:
    """Raise an error unless every file of a checkpoint is as it was written."""
    try:
        manifest = json.loads((directory / MANIFEST).read_text())
        files = manifest['files']
        for name, expected in files.items():
            path = directory / pathlib.PurePath(name).name
            found = {'bytes': path.stat().st_size, 'sha256': _hash(path)}
            if found != expected:
                raise ValueError(f'{name} has changed')
        if f'{BUNDLE}.index' not in files:
            raise ValueError('it lists no variables')
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.UserError(
            f'The checkpoint {directory} is not whole: {error}.'
        ) from error


def _is_whole(directory: pathlib.Path) -> bool:
    try:
        verify(directory)
    except errors.UserError:
        return False
    return True


def _replace(final: pathlib.Path, new: pathlib.Path) -> None:
    """Give a checkpoint its name; one that has it is kept until then."""
    replaced = final.with_name(f'{final.name}{REPLACED}')
    if _is_whole(final):
        final.rename(replaced)
    elif final.exists():  # Damaged, but to be seen.
        final.rename(
            tempfile.mkdtemp('.damaged', f'{final.name}.', final.parent)
        )
    new.rename(final)
    shutil.rmtree(replaced, ignore_errors=True)


def _clear_up(directory: pathlib.Path) -> None:
    """Do what is left where a process was killed within `Saver.save`."""
    for replaced in directory.glob(f'*{REPLACED}'):
        final = replaced.with_name(replaced.name.removesuffix(REPLACED))
        if final.exists():
            shutil.rmtree(replaced)
        else:
            replaced.rename(final)
    for path in directory.glob('.*'):
        if re.fullmatch(r'\.[0-9]{12,}\.[0-9]+', path.name):
            shutil.rmtree(path)


def _difference(stored: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    lines = []
    for name in sorted({*stored, *expected}):
        if stored.get(name) != expected.get(name):
            there = stored.get(name, 'missing')
            lines.append(
                f'  {name}: {there}, expected {expected.get(name, "none")}'
            )
    return '\n'.join(lines)


def _hash(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _sync(path: pathlib.Path) -> None:
    """Force a file or the entries of a directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
