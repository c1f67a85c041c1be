"""Masks that tell which choices of an action are possible.

An action of a `Discrete` or `MultiDiscrete` space is one or more choices. A
mask has a number for each, not zero where it is possible; those of a
`MultiDiscrete` space follow each other. Observations that are a Dict carry it
as `action_mask`. Policies apply it, see `agents.parts.masks`.
"""

import reprlib
from typing import Any

import gymnasium as gym
import numpy as np

from agents.tools import errors, nested, spaces
from agents.tools.nested import Nest

KEY = 'action_mask'

# Where an observation that is no Dict is found once there is a mask beside it.
OBSERVATION = 'observation'


def are_choices(action_space: gym.Space) -> bool:
    """Whether actions of a space can be masked."""
    kinds = gym.spaces.Discrete, gym.spaces.MultiDiscrete
    return isinstance(action_space, kinds)


def has_mask(observ_space: gym.Space, action_space: gym.Space) -> bool:
    """Whether observations tell which actions are possible."""
    return (
        isinstance(observ_space, gym.spaces.Dict)
        and KEY in observ_space.spaces
        and are_choices(action_space)
    )


def may_be_told(observ_space: gym.Space, action_space: gym.Space) -> bool:
    """Whether masks could be put beside observations."""
    return are_choices(action_space) and not has_mask(observ_space, action_space)


def beside(observ_space: gym.Space, value: Any) -> Nest:
    """What a mask is put beside, of an observation, a batch or the space."""
    is_dict = isinstance(observ_space, gym.spaces.Dict)
    return value if is_dict else {OBSERVATION: value}


def observed_space(observ_space: gym.Space, action_space: gym.Space) -> gym.spaces.Dict:
    """The space of observations once there is a mask beside them."""
    mask = gym.spaces.Box(0, 1, (sum(sizes(action_space)),), np.uint8)
    parts = dict(beside(observ_space, observ_space))
    return gym.spaces.Dict({**parts, KEY: mask})


def visible_space(observ_space: gym.Space, action_space: gym.Space) -> gym.Space:
    """The space of what networks see, which is all but the mask."""
    if not has_mask(observ_space, action_space):
        return observ_space
    assert isinstance(observ_space, gym.spaces.Dict)
    parts = dict(observ_space.spaces)
    mask = parts.pop(KEY)
    expected = (sum(sizes(action_space)),)
    vector = isinstance(mask, (gym.spaces.Box, gym.spaces.MultiBinary))
    if not vector or spaces.shape(mask) != expected:
        raise errors.ConfigError(
            f'The {KEY} of the observations has to be a Box or MultiBinary of '
            f'shape {expected}, a number for each choice of {action_space}, '
            f'not {mask}.'
        )
    if not parts:
        raise errors.ConfigError(
            f'The observations have nothing but the {KEY}, so that a network '
            'has nothing to see. Add a constant if that is meant.'
        )
    return gym.spaces.Dict(parts)


def without_mask(observ: dict[str, Any]) -> dict[str, Any]:
    """What is visible of observations that have a mask, or of a batch."""
    return {key: part for key, part in observ.items() if key != KEY}


def sizes(action_space: gym.Space) -> list[int]:
    """How many choices each part of an action has."""
    return np.ravel(spaces.count(action_space)).tolist()


def flatten(mask: Nest, action_space: gym.Space) -> np.ndarray:
    """Bring a mask into the form that observations have it in.

    Args:
        mask: Numbers as a vector, or for a `MultiDiscrete` space one for each
            part, as Gymnasium's `space.sample(mask=...)` takes them.
        action_space: Space of the actions.

    Returns:
        Bytes `[choice]`, 1 for what is possible and 0 for what is not.
    """
    expected = sizes(action_space)
    parts = [np.asarray(part) for part in nested.flatten(mask)]
    found = [part.size for part in parts]
    several = len(parts) > 1 and any(part.ndim for part in parts)
    fits = found == expected if several else sum(found) == sum(expected)
    if not fits or any(part.dtype.kind not in 'biuf' for part in parts):
        each = f', or vectors of {expected}' if len(expected) > 1 else ''
        raise ValueError(
            f'the {KEY} should have {sum(expected)} numbers{each} for '
            f'{action_space}, but is {reprlib.repr(mask)}'
        )
    flat = [part.ravel() for part in parts]
    whole = flat[0] if len(flat) == 1 else np.concatenate(flat)
    if np.isnan(whole).any():
        raise ValueError(f'the {KEY} has NaN: {reprlib.repr(mask)}')
    return (whole != 0).view(np.uint8)


class Watch:
    """Finds states in which nothing can be chosen.

    Args:
        action_space: Space of the actions.
    """

    def __init__(self, action_space: gym.Space):
        self._starts = np.cumsum([0, *sizes(action_space)[:-1]])

    def first_stuck(self, masks: np.ndarray) -> tuple[int, int] | None:
        """The first of masks `[row, choice]` that leaves a part no choice.

        Returns:
            The row and the part, or None if there is none.
        """
        some = np.logical_or.reduceat(masks, self._starts, axis=1)
        if some.all():
            return None
        row, part = np.argwhere(~some)[0]
        return int(row), int(part)


class BatchWatch(Watch):
    """Refuses states of environments in which nothing can be chosen.

    Args:
        action_space: Space of the actions.
        masks: Where their masks `[env, choice]` are written to.
        first: Index of the first of them.
    """

    def __init__(self, action_space: gym.Space, masks: np.ndarray, first: int):
        super().__init__(action_space)
        self._action_space = action_space
        self._masks, self._first = masks, first

    @classmethod
    def over(
        cls, observ_space: gym.Space, action_space: gym.Space, observ: Nest, first: int
    ) -> 'BatchWatch | None':
        """One for arrays of observations, if there are masks among these.

        Masks of another shape are refused by the policy.
        """
        if not has_mask(observ_space, action_space):
            return None
        masks = observ[KEY]
        count = sum(sizes(action_space))
        fits = isinstance(masks, np.ndarray) and masks.shape[1:] == (count,)
        return cls(action_space, masks, first) if fits else None

    def require(self, rows: np.ndarray | None = None) -> None:
        """Refuse states to act on in which nothing is possible.

        Args:
            rows: Mask of the environments to look at, by default all.
        """
        masks = self._masks if rows is None else self._masks[rows]
        found = self.first_stuck(masks)
        if found is not None:
            row, part = found
            index = row if rows is None else int(np.flatnonzero(rows)[row])
            what = describe_stuck(part, self._action_space)
            raise errors.EnvError(
                f'Environment {self._first + index} is in a state in which '
                f'{what}, as its {KEY} says. It has to end the episode '
                'instead, or leave a choice that does nothing.'
            )


def describe_missing(source: str, method: str) -> str:
    """Say that there is no mask where there has been one before."""
    return (
        f'{source} told which actions are possible before, but there is '
        f'nothing in it after {method}. It has to tell that of every state, or '
        'never.'
    )


def describe_late(method: str) -> str:
    """Say that there is a mask where there was none at first."""
    return (
        f'info[{KEY!r}] tells which actions are possible after {method}, but '
        'the first reset told nothing, so that masks would be ignored. It has '
        'to tell that of every state, or never. Ignore them on purpose by '
        'action_masks=False.'
    )


def describe_stuck(part: int, action_space: gym.Space) -> str:
    """Say of which action a mask leaves nothing."""
    where = '' if len(sizes(action_space)) == 1 else f' for part {part}'
    return f'no choice of {action_space} is possible{where}'
