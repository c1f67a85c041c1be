"""The way of an action from an algorithm to an environment."""

import gymnasium as gym
import numpy as np

from agents.tools import spaces
from agents.tools.graph.backend import tf


def to_bounds(action: tf.Tensor, space: gym.Space) -> tf.Tensor:
    """Bring a continuous action within the bounds of its space.

    Where all bounds are finite, the range from -1 to 1 is scaled to them. An
    algorithm learns from the action it chose, not from this one, so that the
    probability is of what was sampled.
    """
    if not isinstance(space, gym.spaces.Box):
        return action
    if spaces.is_bounded(space):
        half = (space.high - space.low) / 2
        action = space.low + (action + 1.0) * half
    low, high = spaces.bounds32(space)
    # Clipped last, as rounding may carry it over a bound, and some environments
    # refuse such an action.
    return tf.clip_by_value(action, low, high)


def from_bounds(action: tf.Tensor, space: gym.Space) -> tf.Tensor:
    """The inverse of `to_bounds`, for actions that environments are given."""
    if not isinstance(space, gym.spaces.Box) or not spaces.is_bounded(space):
        return action
    half = (space.high - space.low) / 2
    # Where bounds are equal, any action becomes the same.
    half = np.where(half > 0, half, half.dtype.type(1))
    return (action - space.low) / half - 1.0
