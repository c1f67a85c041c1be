"""Frames of environments that draw none."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from agents.tools import errors
from agents.tools.batch.batch_env import BatchEnv
from agents.tools.vector.mock_vector import FixedVector, MockVector
from agents.tools.vector.vector_slice import VectorSlice

SAME = AutoresetMode.SAME_STEP


def batch_of(vector):
    return BatchEnv([VectorSlice(lambda: vector)])


def test_frames_are_what_is_seen_where_nothing_is_rendered():
    images = gym.spaces.Box(0, 255, (4, 84, 84), np.uint8)
    stacks = np.zeros((2, 4, 84, 84), np.uint8)
    stacks[1, 3, 2, 5] = 9
    batch = batch_of(FixedVector({'first': stacks}, observs=images))
    batch.reset()
    frame = batch[1].call('render')
    assert frame.shape == (336, 336, 3) and frame.dtype == np.uint8
    assert (frame[8:12, 20:24] == 9).all() and frame.sum() == 9 * 16 * 3
    blind = batch_of(MockVector([[2]], SAME))
    blind.reset()
    with pytest.raises(errors.EnvError, match='renders no frames'):
        blind[0].call('render')
