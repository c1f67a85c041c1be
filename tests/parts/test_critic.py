"""The value function: its loss, its predictions and how it is learnt."""

import numpy as np
import pytest

from agents.parts.adam import Adam
from agents.parts.critic import Critic, explained_variance, value_loss
from agents.parts.flat import Weights
from agents.parts.policy import Inputs
from agents.parts.record import Rollout
from agents.tools.graph import random
from agents.tools.graph.backend import compiled, keras, tf

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
    return Critic(network, optimizer, AGENTS, 4, epochs, clip_range)


def dense():
    network = keras.Sequential([keras.layers.Dense(1)])
    network(tf.zeros((1, SIZE)))
    return network


def normal(*shape):
    numbers = np.random.default_rng(shape).normal(size=shape)
    return tf.constant(numbers, tf.float32)


def test_value_loss_computed_by_hand():
    # Half the mean of 1², 2², 3² and 0².
    value, target = tf.constant([1.0, 2, 3, 4]), tf.constant([2.0, 4, 0, 4])
    loss = value_loss(value, target, tf.zeros(4), None)
    np.testing.assert_allclose(loss, 0.5 * (1 + 4 + 9 + 0) / 4)


@pytest.mark.parametrize(
    ('value', 'target', 'expected'),
    [
        # Moved by 0.1 of the 0.5 that are allowed: (2 − 1.1)².
        (1.1, 2.0, 0.81),
        # Moved towards the target by 0.8, which counts as 0.5: (2 − 1.5)².
        (1.8, 2.0, 0.25),
        # Moved away by 1, which counts as it is, being worse: (2 − 0)².
        (0.0, 2.0, 4.0),
        # Moved down past the target: (0.9 − 0.1)², and kept at 0.5 (0.4)².
        (0.1, 0.9, 0.64),
    ],
)
def test_clipped_value_loss_computed_by_hand(value, target, expected):
    arguments = [tf.constant([x]) for x in (value, target, 1.0)]
    loss = value_loss(*arguments, 0.5)
    np.testing.assert_allclose(loss, 0.5 * expected, rtol=1e-5)


def test_clipped_value_loss_has_no_gradient_beyond_the_range():
    value = tf.constant([1.8, 1.1])
    with tf.GradientTape() as tape:
        tape.watch(value)
        loss = value_loss(value, tf.constant([2.0, 2]), tf.ones(2), 0.5)
    # Only the second counts: the mean of ½ (2 − v)² over two.
    gradient = tape.gradient(loss, value)
    np.testing.assert_allclose(gradient, [0, -0.45], rtol=1e-5)


def test_explained_variance_computed_by_hand():
    target = tf.constant([1.0, 2, 3, 4])
    assert abs(explained_variance(target, target) - 1) < 1e-6
    # An offset does not count, but a constant explains nothing.
    assert abs(explained_variance(target + 5, target) - 1) < 1e-6
    assert abs(explained_variance(tf.fill(4, 2.5), target)) < 1e-6
    # Errors of ±1 where the variance is 1¼.
    value = target + tf.constant([1.0, -1, -1, 1])
    assert abs(explained_variance(value, target) - (1 - 1 / 1.25)) < 1e-6


@pytest.mark.parametrize('wrap', [lambda f: f, tf.function, compiled])
def test_explained_variance_far_from_zero_is_as_in_float64(wrap):
    rng = np.random.default_rng(0)
    target = (1e6 + rng.normal(size=(128, 1024))).astype(np.float32)
    value = np.float32(0.5 * (target - 1e6))
    result = wrap(explained_variance)(tf.constant(value), tf.constant(target))
    exact = target.astype(np.float64)
    expected = 1 - np.var(exact - value) / np.var(exact)
    np.testing.assert_allclose(result, expected, atol=0.01)


def test_values_are_those_of_the_network():
    network = dense()
    observ = normal(TIME, AGENTS, SIZE)
    next_observ = observ + 1
    begins = tf.zeros((TIME, AGENTS), bool)
    value, next_value = define(network).advance(observ, begins, next_observ)
    assert value.shape == next_value.shape == (TIME, AGENTS)
    for result, inputs in ((value, observ), (next_value, next_observ)):
        for time in range(TIME):
            expected = network(inputs[time])[:, 0]
            np.testing.assert_allclose(result[time], expected, rtol=1e-5)


