"""Demonstrated episodes in a file of arrays.

A NumPy file (`.npz`) with these arrays, whose first dimension is time; episodes follow each other:

    observ      Observations that were acted on. For a Dict or Tuple one array per part, named
                observ/key or observ/0.
    action      Actions that the environment was stepped with.
    reward      Rewards that it returned.
    terminated  Whether the step reached a terminal state.
    truncated   Whether the episode was truncated.

Values are those of the environment; in memory, discrete values start at zero. The last step of
each episode is terminated or truncated. Reading runs no code, and validates everything before
anything is used.
"""

import io
import math
import pathlib
import zipfile
from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from agents.tools import errors, nested, spaces
from agents.tools.nested import Nest
from agents.tools.runs import files

# Limits for files that may come from strangers: bytes packed and unpacked, how
# much larger the latter may be unless they are few, arrays, and what is said of
# one beside its numbers.
MAX_BYTES = 2**31
MAX_RATIO, FEW_BYTES = 250, 2**26
MAX_ARRAYS = 1000
HEADER_BYTES = 1000  # Parsing takes a time that grows with the square.

# Others than these inflate to any size before it can be looked at.
COMPRESSIONS = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED

# Each entry of the directory of an archive begins with it.
ENTRY = b'PK\x01\x02'

# How far an action may be beyond its bounds, by rounding.
SLACK = 1e-4

NUMBERS = {'reward': 'float32', 'terminated': 'bool', 'truncated': 'bool'}


class Demonstrations(NamedTuple):
    """Steps of successive episodes, leaves `[step, ...]`.

    Attributes:
        observ: Observations that were acted on.
        action: Actions that the environment was stepped with.
        reward: Rewards that it returned.
        terminated: Mask of steps that reached a terminal state.
        truncated: Mask of steps at which an episode was truncated.
    """

    observ: Nest
    action: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray

    def __repr__(self) -> str:
        episodes = errors.quantity(len(self.lengths), 'episode')
        steps = errors.quantity(len(self.reward), 'step')
        low, high = min(self.scores), max(self.scores)
        return f'{type(self).__name__}({episodes}, {steps}, scores {low:.6g} to {high:.6g})'

    @property
    def scores(self) -> list[float]:
        """Undiscounted return of each episode."""
        return [float(part.sum()) for part in self._split(self.reward)]

    @property
    def lengths(self) -> list[int]:
        """Number of steps of each episode."""
        return [len(part) for part in self._split(self.reward)]

    def first(self, episodes: int) -> 'Demonstrations':
        """Return the first episodes."""
        if episodes > len(self.lengths):
            raise errors.ConfigError(
                f'There are {len(self.lengths)} demonstrations, not '
                f'demonstration_episodes={episodes}.'
            )
        steps = sum(self.lengths[:episodes])
        return nested.map(lambda x: x[:steps], self)

    def thinned(self, every: int, seed: int) -> 'Demonstrations':
        """Return every n-th step, from a random offset within each episode.

        The result consists of steps, no longer of episodes.
        """
        rng = np.random.default_rng(seed)
        begins = np.cumsum([0, *self.lengths[:-1]])
        chosen = np.concatenate(
            [
                begin + np.arange(rng.integers(min(every, length)), length, every)
                for begin, length in zip(begins, self.lengths, strict=True)
            ]
        )
        return nested.map(lambda x: x[chosen], self)

    def _split(self, array: np.ndarray) -> list[np.ndarray]:
        ends = np.flatnonzero(self.terminated | self.truncated) + 1
        return np.split(array, ends[:-1])


def write(
    path: pathlib.Path,
    demonstrations: Demonstrations,
    observ_space: gym.Space,
    action_space: gym.Space,
) -> None:
    """Write a file of demonstrations."""
    arrays = _named(demonstrations._asdict())
    for name, space in _owners(observ_space, action_space).items():
        arrays[name] = arrays[name] + spaces.start(space)
    data = io.BytesIO()
    np.savez_compressed(data, **arrays)  # type: ignore[arg-type]
    files.write(path, data.getvalue())


def read(
    path: str | pathlib.Path, observ_space: gym.Space, action_space: gym.Space
) -> Demonstrations:
    """Read demonstrations for given spaces.

    Raises:
        ConfigError: If the file has another format, or its values are not in the spaces.
    """
    path = pathlib.Path(path).expanduser()
    if not path.exists():
        raise errors.ConfigError(
            f'There is no file of demonstrations {path.absolute()}. Make one '
            'by `agents record --logdir RUN --outfile FILE`.'
        )
    packed = files.read(path, MAX_BYTES)
    try:
        arrays = _unpack(packed)
        expected = _expected(observ_space, action_space)
        found = {name: _fit(arrays, name, *expected[name]) for name in expected}
        _require_ends(found['terminated'] | found['truncated'])
        for name, space in _owners(observ_space, action_space).items():
            found[name] = _count_from_zero(name, found[name], space)
    except ValueError as error:
        reason = str(error).rstrip('.')
        raise errors.ConfigError(f'The demonstrations {path} cannot be used: {reason}.') from error
    names = iter(nested.names(spaces.specs(observ_space), 'observ'))
    observ = nested.map(lambda _: found.pop(next(names)), spaces.specs(observ_space))
    return Demonstrations(observ=observ, **found)


