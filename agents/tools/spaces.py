"""Spaces of Gymnasium as arrays.

In the graph, `Discrete` and `MultiDiscrete` values start at zero, bytes stay bytes, and all other
types have 32 bits.
"""

import collections
import math
from collections.abc import Iterable
from typing import Any

import gymnasium as gym
import numpy as np

from agents.tools import errors, nested
from agents.tools.layout import Spec
from agents.tools.nested import Nest

ACTIONS = ('Box', 'Discrete', 'MultiDiscrete', 'MultiBinary')
OBSERVATIONS = (*ACTIONS, 'Dict', 'Tuple')

# Most numbers of an observation, most choices or numbers of an action, most
# values of a counted number, and most characters of the name of a leaf.
MAX_SIZE = 2**24
MAX_ACTIONS = 2**20
MAX_COUNT = 2**31 - 1
MAX_NAME = 200

# Bounds of actions beyond this stand for no bounds. Their range would not even
# fit into 32 bits.
MAX_BOUND = 1e15

CONVERT = 'Leave it out or convert it in a wrapper.'


def specs(space: gym.Space, path: str = '') -> Nest:
    """Return the nest of `Spec` in which values of a space are stored.

    Text in a Dict is left out, here and in all lists of leaves.
    """
    match space:
        case gym.spaces.Dict():
            return {key: specs(part, f'{path}[{key!r}]') for key, part in items(space)}
        case gym.spaces.Tuple():
            parts = enumerate(space)
            return tuple(specs(part, f'{path}[{i}]') for i, part in parts)
        case gym.spaces.Box() if space.dtype == np.uint8:
            return Spec(tuple(space.shape), 'uint8')
        case gym.spaces.Box() if space.dtype.kind in 'iu':
            return Spec(tuple(space.shape), 'int32')
        case gym.spaces.Box():
            return Spec(tuple(space.shape), 'float32')
        case gym.spaces.Discrete():
            return Spec((), 'int32')
        case gym.spaces.MultiDiscrete() | gym.spaces.MultiBinary():
            return Spec(tuple(space.shape), 'int32')
    # Others may show addresses of functions.
    known = type(space).__module__.startswith('gymnasium.')
    name = f'{space}' if known else type(space).__name__
    place = f' of observation{path}' if path else ''
    raise errors.EnvError(
        f'The space {name}{place} is not supported. Supported are '
        f'{", ".join(OBSERVATIONS)}, and Text in a Dict, which is left out; '
        'wrap the environment so that it uses one.'
    )


def items(space: gym.spaces.Dict) -> list[tuple[str, gym.Space]]:
    """Return the keys of a Dict in the order of `nested` with their parts, without text."""
    return [(key, space[key]) for key in sorted(space.spaces) if not _is_text(space[key])]


def texts(space: gym.Space, path: str = '') -> list[str]:
    """Return the paths of text in a space, in the notation of `nested.names`."""
    match space:
        case gym.spaces.Dict() | gym.spaces.Tuple():
            return [
                name
                for key, part in _parts(space).items()
                for name in texts(part, f'{path}/{key}' if path else f'{key}')
            ]
    return [path] if _is_text(space) else []


def _is_text(space: gym.Space | None) -> bool:
    """Return whether values of a space are strings; packages may have spaces of their own."""
    return space is not None and space.dtype is not None and (np.dtype(space.dtype).kind == 'U')


def without_text(space: gym.Space | None, value: Any) -> Nest:
    """Remove the text from a value of a space, or from a batch of values."""
    match space, value:
        case gym.spaces.Dict(), dict():
            return {
                key: without_text(space.spaces.get(key), part)
                for key, part in value.items()
                if not _is_text(space.spaces.get(key))
            }
        case gym.spaces.Tuple(), tuple() if len(space) == len(value):
            pairs = zip(space, value, strict=True)
            return tuple(without_text(*pair) for pair in pairs)
    return value


def with_plain_text(space: gym.Space) -> gym.Space:
    """Replace text spaces of packages by that of Gymnasium.

    So spaces equal those that were saved or came from a worker.
    """
    return decode(encode(space)) if texts(space) else space


