"""The memory of requests and replies: where everything lies."""

import gymnasium as gym
import numpy as np
import pytest

from agents.tools import nested
from agents.tools.workers import block

OBSERV = gym.spaces.Dict(
    image=gym.spaces.Box(0, 255, (3, 5), np.uint8),
    place=gym.spaces.Discrete(7),
    speed=gym.spaces.Box(-1, 1, (2,)),
)
ACTION = gym.spaces.Box(-1, 1, (3,))


def leaves(memory):
    return nested.flatten((memory.request, memory.reply))


def test_shapes_and_types():
    memory = block.Block(OBSERV, ACTION, 4)
    assert memory.request['action'].shape == (4, 3)
    assert memory.request['reset'].shape == (4,)
    for name in ('observ', 'next_observ'):
        found = memory.reply[name]
        assert found['image'].shape == (4, 3, 5)
        assert found['image'].dtype == np.uint8
        assert found['place'].dtype == np.int32
        assert found['speed'].dtype == np.float32
    for name in ('begins', 'reward', 'terminated', 'truncated', 'lost'):
        assert memory.reply[name].shape == (4,)


def test_leaves_do_not_overlap():
    memory = block.Block(OBSERV, ACTION, 4)
    for number, leaf in enumerate(leaves(memory)):
        leaf[:] = number + 1
    for number, leaf in enumerate(leaves(memory)):
        assert (leaf == number + 1).all()


def test_two_blocks_of_one_buffer_are_the_same_memory():
    buffer = memoryview(bytearray(block.Block.size(OBSERV, ACTION, 4)))
    ours = block.Block(OBSERV, ACTION, 4, buffer)
    theirs = block.Block(OBSERV, ACTION, 4, buffer)
    for number, leaf in enumerate(leaves(ours)):
        leaf[:] = number
    for number, leaf in enumerate(leaves(theirs)):
        assert (leaf == number).all()


def test_matrices_are_the_reply():
    memory = block.Block(OBSERV, ACTION, 2)
    memory.reply['next_observ']['image'][1] = 9
    memory.reply['reward'][:] = [0.5, -1.5]
    layout = block.reply_layout(OBSERV)
    views = layout.views([matrix.copy() for matrix in memory.matrices])
    assert (views['next_observ']['image'][1] == 9).all()
    assert not views['observ']['image'].any()
    assert views['reward'].tolist() == [0.5, -1.5]


@pytest.mark.parametrize('count', [1, 3, 16])
def test_matrices_begin_at_cache_lines(count):
    # Four bytes each: 3 of an action and a reset; 1 + 2 of place and speed,
    # twice, and five numbers. Bytes: 15 of an image, twice.
    def padded(size):
        return -(-size // 64) * 64

    size = block.Block.size(OBSERV, ACTION, count)
    assert size == (padded(count * 4 * 4) + padded(count * 4 * 11) + padded(count * 30))
    buffer = memoryview(bytearray(size))
    start = np.frombuffer(buffer, np.uint8).ctypes.data
    memory = block.Block(OBSERV, ACTION, count, buffer)
    for matrix in memory.matrices:
        assert (matrix.ctypes.data - start) % block.ALIGNMENT == 0


def test_buffer_that_is_too_small_is_refused():
    size = block.Block.size(OBSERV, ACTION, 4)
    with pytest.raises(ValueError):
        block.Block(OBSERV, ACTION, 5, memoryview(bytearray(size)))
