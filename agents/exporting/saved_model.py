"""Policies as SavedModels, the program directories of TensorFlow."""

import contextlib
import json
import os
import pathlib
import re
import secrets
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np

from agents.exporting.function import Function
from agents.exporting.quiet import quietly
from agents.tools import errors
from agents.tools.graph.backend import tf
from agents.tools.runs import files

# The description, beside what TensorFlow writes.
DESCRIPTION = 'policy.json'
SIGNATURE = 'serving_default'

# All that an export consists of.
MODEL = 'saved_model.pb'
WRITTEN = re.compile(
    rf'{re.escape(DESCRIPTION)}|{re.escape(MODEL)}|fingerprint\.pb|assets|'
    r'variables(/variables\.(index|data-\d+-of-\d+))?'
)


@contextlib.contextmanager
def replacing(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield a new directory, which gets its final name when complete.

    Replaces an earlier export, and nothing else.
    """
    _require_replaceable(path)
    token = secrets.token_hex(8)
    new, old = (path.with_name(f'.{path.name}.{token}.{kind}') for kind in ('new', 'old'))
    try:
        with files.telling(path):
            new.mkdir()
            yield new
            if path.exists():
                os.rename(path, old)
            os.rename(new, path)
            files.sync(path.parent)
    finally:
        if old.exists() and not path.exists():
            os.rename(old, path)
        for each in (new, old):
            shutil.rmtree(each, ignore_errors=True)


def write(function: Function, path: pathlib.Path) -> None:
    """Write a policy into an empty directory."""
    options = tf.saved_model.SaveOptions(save_debug_info=False)
    signatures = {SIGNATURE: function.program}
    try:
        with quietly():
            tf.saved_model.save(function.module, str(path), signatures, options)
    except tf.errors.OpError as error:  # Such as of a full disk.
        reason = errors.in_an_operation(error.message).rpartition('; ')[2]
        raise errors.WriteError(f'Cannot write to {path}: {reason}.') from error
    text = json.dumps(function.described, indent=2, allow_nan=False)
    files.write(path / DESCRIPTION, f'{text}\n'.encode())


class Session:
    """Applies a written policy to named arrays."""

    def __init__(self, path: pathlib.Path):
        with quietly():
            # Whose variables would be gone without it.
            self._model = tf.saved_model.load(str(path))
        self._function = self._model.signatures[SIGNATURE]

    def __call__(self, inputs: dict[str, np.ndarray]) -> dict[str, Any]:
        tensors = {name: tf.constant(each) for name, each in inputs.items()}
        found = self._function(**tensors)
        return {name: each.numpy() for name, each in found.items()}


def _require_replaceable(path: pathlib.Path) -> None:
    """Refuse to replace a directory that is no export."""
    if not os.path.lexists(path):
        return
    names = {'.'}
    if files.is_directory(path):
        names = {str(each.relative_to(path)) for each in path.rglob('*')}
    foreign = sorted(name for name in names if not WRITTEN.fullmatch(name))
    missing = sorted({DESCRIPTION, MODEL} - names)
    if foreign or missing:
        reason = f'holds {foreign[0]}' if foreign else f'lacks {missing[0]}'
        if not path.is_dir():
            reason = 'is no directory'
        raise errors.ConfigError(
            f'{path} must be a new directory or an exported policy alone, but '
            f'{reason}. Choose another --outfile, or remove that.'
        )