def test_recurrent_values_computed_by_hand():
    critic = define(Decay())
    # The second agent's episode ends after the first step, in 8.
    observ = tf.constant([[4.0, 4, 0], [2, 2, 0]])[..., None]
    next_observ = tf.constant([[2.0, 8, 0], [6, 6, 0]])[..., None]
    begins = tf.cast([[1, 1, 1], [0, 1, 0]], tf.bool)
    value, next_value = critic.advance(observ, begins, next_observ)
    # 4, then 4/2 + 2, then 4/2 + 6; the other 4, in the end 4/2 + 8, then 2.
    np.testing.assert_allclose(value[:, :2], [[4, 4], [4, 2]])
    np.testing.assert_allclose(next_value[:, :2], [[4, 10], [8, 7]])
    # The next rollout goes on from 4 and 2.
    ones = tf.ones((1, AGENTS, 1))
    begins = tf.cast([[0, 0, 1]], tf.bool)
    value, _ = critic.advance(ones, begins, ones)
    np.testing.assert_allclose(value, [[3, 2, 1]])


def fit(critic, observ, begins, target, old):
    nothing = dict.fromkeys(Rollout._fields)
    rollout = Rollout(**nothing)._replace(
        inputs=Inputs(observ, ()), begins=begins, value=old, returns=target
    )
    key = random.key(0, 'test', 0)
    return critic.update(rollout, key, tf.constant(1.0))


def test_fitting_finds_a_linear_function():
    observ = normal(TIME, AGENTS, SIZE)
    target = 2 * observ[..., 0] - observ[..., 1] + 3
    critic = define(dense(), learning_rate=0.3, epochs=60)
    begins = tf.zeros((TIME, AGENTS), bool)
    old, _ = critic.advance(observ, begins, observ)
    metrics = fit(critic, observ, begins, target, old)
    value, _ = critic.advance(observ, begins, observ)
    assert np.abs(value - target).mean() < 0.1
    assert metrics['loss'] < 0.01
    assert critic.draws == 60
    assert metrics['skipped'] == 0

    def explained(value):
        return 1 - np.var(target - value) / np.var(target)

    for name, values in (('', old), ('_after', value)):
        found = metrics[f'explained_variance{name}']
        np.testing.assert_allclose(found, explained(values), rtol=1e-3)


def test_clipping_keeps_values_near_the_old_ones():
    observ = normal(TIME, AGENTS, SIZE)
    begins = tf.zeros((TIME, AGENTS), bool)
    moved = []
    for clip_range in (None, 0.2):
        critic = define(dense(), clip_range, learning_rate=0.02, epochs=40)
        old, _ = critic.advance(observ, begins, observ)
        fit(critic, observ, begins, old + 50, old)
        value, _ = critic.advance(observ, begins, observ)
        moved.append(np.abs(value - old).mean())
    assert moved[1] < 0.5 < 1.0 < moved[0]


def test_recurrent_network_is_fitted_from_the_state_before_the_rollout():
    network = Decay()
    critic = define(network, learning_rate=0.2)
    before = normal(TIME, AGENTS, 1)
    begins = tf.cast([[1, 1, 1], [0, 0, 0], [0, 1, 0], [0, 0, 0]], tf.bool)
    critic.advance(before, begins, before)
    going_on = tf.cast([[0, 0, 0], [0, 0, 0], [1, 0, 0], [0, 0, 0]], tf.bool)
    observ = normal(TIME + 1, AGENTS, 1)[1:]
    old, _ = critic.advance(observ, going_on, observ)
    # The values are right already, so that nothing is to be learnt.
    metrics = fit(critic, observ, going_on, old, old)
    np.testing.assert_allclose(metrics['loss'], 0, atol=1e-10)
    np.testing.assert_allclose(network.factor.numpy(), 1, atol=1e-6)
    fit(critic, observ, going_on, 2 * old, old)
    np.testing.assert_allclose(network.factor.numpy(), 2, atol=0.1)
