"""Tests of the environment with a falling block."""

import numpy as np
import pytest

from agents.environments.catch import Catch, State
from agents.tools import errors
from agents.tools.graph import random
from agents.tools.graph.backend import tf

KEY = random.key(0, 'test', 0)
LEFT, STAY, RIGHT = range(3)


def state(row, column, *paddle):
    return State(tf.constant([row]), tf.constant([column]), tf.constant([paddle]))


def test_a_catch():
    env = Catch()
    # From column 5 to 7 in two steps, then waiting for the block.
    rewards, ends, boards = play(env, state(0, 7, 5), [RIGHT] * 2 + [STAY] * 7)
    assert rewards == [0] * 8 + [1]
    assert ends == [False] * 8 + [True]
    assert [lit(board) for board in boards] == [
        [(0, 7), (9, 5)],
        [(1, 7), (9, 6)],
        *[[(row, 7), (9, 7)] for row in range(2, 9)],
        [(9, 7)],
    ]


def test_a_miss():
    rewards, ends, boards = play(Catch(), state(0, 2, 5), [STAY, LEFT] * 4 + [2])
    # Four steps to the left and one to the right: in column 2, one too late.
    assert rewards == [0] * 8 + [1]
    rewards, ends, boards = play(Catch(), state(0, 2, 5), [STAY, LEFT] * 4 + [1])
    assert rewards == [0] * 8 + [-1]
    assert ends == [False] * 8 + [True]
    assert lit(boards[-1]) == [(9, 1), (9, 2)]


def test_the_paddle_stays_on_the_board():
    for action, column in ((LEFT, 0), (RIGHT, 9)):
        _, _, boards = play(Catch(), state(0, 4, 5), [action] * 9)
        assert (9, column) in lit(boards[-1])


def test_channels_are_the_last_frames():
    env = Catch(frames=3)
    assert env.observation_space.shape == (10, 10, 3)
    _, _, boards = play(env, env.reset(KEY, 1), [LEFT, LEFT, STAY, RIGHT])
    newest = [board[:, :, 0] for board in boards]
    for time, board in enumerate(boards):
        for past in range(3):
            expected = newest[max(time - past, 0)]
            np.testing.assert_array_equal(board[:, :, past], expected)


def test_blocks_fall_everywhere_and_paddles_begin_in_the_middle():
    start = Catch(frames=2).reset(KEY, 10_000)
    # Binomial with mean 1,000 and deviation 30.
    counts = np.bincount(start.column)
    assert len(counts) == 10
    assert np.abs(counts - 1000).max() < 150
    assert (start.row.numpy() == 0).all()
    assert (start.paddle.numpy() == 5).all()


def test_following_the_block_always_catches_it():
    env = Catch()
    current = env.reset(KEY, 100)
    for _ in range(env.max_length):
        action = tf.sign(current.column - current.paddle[:, 0]) + 1
        current, reward, terminated = env.step(current, action, KEY)
    assert (reward.numpy() == 1).all()
    assert terminated.numpy().all()


def test_a_frame_is_the_board_enlarged():
    env = Catch(frames=2)
    one = State(np.int32(3), np.int32(7), np.int32([4, 5]))
    frame = env.render(one)
    assert frame.shape == (200, 200, 3)
    assert frame.dtype == np.uint8
    assert lit(frame[::20, ::20]) == [(3, 7), (9, 4)]
    # Every pixel of the board is 20 × 20 in the frame.
    assert (frame == frame[::20, ::20].repeat(20, 0).repeat(20, 1)).all()


@pytest.mark.parametrize('frames', [0, 100_000_000])
def test_other_numbers_of_frames_are_refused(frames):
    with pytest.raises(errors.ConfigError, match='from 1 to 64, got'):
        Catch(frames=frames)


def play(env, current, actions):
    """Rewards and ends of an episode, and all observations of it."""
    rewards, ends, boards = [], [], [env.observe(current)[0].numpy()]
    for action in actions:
        current, reward, terminated = env.step(current, tf.constant([action]), KEY)
        rewards.append(float(reward[0]))
        ends.append(bool(terminated[0]))
        boards.append(env.observe(current)[0].numpy())
    return rewards, ends, boards


def lit(board):
    """Row and column of the bright pixels."""
    assert set(np.unique(board)) <= {0, 255}
    return [tuple(place) for place in np.argwhere(board[:, :, 0]).tolist()]