def _named(nest: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return dict(zip(nested.names(nest), nested.flatten(nest), strict=True))


def _expected(
    observ_space: gym.Space, action_space: gym.Space
) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return the shape and type of each array."""
    specs = _named({'observ': spaces.specs(observ_space)})
    counted = spaces.count(action_space) is not None
    return {
        **{name: (spec.shape, spec.dtype) for name, spec in specs.items()},  # type: ignore[misc]
        'action': (spaces.shape(action_space), 'int32' if counted else 'float32'),
        **{name: ((), kind) for name, kind in NUMBERS.items()},
    }


def _unpack(data: bytes) -> dict[str, np.ndarray]:
    """Return the arrays of an archive, after a check of their declared sizes.

    Raises:
        ValueError: If the archive is damaged or too large.
    """
    if data.count(ENTRY) > MAX_ARRAYS:
        raise ValueError(f'it has more than {MAX_ARRAYS:,} arrays')
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            _require_small(entries, len(data))
            return {
                entry.filename.removesuffix('.npy'): _parse(
                    # Deflated ones do not inflate further than this.
                    archive.open(entry).read(entry.file_size),
                    entry.filename,
                )
                for entry in entries
            }
    except ValueError:
        raise
    except Exception as error:  # Of zipfile, zlib, NumPy or the parser of it.
        reason = str(error) or type(error).__name__
        raise ValueError(f'it is damaged: {reason}') from error


def _require_small(entries: list[zipfile.ZipInfo], packed: int) -> None:
    """Refuse an archive that unpacks to more than the limit."""
    for entry in entries:
        if entry.compress_type not in COMPRESSIONS:
            raise ValueError(
                f'{entry.filename!r} must be stored or deflated, as by '
                f'numpy.savez_compressed, got method {entry.compress_type}'
            )
    limit = min(MAX_BYTES, max(FEW_BYTES, MAX_RATIO * packed))
    if sum(entry.file_size for entry in entries) > limit:
        raise ValueError(f'it unpacks to more than {limit:,} bytes')


def _parse(data: bytes, name: str) -> np.ndarray:
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        raise ValueError(f'{name!r} is of an unknown version {version}')
    shape, is_fortran, dtype = readers[version](file, max_header_size=HEADER_BYTES)
    if dtype.kind not in 'biuf':
        raise ValueError(f'{name!r} holds {dtype} where numbers were expected')
    if math.prod(shape) * dtype.itemsize != len(data) - file.tell():
        raise ValueError(f'{name!r} does not hold what it says')
    array = np.frombuffer(data[file.tell() :], dtype)
    return array.reshape(shape, order='F' if is_fortran else 'C')


def _fit(
    arrays: Mapping[str, np.ndarray], name: str, shape: tuple[int, ...], kind: str
) -> np.ndarray:
    """Return an array, converted to the expected type and shape."""
    if name not in arrays:
        there = ', '.join(sorted(arrays)[:20]) or 'nothing'
        raise ValueError(f'there is no array {name!r} in it, but {there}')
    array = arrays[name]
    steps = len(arrays.get('reward', ()))
    if array.shape != (steps, *shape):
        raise ValueError(
            f'{name!r} has the shape {array.shape} where {(steps, *shape)} was '
            'expected, the first being the number of steps'
        )
    if not np.isfinite(array).all():
        raise ValueError(f'{name!r} holds what is not a finite number')
    with np.errstate(over='ignore', invalid='ignore'):
        fitted = array.astype(kind)
    if kind == 'float32':
        if not np.isfinite(fitted).all():
            raise ValueError(f'{name!r} holds numbers that are too large')
    elif (fitted != array).any():
        raise ValueError(f'{name!r} holds what is no value of type {kind}')
    return fitted


def _require_ends(ends: np.ndarray) -> None:
    """Refuse demonstrations whose last episode has no end."""
    if not len(ends):
        raise ValueError('there are no steps in it')
    if not ends[-1]:
        raise ValueError(
            'its last episode has no end: the last step has to be terminated or truncated'
        )


def _count_from_zero(name: str, values: np.ndarray, space: gym.Space) -> np.ndarray:
    """Convert discrete values to start at zero; refuses values outside the space."""
    values = (values - spaces.start(space)).astype(values.dtype)
    if not isinstance(space, gym.spaces.Box):
        beyond = (values < 0) | (values >= spaces.count(space))
    elif name == 'action':
        beyond = (values < space.low - SLACK) | (values > space.high + SLACK)
    else:
        return values  # They may be beyond, see the setting observ_bounds.
    if beyond.any():
        step = int(np.argwhere(beyond)[0, 0])
        raise ValueError(
            f'{name!r} of step {step} is {values[step] + spaces.start(space)}, '
            f'which is no value of {space}'
        )
    return values


def _owners(observ_space: gym.Space, action_space: gym.Space) -> dict[str, gym.Space]:
    """Return the spaces of arrays by name."""
    names = nested.names(spaces.specs(observ_space), 'observ')
    leaves = spaces.leaves(observ_space)
    return {**dict(zip(names, leaves, strict=True)), 'action': action_space}
