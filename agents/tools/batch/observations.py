"""Observations of environments as rows of arrays."""

import functools
import math
import reprlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from agents.tools import errors, nested, spaces
from agents.tools.nested import Nest

# Numbers beyond this are refused. Statistics add up their squares over a whole
# training, which would not fit into 32 bits.
LARGEST = 1e15

# Characters of an observation that an error shows.
MOST_SHOWN = 500


def zeros(space: gym.Space, rows: int) -> Nest:
    """Make a nest of arrays for a number of observations."""
    return nested.map(lambda spec: np.zeros((rows, *spec.shape), spec.dtype), spaces.specs(space))


class Writer:
    """Validates observations and writes them into rows of arrays.

    `write(row, observ)` and `write_all(observs)`, for a batch of as many as there are rows, raise
    an error that describes what is wrong. Floats that are too large become infinite.

    Args:
        space: Space of the observations.
        arrays: Nest of arrays `[row, ...]`.
    """

    def __init__(self, space: gym.Space, arrays: Any):
        self._leaves = nested.flatten(arrays)
        self.write = _define(space, arrays, '', False)
        self.write_all = functools.partial(_define(space, arrays, '', True), slice(None))

    def copy_to(self, other: 'Writer') -> None:
        for mine, others in zip(self._leaves, other._leaves, strict=True):
            others[:] = mine

    def first_beyond(self) -> tuple[int, float] | None:
        """Find the first number beyond the limit in all floating-point leaves."""
        for leaf in self._leaves:
            found = first_beyond(leaf) if leaf.dtype.kind == 'f' else None
            if found is not None:
                return found
        return None


def _define(space: gym.Space, arrays: Any, path: str, whole: bool) -> Callable[[Any, Any], None]:
    """Make the function that writes one row, or all rows as a whole."""
    match space:
        case gym.spaces.Dict():
            parts: dict[Any, Any] = {
                key: _define(part, arrays[key], f'{path}[{key!r}]', whole)
                for key, part in spaces.items(space)
            }
            ignored = {*space.spaces} - {*parts}
            return _nest_writer(parts, dict, path, ignored)
        case gym.spaces.Tuple():
            parts = {
                key: _define(part, arrays[key], f'{path}[{key}]', whole)
                for key, part in enumerate(space)
            }
            return _nest_writer(parts, tuple, path)
    shape = arrays.shape if whole else arrays.shape[1:]
    return _leaf_writer(space, arrays, shape, path)


def _nest_writer(
    parts: dict[Any, Any], kind: Any, path: str, ignored: Collection = ()
) -> Callable[[Any, Any], None]:
    usual = {*parts, *ignored}

    def write(row: Any, value: Any) -> None:
        if kind is dict and isinstance(value, dict):
            if value.keys() != usual:
                _require_keys(parts, value, path, ignored)
        elif not isinstance(value, kind) or len(value) != len(parts):
            raise TypeError(
                f'observation{path} should be a {kind.__name__} with '
                f'{list(parts)}, not {describe(value)}'
            )
        for key, write_part in parts.items():
            write_part(row, value[key])

    return write


def _require_keys(parts: Any, value: dict[Any, Any], path: str, ignored: Collection) -> None:
    for key in parts:
        if key not in value:
            raise TypeError(f'observation{path} lacks the key {key!r}')
    for key in value:
        if key not in parts and key not in ignored:
            raise TypeError(f'observation{path} has the key {key!r}, which is not in its space')


def _leaf_writer(
    space: gym.Space, array: np.ndarray, shape: tuple[int, ...], path: str
) -> Callable[[Any, Any], None]:
    dtype, start = array.dtype, spaces.start(space)
    count = spaces.count(space)
    is_float = dtype.kind == 'f'
    kinds = 'fiub' if is_float else 'iub'
    usual = (np.dtype('float32'), np.dtype('float64')) if is_float else ()

    def write(row: Any, value: Any) -> None:
        if value.__class__ is not np.ndarray:
            value = np.asarray(value)
        if value.dtype in usual and value.shape == shape:
            array[row] = value
            return
        if value.shape != shape or value.dtype.kind not in kinds:
            raise TypeError(
                f'observation{path} should have the shape {shape} and fit '
                f'{space}, but is {describe(value)}'
            )
        if is_float or (value.dtype == dtype and count is None):
            array[row] = value
            return
        if value.dtype == np.uint64:  # Whose large values would wrap around.
            value = np.minimum(value, np.uint64(1 << 62))
        value = value.astype(np.int64) - start
        limits = np.iinfo(dtype)
        low, high = (limits.min, limits.max) if count is None else (0, count - 1)
        if (value < low).any() or (value > high).any():
            outside = f'outside of {space}'
            if (
                isinstance(space, gym.spaces.Box)
                and ((value >= space.low) & (value <= space.high)).all()
            ):
                outside = (
                    f'beyond the range of {dtype}, as which integers are '
                    'stored. Make them floats by the wrapper gymnasium.'
                    'wrappers.DtypeObservation(env, np.float32)'
                )
            raise ValueError(f'observation{path} is {_shorten(value + start)}, which is {outside}')
        array[row] = value

    return write


def first_beyond(rows: np.ndarray) -> tuple[int, float] | None:
    """Find the first number that is not finite or beyond `LARGEST`, and its row."""
    numbers = rows.ravel()
    # A sum of squares is soon told, and small only if all of them are.
    if np.dot(numbers, numbers) <= LARGEST**2:
        return None
    within = np.abs(numbers) <= LARGEST
    if within.all():
        return None
    place = int(np.argmin(within))
    return place * len(rows) // rows.size, float(numbers[place])


def describe_beyond(number: float) -> str:
    """Describe a number that `first_beyond` found."""
    if not math.isfinite(number):
        return 'values that are not finite 32-bit numbers'
    return (
        f'the value {number:g}, which is beyond ±{LARGEST:g}: the squares of '
        'such numbers do not add up within 32 bits. Scale or clip it in the '
        'environment'
    )


def beyond(index: int, number: float, what: str, observ: Nest) -> errors.EnvError:
    """Make the error of a number that `first_beyond` found.

    Args:
        index: Index of the environment.
        number: Number.
        what: Value that contains the number, such as "an observation".
        observ: Observation of the environment.
    """
    return errors.EnvError(
        f'Environment {index} returned {what} with {describe_beyond(number)}; '
        f'its observation: {_shorten(observ)}.'
    )


def _shorten(observ: Nest) -> str:
    """Format an observation in one line."""
    with np.printoptions(threshold=50, edgeitems=2):
        words = str(observ).split()
    text = ' '.join(words)
    return text if len(text) <= MOST_SHOWN else f'{text[:MOST_SHOWN]}…'


def describe(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f'an array of shape {value.shape} and type {value.dtype}'
    return f'a {type(value).__name__}: {reprlib.repr(value)}'


def row(space: gym.Space, batch: Any, index: int) -> Nest:
    """Return the observation of one environment from a batch or a list."""
    match space, batch:
        case gym.spaces.Dict(), Mapping():
            return {key: row(part, batch[key], index) for key, part in spaces.items(space)}
        case gym.spaces.Tuple(), tuple():
            return tuple(row(part, each, index) for part, each in zip(space, batch, strict=True))
    return batch[index]
