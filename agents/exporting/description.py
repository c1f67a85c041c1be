"""Inputs and outputs of an exported policy, as plain values.

Observations are those of the environment. Each leaf is an input: `observ`, or for a Dict or Tuple
`observ_<key>`. With action masks, the input `mask` has a byte for each choice that is possible. A
recurrent state is the input `state` (`state_0` and so on if there are several) and the output
`next_state`; it is zero at the start of an episode. The output `action` is the action of the
environment. All have a batch axis in front.
"""

import math
import re
from collections.abc import Iterable
from typing import Any

import gymnasium as gym
import numpy as np

from agents.parts import masks
from agents.parts.policy import Policy
from agents.parts.sequences import Network
from agents.tools import choices, nested, spaces
from agents.tools.nested import Nest

OBSERV, MASK, STATE, ACTION, NEXT = ('observ', 'mask', 'state', 'action', 'next_')


def describe(policy: Policy, observ_space: gym.Space, about: dict[str, Any]) -> dict[str, Any]:
    """Describe a policy.

    Args:
        policy: Policy.
        observ_space: Space of the observations.
        about: Further entries, in front.
    """
    action_space = policy.action_space
    seen = environment_space(observ_space, action_space)
    inputs = _describe_leaves(seen)
    if masks.has_mask(observ_space, action_space):
        shape = [sum(choices.sizes(action_space))]
        entry = {'path': [choices.KEY], 'shape': shape, 'dtype': 'uint8'}
        inputs.append({'name': MASK, **entry})
    states = _describe_state(policy.network)
    action = {
        'name': ACTION,
        'shape': list(spaces.shape(action_space)),
        'dtype': str(action_space.dtype),
    }
    following = [{**each, 'name': f'{NEXT}{each["name"]}'} for each in states]
    return {
        **about,
        'observation_space': _describe_space(seen),
        'action_space': _describe_space(action_space),
        'inputs': [*inputs, *states],
        'outputs': [action, *following],
    }


def environment_space(observ_space: gym.Space, action_space: gym.Space) -> gym.Space:
    """Return the space of observations without an action mask."""
    visible = masks.visible_space(observ_space, action_space)
    if visible is observ_space:
        return observ_space
    assert isinstance(visible, gym.spaces.Dict)
    alone = {*visible.spaces} == {choices.OBSERVATION}
    return visible[choices.OBSERVATION] if alone else visible


def named_arrays(
    described: dict[str, Any], observ: Nest, mask: Nest, state: dict[str, Any]
) -> dict[str, np.ndarray]:
    """Return the inputs for one observation of an environment, as a batch of one.

    Args:
        described: Result of `describe`.
        observ: Observation.
        mask: Action mask, or None.
        state: Recurrent state; missing arrays are zero.
    """

    def find(entry: dict[str, Any]) -> Any:
        if entry['name'] in state:
            return state[entry['name']][0]
        if entry['name'] == MASK:
            return np.asarray(mask) != 0
        if 'path' not in entry:
            return np.zeros(entry['shape'])
        value = observ
        for key in entry['path']:
            value = value[key]
        return value

    return {
        entry['name']: np.asarray(find(entry), entry['dtype'])[None]
        for entry in described['inputs']
    }


def _describe_leaves(space: gym.Space) -> list[dict[str, Any]]:
    names: set[str] = set()
    entries = []
    pairs = zip(_paths(space), spaces.leaves(space), strict=True)
    for path, leaf in pairs:
        spec = spaces.specs(leaf)
        entry = {'path': path, 'shape': list(spec.shape), 'dtype': spec.dtype}
        name = _unused('_'.join([OBSERV, *map(str, path)]), names)
        entries.append({'name': name, **entry})
    return entries


def _describe_state(network: Network) -> list[dict[str, Any]]:
    sizes = getattr(network, 'state_size', ())
    names = [re.sub(r'\W', '_', name, flags=re.ASCII) for name in nested.names(sizes, STATE)]
    return [
        {'name': name, 'shape': [int(size)], 'dtype': 'float32'}
        for name, size in zip(names, nested.flatten(sizes), strict=True)
    ]


def _paths(space: gym.Space, path: tuple[Any, ...] = ()) -> list[list[Any]]:
    """Return the keys that lead to each leaf, in the order of `nested`."""
    parts: Iterable[tuple[Any, gym.Space]]
    match space:
        case gym.spaces.Dict():
            parts = spaces.items(space)
        case gym.spaces.Tuple():
            parts = enumerate(space)
        case _:
            return [list(path)]
    return [each for key, part in parts for each in _paths(part, (*path, key))]


def _unused(name: str, names: set[str]) -> str:
    """Return a name that converters accept and that is not taken."""
    name = re.sub(r'\W', '_', name, flags=re.ASCII)
    while name in names:
        name += '_'
    names.add(name)
    return name


def _describe_space(space: gym.Space) -> Any:
    """Describe a space by values of JSON."""
    return _plain({**spaces.encode(space), **_shape(space)})


def _shape(space: gym.Space) -> dict[str, Any]:
    match space:
        case gym.spaces.Dict():
            parts = space.items()
            return {'parts': {key: _describe_space(part) for key, part in parts}}
        case gym.spaces.Tuple():
            return {'parts': [_describe_space(part) for part in space]}
        case gym.spaces.Box():
            shape = {'shape': list(space.shape)}
            return {**shape, 'low': _bound(space.low), 'high': _bound(space.high)}
    return {}


def _bound(bound: np.ndarray) -> Any:
    """Return the bounds of a box, as one number if all are equal."""
    same = bound.size and (bound == bound.flat[0]).all()
    return bound.flat[0].item() if same else bound


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {str(key): _plain(part) for key, part in value.items()}
        case np.ndarray() | np.generic():
            return _plain(value.tolist())
        case list() | tuple():
            return [_plain(part) for part in value]
        case float() if not math.isfinite(value):
            return None  # No bound.
    return value
