"""Masks of the actions that are possible, which observations may carry.

What they look like is told in `agents.tools.choices`. Policies apply them; no
network sees them.
"""

from typing import Any

import gymnasium as gym

from agents.parts import distributions
from agents.tools import errors, spaces
from agents.tools.choices import KEY, has_mask
from agents.tools.graph.backend import tf

__all__ = ['KEY', 'has_mask', 'split', 'visible_space']


def visible_space(
    observ_space: gym.Space, action_space: gym.Space
) -> gym.Space:
    """The space of what networks see, which is all but the mask."""
    if not has_mask(observ_space, action_space):
        return observ_space
    assert isinstance(observ_space, gym.spaces.Dict)
    parts = dict(observ_space.spaces)
    mask = parts.pop(KEY)
    expected = (distributions.output_size(action_space),)
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


def split(observ: dict[str, Any]) -> tuple[dict[str, Any], tf.Tensor]:
    """Take observations apart into what networks see and the mask.

    Args:
        observ: Observations, leaves `[..., *shape]`.

    Returns:
        The visible part, and which choices are possible, `[..., choice]`.
    """
    visible = {key: part for key, part in observ.items() if key != KEY}
    return visible, observ[KEY] != 0
