"""Scaling and clipping of actions to the bounds of their space."""

import gymnasium as gym
import numpy as np

from agents.tools import spaces
from agents.tools.graph.backend import tf


def to_bounds(action: tf.Tensor, space: gym.Space) -> tf.Tensor:
    """Scale a continuous action from [-1, 1] to the bounds of its space and clip it.

    An action whose space has infinite bounds is clipped but not scaled. An algorithm learns from
    the action that it sampled, not from the clipped one, so that the probability is correct.
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
    """Scale actions of the environment to [-1, 1]; the inverse of `to_bounds`."""
    if not isinstance(space, gym.spaces.Box) or not spaces.is_bounded(space):
        return action
    half = (space.high - space.low) / 2
    # Where bounds are equal, any action becomes the same.
    half = np.where(half > 0, half, half.dtype.type(1))
    return (action - space.low) / half - 1.0
