"""Tensors by name in safetensors files, which may come from strangers.

The library validates the header against the file. Here its size is limited before it is read.
"""

import contextlib
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import safetensors
import safetensors.numpy

from agents.tools import errors
from agents.tools.runs import files
from agents.tools.runs.checkpoints import FILE_BYTES

# Limit for files from strangers.
HEADER_BYTES = 2**20

# Types of numbers by their names in the format.
DTYPES = {
    'BOOL': 'bool',
    'U8': 'uint8',
    'U16': 'uint16',
    'U32': 'uint32',
    'U64': 'uint64',
    'I8': 'int8',
    'I16': 'int16',
    'I32': 'int32',
    'I64': 'int64',
    'BF16': 'bfloat16',
    'F16': 'float16',
    'F32': 'float32',
    'F64': 'float64',
}


class Spec(NamedTuple):
    """Type and shape of a tensor."""

    dtype: str
    shape: list[int]


def write(path: pathlib.Path, tensors: Mapping[str, Any]) -> None:
    """Write arrays or tensors of TensorFlow to a new file."""
    arrays = {name: np.asarray(tensor, order='C') for name, tensor in tensors.items()}
    for name, array in arrays.items():
        if array.dtype.name not in DTYPES.values():
            raise errors.UserError(
                f'The type of {name} must be one of '
                f'{", ".join(DTYPES.values())}, got {array.dtype}. Leave it '
                'out of what `saved` returns.'
            )
    path.write_bytes(safetensors.numpy.save(arrays))


def specs(path: pathlib.Path) -> dict[str, Spec]:
    """Return types and shapes by name; reads the header only."""
    with _opened(path) as file:
        found = {}
        for name in file.keys():  # noqa: SIM118
            part = file.get_slice(name)
            if part.get_dtype() not in DTYPES:
                raise ValueError(f'{name} has the type {part.get_dtype()}')
            found[name] = Spec(DTYPES[part.get_dtype()], part.get_shape())
        return found


def read(path: pathlib.Path, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Read tensors by name, whose sizes the caller has checked."""
    with _opened(path) as file:
        return {name: file.get_tensor(name) for name in names}


@contextlib.contextmanager
def _opened(path: pathlib.Path) -> Iterator[Any]:
    with files.opened(path, FILE_BYTES) as file:
        header = int.from_bytes(file.read(8), 'little')
    if header > HEADER_BYTES:
        raise errors.ConfigError(
            f'The header of {path} must have at most {HEADER_BYTES:,} bytes, got {header:,}.'
        )
    try:
        with safetensors.safe_open(path, framework='np') as file:
            yield file
    except (safetensors.SafetensorError, ValueError) as error:
        raise errors.ConfigError(f'{path} must be a file of safetensors: {error}.') from error
