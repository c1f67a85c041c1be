"""Tests of the environment that asks for what it showed."""

import numpy as np
import pytest

from agents.environments.memory import Memory, State
from agents.tools import errors
from agents.tools.graph import random
from agents.tools.graph.backend import tf

KEY = random.key(0, 'test', 0)


def test_a_whole_episode():
    env = Memory(length=4, symbols=2)
    state = State(tf.constant([0, 1, 1]), tf.constant([0, 0, 0]))
    # Three agents; the last remembers wrongly, and only the last action counts.
    actions = [[1, 0, 1], [0, 0, 1], [1, 1, 1], [0, 1, 0]]
    symbols = 'AB-?'
    shown, rewards, ends = [], [], []
    for action in actions:
        observ = env.observe(state).numpy()
        assert (observ.sum(1) == 1).all()
        shown.append(''.join(symbols[index] for index in observ.argmax(1)))
        state, reward, terminated = env.step(state, tf.constant(action), KEY)
        rewards.append(reward.numpy().tolist())
        ends.append(terminated.numpy().tolist())
    assert shown == ['ABB', '---', '---', '???']
    assert rewards == [[0, 0, 0], [0, 0, 0], [0, 0, 0], [1, 1, -1]]
    assert ends == [[False] * 3, [False] * 3, [False] * 3, [True] * 3]


def test_the_shortest_episode_has_no_blanks():
    env = Memory(length=2)
    state = State(tf.constant([1]), tf.constant([0]))
    assert env.observe(state).numpy().tolist() == [[0, 1, 0, 0]]
    state, reward, terminated = env.step(state, tf.constant([0]), KEY)
    assert env.observe(state).numpy().tolist() == [[0, 0, 0, 1]]
    assert (reward.numpy()[0], terminated.numpy()[0]) == (0, False)
    state, reward, terminated = env.step(state, tf.constant([1]), KEY)
    assert (reward.numpy()[0], terminated.numpy()[0]) == (1, True)


def test_more_symbols():
    env = Memory(length=3, symbols=5)
    assert env.observation_space.shape == (7,)
    assert env.action_space.n == 5
    state = env.reset(KEY, 10_000)
    counts = np.bincount(state.cue)
    # Binomial with mean 2,000 and deviation 40.
    assert len(counts) == 5
    assert np.abs(counts - 2000).max() < 200
    assert env.observe(state).numpy().argmax(1).tolist() == state.cue[:].numpy().tolist()


@pytest.mark.parametrize('action', [0, 1])
def test_what_does_not_depend_on_the_cue_scores_nothing(action):
    env = Memory()
    state = env.reset(KEY, 10_000)
    total = np.zeros(10_000)
    terminated = tf.constant([False])
    length = 0
    while not terminated.numpy().all():
        actions = tf.fill([10_000], action)
        state, reward, terminated = env.step(state, actions, KEY)
        total += reward.numpy()
        length += 1
    assert length == env.max_length
    assert (np.abs(total) == 1).all()
    # The mean of 10,000 signs has a deviation of 0.01.
    assert abs(total.mean()) < 0.05


def test_later_observations_do_not_show_the_cue():
    env = Memory()
    for time in range(1, env.max_length):
        state = State(tf.constant([0, 1]), tf.constant([time, time]))
        one, other = env.observe(state).numpy()
        np.testing.assert_array_equal(one, other)


def test_a_frame_has_a_bright_square_where_the_observation_is_one():
    frame = Memory().render(State(np.int32(1), np.int32(0)))
    squares = frame.reshape(64, 4, 64, 3)
    assert frame.shape == (64, 256, 3)
    assert squares.max((0, 2, 3)).tolist() == [0, 255, 0, 0]
    assert squares.min((0, 2, 3)).tolist() == [0, 255, 0, 0]


@pytest.mark.parametrize('name', ['length', 'symbols'])
@pytest.mark.parametrize('value', [1, 10**9, 2.5, '3', True])
def test_other_sizes_are_refused(name, value):
    with pytest.raises(errors.ConfigError, match=f'{name} must be an integer'):
        Memory(**{name: value})
