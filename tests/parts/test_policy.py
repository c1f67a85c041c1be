"""From observations to distributions of actions."""

import gymnasium as gym
import numpy as np
import pytest

from agents.parts import distributions, policy, sequences
from agents.scripts import configs
from agents.tools.graph.backend import tf
from agents.training import networks

OBSERVS = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
ACTIONS = gym.spaces.Discrete(4)
TIME, AGENTS = 5, 2


def define(network, **settings):
    config = configs.ppo(
        network=network, policy_layers=[4], value_layers=[4], recurrent_units=4, **settings
    )
    made = networks.define(OBSERVS, ACTIONS, config)
    return policy.define(made.policy, OBSERVS, ACTIONS, config)


@pytest.fixture(params=['feed_forward', 'recurrent'])
def trained(request):
    made = define(request.param, observ_clip=1.5)
    made.update_statistics(observs(offset=5))
    return made


def observs(offset=0):
    numbers = np.random.default_rng(offset).normal(size=(TIME, AGENTS, 3))
    return tf.constant(3 * numbers + offset, tf.float32)


def test_a_step_normalizes_first(trained):
    observ = observs(offset=4)[0]
    zero = sequences.zero_state(trained.network, AGENTS)
    distribution, state = trained.step(observ, zero)
    seen = observs(offset=5).numpy()
    inputs = (observ - seen.mean((0, 1))) / seen.std((0, 1))
    inputs = np.clip(inputs, -1.5, 1.5).astype(np.float32)
    output, after = sequences.step(trained.network, tf.constant(inputs), zero)
    assert isinstance(distribution, distributions.Categorical)
    np.testing.assert_allclose(distribution.logits, output, rtol=1e-4)
    for one, other in zip(tf.nest.flatten(state), tf.nest.flatten(after)):
        np.testing.assert_allclose(one, other, rtol=1e-4)


def test_unrolling_is_one_step_after_the_other(trained):
    begins = tf.cast([[1, 1], [0, 0], [0, 1], [0, 0], [1, 0]], tf.bool)
    state = sequences.zero_state(trained.network, AGENTS)
    inputs = trained.normalize(observs())
    logits = trained.unroll(inputs, begins, state).logits
    for time in range(TIME):
        state = sequences.forget(state, begins[time])
        distribution, state = trained.step(observs()[time], state)
        np.testing.assert_allclose(logits[time], distribution.logits, atol=1e-6)


def test_normalizing_can_be_switched_off():
    made = define('feed_forward', normalize_observ=False)
    made.update_statistics(observs(offset=5))
    distribution, _ = made.step(observs()[0], ())
    expected = made.network(observs()[0])
    np.testing.assert_allclose(distribution.logits, expected, rtol=1e-5)
