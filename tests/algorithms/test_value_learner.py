"""A value network is fitted to returns."""

import gymnasium as gym
import numpy as np
import pytest

from agents.algorithms.algorithm import Task
from agents.algorithms.value_learner import ValueLearner
from agents.parts import sequences
from agents.parts.optimizer import Adam
from agents.parts.policy import Inputs
from agents.parts.record import Predictions, Rollout, States
from agents.scripts import configs
from agents.tools.graph import random
from agents.tools.graph.backend import keras, tf
from agents.tools.graph.flat import Weights

pytestmark = pytest.mark.usefixtures('eagerly')

TIME, AGENTS, SIZE = 4, 3, 2


class Decay(keras.Model):
    """Adds its inputs up, half of the sum lost with every step."""

    state_size = 1

    def __init__(self):
        super().__init__()
        self.factor = self.add_weight(shape=(), initializer='ones')

    def call(self, inputs, state):
        state = 0.5 * state + inputs
        return self.factor * state, state


def define(network, clip_range=None, learning_rate=0.05, epochs=20):
    optimizer = Adam(Weights(network.trainable_variables), learning_rate)
    space = gym.spaces.Discrete(2)
    task = Task(space, space, AGENTS, configs.ppo(value_clip=clip_range))
    return ValueLearner(network, optimizer, 4, epochs, task)


def dense():
    network = keras.Sequential([keras.layers.Dense(1)])
    network(tf.zeros((1, SIZE)))
    return network


def normal(*shape):
    numbers = np.random.default_rng(shape).normal(size=shape)
    return tf.constant(numbers, tf.float32)


def predict(network, observ, begins=None, before=()):
    begins = tf.zeros((TIME, AGENTS), bool) if begins is None else begins
    value, states = sequences.unroll(network, observ, begins, before)
    return value[..., 0], states


def fit(learner, observ, target, old, begins=None, before=()):
    begins = tf.zeros((TIME, AGENTS), bool) if begins is None else begins
    rollout = Rollout(**dict.fromkeys(Rollout._fields))._replace(
        inputs=Inputs(observ, ()),
        begins=begins,
        predictions=Predictions((), old, ()),
        state=States((), before),
        returns=target,
    )
    key = random.key(0, 'test', 0)
    return learner.update(rollout, key, tf.constant(1.0))


def test_fitting_finds_a_linear_function():
    observ, network = normal(TIME, AGENTS, SIZE), dense()
    target = 2 * observ[..., 0] - observ[..., 1] + 3
    learner = define(network, learning_rate=0.3, epochs=60)
    metrics = fit(learner, observ, target, predict(network, observ)[0])
    value, _ = predict(network, observ)
    assert np.abs(value - target).mean() < 0.1
    assert metrics['loss'] < 0.01
    assert learner.draws == 60
    assert metrics['skipped'] == 0


def test_clipping_keeps_values_near_the_old_ones():
    observ = normal(TIME, AGENTS, SIZE)
    moved = []
    for clip_range in (None, 0.2):
        network = dense()
        learner = define(network, clip_range, learning_rate=0.02, epochs=40)
        old, _ = predict(network, observ)
        fit(learner, observ, old + 50, old)
        value, _ = predict(network, observ)
        moved.append(np.abs(value - old).mean())
    assert moved[1] < 0.5 < 1.0 < moved[0]


def test_recurrent_network_is_fitted_from_the_state_before_the_rollout():
    network = Decay()
    learner = define(network, learning_rate=0.2)
    before = normal(AGENTS, 1)
    begins = tf.cast([[0, 0, 0], [0, 0, 0], [1, 0, 0], [0, 0, 0]], tf.bool)
    observ = normal(TIME, AGENTS, 1)
    old, _ = predict(network, observ, begins, before)
    # The values are right already, so that nothing is to be learnt.
    metrics = fit(learner, observ, old, old, begins, before)
    np.testing.assert_allclose(metrics['loss'], 0, atol=1e-10)
    np.testing.assert_allclose(network.factor.numpy(), 1, atol=1e-6)
    fit(learner, observ, 2 * old, old, begins, before)
    np.testing.assert_allclose(network.factor.numpy(), 2, atol=0.1)
