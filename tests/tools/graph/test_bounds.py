"""Actions arrive within the bounds of their space, whatever was chosen."""

import gymnasium as gym
import numpy as np
import pytest

from agents.tools.graph import bounds
from agents.tools.graph.backend import compiled, tf


def bounded(action, space):
    return bounds.to_bounds(tf.constant(action, tf.float32), space).numpy()


def test_finite_bounds_are_scaled_to():
    space = gym.spaces.Box(np.float32([-2, 0]), np.float32([2, 10]))
    actions = [[-1, -1], [0, 0], [0.5, 0.5], [1, 1]]
    assert bounded(actions, space).tolist() == [
        [-2, 0], [0, 5], [1, 7.5], [2, 10]
    ]  # fmt: skip


def test_what_is_beyond_is_clipped():
    space = gym.spaces.Box(-2, 2, (3,))
    assert bounded([[-9, 9, np.inf]], space).tolist() == [[-2, 2, 2]]


def test_infinite_bounds_only_clip():
    low, high = np.float32([-np.inf, -3, 0]), np.float32([np.inf, 3, np.inf])
    space = gym.spaces.Box(low, high)
    actions = [[-50, -50, -50], [2, 2, 2], [50, 50, 50]]
    assert bounded(actions, space).tolist() == [
        [-50, -3, 0], [2, 2, 2], [50, 3, 50]
    ]  # fmt: skip


def test_bounds_too_large_for_their_range_only_clip():
    most = np.finfo(np.float64).max
    space = gym.spaces.Box(-most, np.array([most, 1]), dtype=np.float64)
    assert bounded([[5, 5]], space).tolist() == [[5, 1]]


def test_inverse_where_bounds_are_equal():
    space = gym.spaces.Box(np.float32([1, -2]), np.float32([1, 2]))
    inverse = bounds.from_bounds(tf.constant([[1.0, 1.0]]), space)
    assert inverse.numpy().tolist() == [[-1, 0.5]]


def test_counted_actions_pass():
    action = tf.constant([3, 0])
    assert bounds.to_bounds(action, gym.spaces.Discrete(4)) is action


def test_bounds_of_another_precision():
    space = gym.spaces.Box(-2, 2, (1,), np.float64)
    result = bounded([[0.25]], space)
    assert result.tolist() == [[0.5]] and result.dtype == np.float32


@pytest.mark.parametrize('jit', [False, True], ids=['eager', 'compiled'])
def test_rounding_does_not_carry_over_a_bound(jit):
    # About a fifth of all pairs of bounds would be missed by a bit.
    low, high = np.sort(np.random.default_rng(0).uniform(-3, 3, (2, 200)), 0)
    space = gym.spaces.Box(low.astype('f'), high.astype('f'))
    convert = lambda action: bounds.to_bounds(action, space)  # noqa: E731
    convert = compiled(convert) if jit else convert
    for extreme in (-1.0, 1.0):
        assert convert(tf.fill([200], extreme)).numpy() in space


def test_poisoned_action_stays_visible():
    assert np.isnan(bounded([np.nan], gym.spaces.Box(-1, 1, (1,))))
