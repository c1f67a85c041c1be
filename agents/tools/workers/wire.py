"""Serialization of values that runs no code when it is read.

Workers run the code of environments, so their replies are data: plain values, arrays and spaces,
never pickles. A message is a line of JSON with references to arrays, followed by their bytes.
"""

import json
import math
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from agents.tools import spaces


def dumps(value: Any) -> bytes:
    """Serialize a value; raises `TypeError` with the part that cannot be."""
    arrays: list[np.ndarray] = []
    header = json.dumps(_encode(value, arrays)).encode()
    blobs = [np.ascontiguousarray(array).tobytes() for array in arrays]
    return b'\n'.join([header, b''.join(blobs)])


def loads(message: bytes, parse: Callable[[bytes], Any] = json.loads) -> Any:
    """Deserialize bytes of `dumps`.

    Args:
        message: Bytes.
        parse: Parses the line of JSON.

    Raises:
        ValueError: If the bytes are damaged.
    """
    header, _, blob = message.partition(b'\n')
    position = [0]
    try:
        value = _decode(parse(header), memoryview(blob), position)
    except Exception as error:  # Of JSON, NumPy or Gymnasium.
        raise ValueError(f'{error or type(error).__name__}') from error
    if position[0] != len(blob):
        raise ValueError('it is longer than what it describes')
    return value


def _encode(value: Any, arrays: list[np.ndarray]) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, gym.Space):
        return {'space': _encode(spaces.encode(value), arrays)}
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in 'biuf':
        arrays.append(np.asarray(value))
        scalar = isinstance(value, np.generic)
        return {'array': [str(value.dtype), list(value.shape), scalar]}
    if isinstance(value, (list, tuple)):
        kind = 'list' if isinstance(value, list) else 'tuple'
        return {kind: [_encode(part, arrays) for part in value]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {'dict': {k: _encode(v, arrays) for k, v in value.items()}}
    raise TypeError(
        f'a {type(value).__module__}.{type(value).__qualname__} cannot leave '
        'its process; plain values, arrays and spaces can'
    )


def _decode(value: Any, blob: memoryview, position: list[int]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == 'dict':
        return {k: _decode(v, blob, position) for k, v in content.items()}
    if kind in ('list', 'tuple'):
        parts = [_decode(part, blob, position) for part in content]
        return parts if kind == 'list' else tuple(parts)
    if kind == 'space':
        return spaces.decode(_decode(content, blob, position))
    dtype, shape, scalar = np.dtype(content[0]), content[1], content[2]
    if dtype.kind not in 'biuf':
        raise ValueError(f'Not a type of plain numbers: {dtype}.')
    if any(type(size) is not int or size < 0 for size in shape):
        raise ValueError(f'Not a shape: {shape}.')
    count = math.prod(shape)
    array = np.frombuffer(blob, dtype, count, position[0]).reshape(shape).copy()
    position[0] += array.nbytes
    return array[()] if scalar else array