def require_supported(observ_space: gym.Space, action_space: gym.Space) -> None:
    """Refuse unsupported spaces."""
    _require_text_keys(observ_space, 'observation_space')
    names = nested.names(specs(observ_space))
    _require_names(names)
    for name, leaf in zip(names, leaves(observ_space), strict=True):
        _require_counts(f'observation {name}'.rstrip(), leaf)
    size = sum(math.prod(shape(leaf)) for leaf in leaves(observ_space))
    if not 0 < size <= MAX_SIZE:
        raise errors.EnvError(
            f'An observation must have 1 to {MAX_SIZE:,} numbers, got {size:,} '
            f'of {errors.shorten(str(observ_space), 200)}. Change that in a '
            'wrapper.'
        )
    kind = type(action_space).__name__
    whole_box = kind == 'Box' and np.dtype(action_space.dtype).kind != 'f'
    if kind not in ACTIONS or whole_box:
        raise errors.EnvError(
            f'The action space {action_space} is not supported. Supported are '
            f'{", ".join(ACTIONS)}, boxes of floats only; wrap the environment '
            'so that it uses one.'
        )
    _require_counts('action', action_space)
    if not 0 < width(action_space) <= MAX_ACTIONS:
        raise errors.EnvError(
            f'An action must have 1 to {MAX_ACTIONS:,} choices or numbers, got '
            f'{width(action_space):,} of '
            f'{errors.shorten(str(action_space), 200)}. Change that in a '
            'wrapper.'
        )


def _require_text_keys(space: gym.Space, path: str) -> None:
    for key, part in _parts(space).items():
        if isinstance(space, gym.spaces.Dict) and not isinstance(key, str):
            raise errors.EnvError(
                f'The keys of {path} must be text, got {key!r}. Rename it in a '
                f'wrapper, for example to {str(key)!r}.'
            )
        _require_text_keys(part, f'{path}[{key!r}]')


def _require_names(names: list[str]) -> None:
    """Refuse names of leaves that are ambiguous or cannot be saved."""
    for name, count in collections.Counter(names).items():
        if count > 1:
            raise errors.EnvError(
                f"The keys that lead to a part of an observation, joined by '/'"
                f', must be different for each, got {name!r} {count} times. '
                'Rename a key in a wrapper.'
            )
        if len(name) > MAX_NAME:
            raise errors.EnvError(
                'The keys that lead to a part of an observation must have at '
                f'most {MAX_NAME} characters, got {len(name):,}: '
                f'{errors.shorten(name, 40)!r}. Rename them in a wrapper.'
            )


def _require_counts(name: str, space: gym.Space) -> None:
    """Refuse a discrete space that is empty or too large."""
    counts = count(space)
    if counts is None:
        return
    if not np.size(counts):
        raise errors.EnvError(f'The {name} must have at least one number, got {space}. {CONVERT}')
    if np.max(counts) > MAX_COUNT:
        raise errors.EnvError(
            f'The {name} must have at most {MAX_COUNT:,} values, got {space}. {CONVERT}'
        )


def require_equal(envs: Iterable[tuple[int, Any]]) -> None:
    """Refuse environments of one batch with different spaces."""
    (index, first), *others = envs
    for position, env in others:
        for name in ('observation_space', 'action_space'):
            theirs, expected = [with_plain_text(getattr(each, name)) for each in (env, first)]
            if theirs != expected:
                raise errors.EnvError(
                    f'The environments of a batch need equal spaces, but the '
                    f'{name} of environment {position} is {theirs} where that '
                    f'of environment {index} is {expected}.'
                )


def first_difference(
    one: gym.Space, other: gym.Space, path: str = ''
) -> tuple[str, gym.Space, gym.Space] | None:
    """Return the first parts of two observation spaces that differ for a policy.

    Bounds of numbers are ignored, as observations are normalized by statistics. Bounds of bytes
    count, as bytes are divided by the upper bound.

    Returns:
        Path of the parts and their spaces, or None if there is no difference.
    """
    parts = _parts(one), _parts(other)
    if parts[0] and parts[1] and parts[0].keys() == parts[1].keys():
        for key, part in parts[0].items():
            at = f'{path}[{key!r}]'
            found = first_difference(part, parts[1][key], at)
            if found is not None:
                return found
        return None
    return None if _look_alike(one, other) else (path, one, other)


def _parts(space: gym.Space) -> dict[Any, gym.Space]:
    match space:
        case gym.spaces.Dict():
            return dict(space.spaces)
        case gym.spaces.Tuple():
            return dict(enumerate(space))
    return {}


def _look_alike(one: gym.Space, other: gym.Space) -> bool:
    boxes = gym.spaces.Box
    if not (isinstance(one, boxes) and isinstance(other, boxes)):
        return bool(one == other)
    scaled = one.dtype == np.uint8
    return specs(one) == specs(other) and not (scaled and (one.high != other.high).any())


def shape(space: gym.Space) -> tuple[int, ...]:
    """Return the shape of values of a space."""
    return space.shape or ()


