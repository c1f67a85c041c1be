"""REINFORCE: its loss, its gradients and whole updates."""

import numpy as np
import pytest

from agents.algorithms.reinforce.reinforce import REINFORCE, score_loss
from agents.parts import distributions, returns
from agents.tools.graph import flat
from agents.tools.graph.backend import keras, tf

each_kind = pytest.mark.parametrize('network', ['feed_forward', 'recurrent'])
recurrent_is_slow = pytest.mark.parametrize(
    'network', ['feed_forward', pytest.param('recurrent', marks=pytest.mark.slow)]
)


def test_loss_computed_by_hand():
    # The mean of 2 ln ½ and −1 ln ¼.
    log_prob = tf.math.log([[0.5], [0.25]])
    loss = score_loss(log_prob, tf.constant([[2.0], [-1.0]]))
    np.testing.assert_allclose(loss, -(2 * np.log(0.5) + np.log(4)) / 2)


def test_gradient_computed_by_hand():
    # ∂ ln p₁ / ∂ logits = (−p₀, 1 − p₁) with p = (½, ½), times 3.
    logits = tf.zeros((1, 2))
    with tf.GradientTape() as tape:
        tape.watch(logits)
        log_prob = distributions.Categorical(logits).log_prob(tf.constant([1]))
        loss = score_loss(log_prob, tf.constant([3.0]))
    np.testing.assert_allclose(tape.gradient(loss, logits), [[1.5, -1.5]])


def test_gradients_of_parts_average_to_that_of_the_whole():
    # Episodes of 2, 5 and 9 steps, and a real network.
    lengths = np.array([2, 5, 9])
    rng = np.random.default_rng(0)
    network = keras.Sequential([keras.layers.Dense(8, 'tanh'), keras.layers.Dense(3)])
    observ = tf.constant(rng.normal(size=(16, 4)), tf.float32)
    action = tf.constant(rng.integers(0, 3, 16), tf.int32)
    advantage = tf.constant(rng.normal(size=16), tf.float32)
    network(observ)

    def gradient(rows):
        with tf.GradientTape() as tape:
            policy = distributions.Categorical(network(observ[rows]))
            loss = score_loss(policy.log_prob(action[rows]), advantage[rows])
        return flat.concat(tape.gradient(loss, network.trainable_variables))

    ends = np.cumsum(lengths)
    parts = [gradient(slice(e - n, e)) for e, n in zip(ends, lengths)]
    mean = np.average(parts, axis=0, weights=lengths)
    whole = gradient(slice(None)).numpy()
    np.testing.assert_allclose(mean, whole, atol=1e-6)
    # Which that of equal episodes is not.
    assert np.abs(np.mean(parts, 0) - whole).max() > 1e-2


class Expectant(REINFORCE):
    """Computes the gradient of a rollout before it is learnt from."""

    def _learn(self, rollout, inputs):
        advantage = returns.normalized(rollout.advantage)
        weights = [w.value for w in self.policy.network.trainable_variables]
        with tf.GradientTape() as tape:
            policy = self.policy.unroll(rollout.inputs, rollout.begins, rollout.state.policy)
            loss = score_loss(policy.log_prob(rollout.action), advantage)
            loss -= 0.5 * tf.reduce_mean(policy.entropy())
        self.expected = loss, flat.concat(tape.gradient(loss, weights))
        return super()._learn(rollout, inputs)


@each_kind
@pytest.mark.usefixtures('eagerly')
def test_one_step_along_the_gradient_of_the_rollout(define, play, network):
    algo = define(
        'reinforce', kind=Expectant, network=network, gradient_clip=None, entropy_bonus=0.5
    )
    for _ in range(2):
        play(algo)
        mean = algo.summary()['gradients/policy']
        metrics = algo.update()
        loss, gradient = algo.expected
        np.testing.assert_allclose(metrics['policy_loss'], loss, atol=1e-6)
        # The running mean takes in a tenth of each gradient.
        change = algo.summary()['gradients/policy'] - 0.9 * mean
        np.testing.assert_allclose(change, 0.1 * gradient, atol=1e-6)


@recurrent_is_slow
@pytest.mark.usefixtures('eagerly')
def test_rewarded_actions_become_more_probable(define, play, network):
    algo = define('reinforce', network=network, learning_rate=0.1)
    means = []
    for _ in range(6):
        play(algo, lambda now, action: action[:, 0])
        algo.update()
        means.append(algo.summary()['mode'][..., 0].numpy().mean())
    assert means[-1] > means[0] + 0.3
    assert algo.failure() is None
