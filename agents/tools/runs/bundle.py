"""Reads bundles of variables that TensorFlow wrote, without trusting them.

TensorFlow's own reader ends the process where an index is malformed. An index
is a table from the names of variables to messages that say what they are and
where in the file of data; it consists of blocks, as told in
https://github.com/google/leveldb/blob/main/doc/table_format.md.
"""

import math
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from agents.tools import errors
from agents.tools.graph.backend import tf
from agents.tools.runs import files

# isort: split
from tensorflow.core.protobuf import tensor_bundle_pb2  # Now it is set up.

# Limits for files that may come from strangers.
INDEX_BYTES = 2**20
DATA_BYTES = 2**32
MAX_VARIABLES = 20_000
MAX_DIMENSIONS = 32
NAME_BYTES = 1000

_MAGIC = bytes.fromhex('57fb808b247547db')
_FOOTER_BYTES = 48

# What a block ends with beside its entries: its compression and a checksum.
_TRAILER_BYTES = 5


class Variable(NamedTuple):
    """What a variable of a bundle is, and where in the data it begins."""

    dtype: str
    shape: list[int]
    offset: int


def variables(prefix: pathlib.Path) -> dict[str, Variable]:
    """The variables of a bundle by name."""
    path = prefix.with_name(f'{prefix.name}.index')
    index = files.read(path, INDEX_BYTES)
    found = {}
    try:
        for count, (name, entry) in enumerate(_entries(index)):
            if count > MAX_VARIABLES:
                raise ValueError('it has too many variables')
            if name:  # That of the header is empty.
                found[name.decode()] = _variable(entry)
    except (ValueError, IndexError, TypeError, DecodeError) as error:
        raise errors.ConfigError(
            f'Cannot read {path}: It is malformed ({error}).'
        ) from error
    return found


def values(
    prefix: pathlib.Path, variables: Iterable[Variable]
) -> Iterator[np.ndarray]:
    """Read variables, whose sizes the caller has found to be as they should."""
    path = prefix.with_name(f'{prefix.name}.data-00000-of-00001')
    with files.opened(path, DATA_BYTES) as file:
        for variable in variables:
            dtype = np.dtype(tf.as_dtype(variable.dtype).as_numpy_dtype)
            size = math.prod(variable.shape) * dtype.itemsize
            file.seek(variable.offset)
            data = file.read(size)
            if len(data) < size:
                raise errors.ConfigError(f'Cannot read {path}: It is cut off.')
            yield np.frombuffer(data, dtype).reshape(variable.shape)


def _variable(data: bytes) -> Variable:
    entry = tensor_bundle_pb2.BundleEntryProto.FromString(data)
    if len(entry.shape.dim) > MAX_DIMENSIONS:
        raise ValueError('a variable has too many dimensions')
    shape = [dimension.size for dimension in entry.shape.dim]
    if min([entry.offset, *shape]) < 0 or entry.shard_id or entry.slices:
        raise ValueError('a variable is not in one piece')
    return Variable(tf.as_dtype(entry.dtype).name, shape, entry.offset)


def _entries(index: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a table."""
    footer = index[-_FOOTER_BYTES:]
    if not footer.endswith(_MAGIC):
        raise ValueError('it has no end')
    (_, _, start, size), _ = _numbers(footer, 0, 4)
    end = 0
    for _, handle in _block(index, start, size):
        (start, size), _ = _numbers(handle, 0, 2)
        if start < end:  # Otherwise a small index could be read without end.
            raise ValueError('its blocks overlap or are not in order')
        end = start + size + _TRAILER_BYTES
        yield from _block(index, start, size)


def _block(
    table: bytes, start: int, size: int
) -> Iterator[tuple[bytes, bytes]]:
    """The entries of a block; a key repeats the beginning of the one before."""
    block = table[start : start + size]
    if table[start + size]:
        raise ValueError('a block is compressed')
    restarts = int.from_bytes(block[-4:], 'little')
    end, position, key = size - 4 * (restarts + 1), 0, b''
    while position < end:
        (shared, own, length), position = _numbers(block, position, 3)
        if shared + own > NAME_BYTES:
            raise ValueError('a name is too long')
        key = key[:shared] + block[position : position + own]
        position += own
        yield key, block[position : position + length]
        position += length


def _numbers(data: bytes, position: int, count: int) -> tuple[Any, int]:
    """Decode numbers of seven bits a byte, and where what follows begins."""
    numbers = []
    for _ in range(count):
        number = shift = 0
        while data[position] & 128:
            number |= (data[position] & 127) << shift
            position, shift = position + 1, shift + 7
            if shift > 63:
                raise ValueError('a number is too long')
        numbers.append(number | data[position] << shift)
        position += 1
    return numbers, position
