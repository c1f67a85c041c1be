"""One native environment, without the dimension of the batch."""

import functools

import gymnasium as gym
import numpy as np
import pytest

from agents.tools.batch.mock_environment import MockEnvironment
from agents.tools.graph.backend import tf
from agents.tools.graph.in_graph_env import InGraphEnv
from agents.tools.workers.external_process import ExternalProcess


def test_outcome_is_that_of_the_environment():
    env, other = InGraphEnv(gym.make('CartPole-v1')), gym.make('CartPole-v1')
    env.reset()
    state = env.observ.numpy()
    other.reset()
    other.get_wrapper_attr('unwrapped').state = state.astype(np.float64)
    for action in (0, 1, 1):
        env.simulate(tf.constant(action))
        observ, reward, terminated, truncated, _ = other.step(action)
        np.testing.assert_allclose(env.observ, observ, rtol=1e-5)
        np.testing.assert_array_equal(env.transition.next_observ, env.observ)
        assert env.reward == reward
        assert env.done == (terminated or truncated)


def test_nothing_has_the_dimension_of_a_batch():
    env = InGraphEnv(MockEnvironment(observ_shape=(4,)))
    env.reset()
    assert env.begins.shape == ()
    assert env.begins
    env.simulate(tf.zeros(2))
    assert not env.begins
    assert env.observ.shape == env.transition.next_observ.shape == (4,)
    assert env.reward.shape == env.done.shape == ()


def test_steps_are_counted_over_all_episodes():
    env = InGraphEnv(MockEnvironment(max_duration=3))
    simulate = tf.function(env.simulate)
    env.reset()
    for count in range(1, 8):
        simulate(tf.zeros(2))
        assert env.step == count
    env.reset()
    assert env.step == 7


def test_environment_in_another_process(nothing_left):
    make = functools.partial(MockEnvironment, observ_shape=(4,))
    env = InGraphEnv(ExternalProcess(make))
    env.reset()
    env.simulate(tf.zeros(2))
    assert env.observ.shape == (4,)
    assert env.steps == [1]  # Of the environment.
    with pytest.raises(AttributeError, match='InGraphEnv has no'):
        env._hidden  # noqa: B018
    env.close()
