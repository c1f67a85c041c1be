"""Action masks: which choices of an action are possible.

An action of a `Discrete` or `MultiDiscrete` space consists of one or more choices. A mask has a
number for each, nonzero where it is possible; the masks of the parts of a `MultiDiscrete` space
are concatenated. Dict observations hold it as `action_mask`. Policies apply it, see
`agents.parts.masks`.
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
    """Return whether actions of a space can be masked."""
    kinds = gym.spaces.Discrete, gym.spaces.MultiDiscrete
    return isinstance(action_space, kinds)


def has_mask(observ_space: gym.Space, action_space: gym.Space) -> bool:
    """Return whether observations hold an action mask."""
    return (
        isinstance(observ_space, gym.spaces.Dict)
        and KEY in observ_space.spaces
        and are_choices(action_space)
    )


def may_be_told(observ_space: gym.Space, action_space: gym.Space) -> bool:
    """Return whether masks could be added to observations."""
    return are_choices(action_space) and not has_mask(observ_space, action_space)


def beside(observ_space: gym.Space, value: Any) -> Nest:
    """Return the Dict that a mask is added to, for an observation, a batch or the space."""
    is_dict = isinstance(observ_space, gym.spaces.Dict)
    return value if is_dict else {OBSERVATION: value}


def observed_space(observ_space: gym.Space, action_space: gym.Space) -> gym.spaces.Dict:
    """Return the space of observations with a mask added."""
    mask = gym.spaces.Box(0, 1, (sum(sizes(action_space)),), np.uint8)
    parts = dict(beside(observ_space, observ_space))
    return gym.spaces.Dict({**parts, KEY: mask})


def visible_space(observ_space: gym.Space, action_space: gym.Space) -> gym.Space:
    """Return the space of what networks see: all but the mask."""
    if not has_mask(observ_space, action_space):
        return observ_space
    assert isinstance(observ_space, gym.spaces.Dict)
    parts = dict(observ_space.spaces)
    mask = parts.pop(KEY)
    expected = (sum(sizes(action_space)),)
    vector = isinstance(mask, (gym.spaces.Box, gym.spaces.MultiBinary))
    if not vector or spaces.shape(mask) != expected:
        raise errors.ConfigError(
            f'The {KEY} of the observations must be a Box or MultiBinary of shape '
            f'{expected}, a number for each choice of {action_space}, got {mask}. '
            'Change its space.'
        )
    if not parts:
        raise errors.ConfigError(
            f'The observations must have more than the {KEY}, which networks do not '
            'see. Add a part, such as a constant.'
        )
    return gym.spaces.Dict(parts)


def without_mask(observ: dict[str, Any]) -> dict[str, Any]:
    """Remove the mask from observations or a batch of them."""
    return {key: part for key, part in observ.items() if key != KEY}


def sizes(action_space: gym.Space) -> list[int]:
    """Return the number of choices of each part of an action."""
    return np.ravel(spaces.count(action_space)).tolist()


def flatten(mask: Nest, action_space: gym.Space) -> np.ndarray:
    """Convert a mask to the form of observations.

    Args:
        mask: Vector of numbers, or for a `MultiDiscrete` space one vector for each part, as for
            `space.sample(mask=...)` of Gymnasium.
        action_space: Space of the actions.

    Returns:
        Bytes `[choice]`, 1 for possible choices and 0 for others.
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
    """Finds states without a possible choice.

    Args:
        action_space: Space of the actions.
    """

    def __init__(self, action_space: gym.Space):
        self._starts = np.cumsum([0, *sizes(action_space)[:-1]])

    def first_stuck(self, masks: np.ndarray) -> tuple[int, int] | None:
        """Find the first of masks `[row, choice]` that leaves a part without a choice.

        Returns:
            Row and part, or None.
        """
        some = np.logical_or.reduceat(masks, self._starts, axis=1)
        if some.all():
            return None
        row, part = np.argwhere(~some)[0]
        return int(row), int(part)


class BatchWatch(Watch):
    """Refuses states of environments without a possible choice.

    Args:
        action_space: Space of the actions.
        masks: Array that their masks `[env, choice]` are written to.
        first: Index of the first environment.
    """

    def __init__(self, action_space: gym.Space, masks: np.ndarray, first: int):
        super().__init__(action_space)
        self._action_space = action_space
        self._masks, self._first = masks, first

    @classmethod
    def over(
        cls, observ_space: gym.Space, action_space: gym.Space, observ: Nest, first: int
    ) -> 'BatchWatch | None':
        """Make one for arrays of observations, or None if they hold no masks.

        The policy refuses masks of another shape.
        """
        if not has_mask(observ_space, action_space):
            return None
        masks = observ[KEY]
        count = sum(sizes(action_space))
        fits = isinstance(masks, np.ndarray) and masks.shape[1:] == (count,)
        return cls(action_space, masks, first) if fits else None

    def require(self, rows: np.ndarray | None = None) -> None:
        """Refuse states to act on without a possible choice.

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
    """Describe a mask that is missing though there was one before."""
    return (
        f'{source} told which actions are possible before, but there is '
        f'nothing in it after {method}. It has to tell that of every state, or '
        'never.'
    )


def describe_late(method: str) -> str:
    """Describe a mask that appears though there was none at first."""
    return (
        f'info[{KEY!r}] tells which actions are possible after {method}, but '
        'the first reset told nothing, so that masks would be ignored. It has '
        'to tell that of every state, or never. Ignore them on purpose by '
        'action_masks=False.'
    )


def describe_stuck(part: int, action_space: gym.Space) -> str:
    """Describe an action without a possible choice."""
    where = '' if len(sizes(action_space)) == 1 else f' for part {part}'
    return f'no choice of {action_space} is possible{where}'