def leaves(space: gym.Space) -> list[gym.Space]:
    """Return the spaces of the leaves, in the order of `nested`."""
    match space:
        case gym.spaces.Dict():
            parts = [part for _, part in items(space)]
            return [leaf for part in parts for leaf in leaves(part)]
        case gym.spaces.Tuple():
            return [leaf for part in space for leaf in leaves(part)]
    return [space]


def start(space: gym.Space) -> Nest:
    """Return the smallest value of a discrete space, which is zero in the graph."""
    counted = (gym.spaces.Discrete, gym.spaces.MultiDiscrete)
    return space.start if isinstance(space, counted) else 0


def count(space: gym.Space) -> Any:
    """Return the number of choices of each element, None if not discrete."""
    match space:
        case gym.spaces.Discrete():
            return int(space.n)
        case gym.spaces.MultiDiscrete():
            return space.nvec
        case gym.spaces.MultiBinary():
            return 2
    return None


def width(space: gym.Space) -> int:
    """Return the number of inputs of a network for a value, with one-hot choices."""
    match space:
        case gym.spaces.Dict():
            return sum(width(part) for _, part in items(space))
        case gym.spaces.Tuple():
            return sum(width(part) for part in space)
        case gym.spaces.Discrete():
            return int(space.n)
        case gym.spaces.MultiDiscrete():
            return sum(space.nvec.reshape(-1).tolist())
    return math.prod(shape(space))


def is_bounded(space: gym.Space) -> bool:
    """Return whether a box is bounded in all elements, see `MAX_BOUND`."""
    return isinstance(space, gym.spaces.Box) and all(
        bool(is_bound(bound).all()) for bound in (space.low, space.high)
    )


def is_bound(bound: np.ndarray) -> np.ndarray:
    """Return the mask of bounds that limit anything, see `MAX_BOUND`."""
    return np.abs(bound.astype(np.float64)) <= MAX_BOUND


def without_huge_bounds(space: gym.spaces.Box) -> gym.spaces.Box:
    """Replace huge bounds by infinite ones, for sampling."""
    low = np.where(is_bound(space.low), space.low, -np.inf)
    high = np.where(is_bound(space.high), space.high, np.inf)
    dtype: Any = space.dtype.type
    return gym.spaces.Box(low.astype(dtype), high.astype(dtype), dtype=dtype)


def bounds32(space: gym.spaces.Box) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds in 32 bits, infinite where they do not fit."""
    with np.errstate(over='ignore'):
        return space.low.astype(np.float32), space.high.astype(np.float32)


def encode(space: gym.Space) -> dict:
    """Describe a space by plain values and arrays; see `decode`."""
    match space:
        case gym.spaces.Dict():
            parts = {key: encode(part) for key, part in space.items()}
            return {'kind': 'Dict', 'parts': parts}
        case gym.spaces.Tuple():
            return {'kind': 'Tuple', 'parts': [encode(part) for part in space]}
        case gym.spaces.Box():
            dtype = str(space.dtype)
            bounds = {'low': space.low, 'high': space.high}
            return {'kind': 'Box', 'dtype': dtype, **bounds}
        case gym.spaces.Discrete():
            n, first = int(space.n), int(space.start)
            return {'kind': 'Discrete', 'n': n, 'start': first}
        case gym.spaces.MultiDiscrete():
            counts = {'nvec': space.nvec, 'start': space.start}
            return {'kind': 'MultiDiscrete', **counts}
        case gym.spaces.MultiBinary():
            return {'kind': 'MultiBinary', 'n': space.n}
    if _is_text(space):
        return {'kind': 'Text'}
    return specs(space)  # Raises the error that lists the supported ones.


def decode(text: dict) -> gym.Space:
    """Build a space from its description."""
    match text['kind']:
        case 'Dict':
            # Pairs, as the keys of a dictionary would be sorted.
            return gym.spaces.Dict([(key, decode(part)) for key, part in text['parts'].items()])
        case 'Tuple':
            return gym.spaces.Tuple([decode(part) for part in text['parts']])
        case 'Box':
            dtype = np.dtype(text['dtype']).type
            return gym.spaces.Box(text['low'], text['high'], dtype=dtype)
        case 'Discrete':
            return gym.spaces.Discrete(text['n'], start=text['start'])
        case 'MultiDiscrete':
            return gym.spaces.MultiDiscrete(text['nvec'], start=text['start'])
        case 'MultiBinary':
            return gym.spaces.MultiBinary(text['n'])
        case 'Text':
            return gym.spaces.Text(1)
    raise ValueError(f'Unknown kind of space: {text["kind"]!r}.')
