"""Acting without learning, beside a training that must not notice."""

import gymnasium as gym
import numpy as np
import pytest

from agents.algorithms.actor import Actor
from agents.parts import sequences
from agents.tools.batch import mock_environment
from agents.tools.graph.backend import tf
from agents.training import simulation_graph


def observs(time):
    numbers = np.random.default_rng(time).normal(size=(3, 3))
    return tf.constant(numbers, tf.float32)


@pytest.mark.parametrize('network', ['feed_forward', 'recurrent'])
def test_performs_the_mode(define, network):
    policy = define(network=network).policy
    actor = Actor(policy, num_agents=3)
    state = sequences.zero_state(policy.network, 3)
    masks = tf.cast([[1, 1, 1], [0, 0, 0], [0, 1, 0], [0, 0, 0]], tf.bool)
    for time, begins in enumerate(masks):
        actor.begin_episode(begins)
        action = actor.perform(observs(time))
        before = sequences.forget(state, begins)
        distribution, state = policy.step(observs(time), before)
        np.testing.assert_allclose(action, distribution.mode, atol=1e-6)


def test_actions_have_the_shape_of_the_space(define):
    actions = gym.spaces.MultiDiscrete([[2, 3], [4, 2]])
    actor = Actor(define(actions=actions).policy, num_agents=3)
    assert actor.perform(observs(0)).shape == (3, 2, 2)


@pytest.mark.parametrize(
    'network', ['feed_forward', pytest.param('recurrent', marks=pytest.mark.slow)]
)
@pytest.mark.usefixtures('eagerly', 'nothing_left')
def test_evaluation_does_not_disturb_training(settings, network):
    """Training with evaluations in between against training without."""
    config = settings(network=network, eval_episodes=2, max_length=5)

    def train(evaluations):
        batches = [
            simulation_graph.define_batch_env(
                mock_environment.MockEnvironment, count, env_processes=False
            )
            for count in (config.num_agents, config.eval_episodes)
        ]
        graph = simulation_graph.define_simulation_graph(*batches, config)
        graph.restart()
        for _ in range(2):
            graph.train()
            for _ in range(evaluations):
                assert graph.eval()['episodes'] == 2
        return {name: v.numpy() for name, v in graph.variables.items()}

    without, beside = train(0), train(3)
    assert without.keys() == beside.keys()
    for name, value in without.items():
        np.testing.assert_array_equal(value, beside[name], name)
