"""TRPO: the Fisher matrix, the step and its length, and whole updates."""

import itertools

import numpy as np
import pytest

from agents.parts import distributions, gradients
from agents.tools.graph import flat
from agents.tools.graph.backend import compiled, keras, tf

recurrent_is_slow = pytest.mark.parametrize(
    'network', ['feed_forward', pytest.param('recurrent', marks=pytest.mark.slow)]
)


def define_fisher(head, size):
    """A small network, some rows, and the exact Fisher matrix of them.

    That of a distribution is E[∇ ln π ∇ ln πᵀ], here with the expectation
    over all actions taken exactly: JᵀMJ, with the Jacobian of the outputs and
    the Fisher matrix of the distribution by its own parameters.
    """
    rng = np.random.default_rng(0)
    network = keras.Sequential([keras.layers.Dense(4, 'tanh'), keras.layers.Dense(size)])
    observ = tf.constant(rng.normal(size=(12, 3)), tf.float32)
    network(observ)
    weights = [weight.value for weight in network.trainable_variables]
    for weight in weights:
        weight.assign(0.5 * rng.normal(size=weight.shape))
    with tf.GradientTape() as tape:
        output = network(observ)
    jacobian = tape.jacobian(output, weights)
    jacobian = np.concatenate([np.reshape(part, [12, size, -1]) for part in jacobian], -1)
    own = np.stack([fisher_of_output(head, row) for row in output.numpy()])
    exact = np.einsum('rop,roq,rqs->ps', jacobian, own, jacobian) / 12

    def describe(rows):
        return head(network(rows))

    return flat.Weights(network.trainable_variables), observ, describe, exact


def gaussian(output):
    return distributions.Gaussian(*tf.split(output, 2, -1))


def fisher_of_output(head, output):
    if head is gaussian:
        # 1/σ² for a mean, 2 for ln σ.
        _, log_std = np.split(output, 2)
        return np.diag(np.concatenate([np.exp(-2 * log_std), [2.0, 2.0]]))
    prob = np.exp(output - output.max())
    prob /= prob.sum()
    return np.diag(prob) - np.outer(prob, prob)


@pytest.mark.parametrize('part_rows', [None, 4, 1])
@pytest.mark.parametrize('head, size', [(gaussian, 4), (distributions.Categorical, 3)])
def test_fisher_product_against_the_matrix(head, size, part_rows):
    weights, rows, describe, exact = define_fisher(head, size)
    rng = np.random.default_rng(1)
    wrap = compiled if part_rows == 4 else lambda function: function

    @wrap
    def product(vector):
        return gradients.fisher_product(describe, weights, vector, rows, part_rows)

    for _ in range(3):
        vector = rng.normal(size=weights.size).astype(np.float32)
        np.testing.assert_allclose(
            product(tf.constant(vector)), exact @ vector, rtol=1e-3, atol=1e-4
        )


def weights_of(algo):
    return flat.Weights(algo.policy.network.trainable_variables).read().numpy()


def reward_positive(now, action):
    return action[:, 0]


@recurrent_is_slow
@pytest.mark.usefixtures('eagerly')
def test_rewarded_actions_become_more_probable(define, play, network):
    algo = define('trpo', network=network, kl_target=0.05)
    means = []
    for _ in range(6):
        play(algo, reward_positive)
        metrics = algo.update()
        means.append(algo.summary()['mode'][..., 0].numpy().mean())
        assert metrics['optimgain'] >= 0
        assert metrics['meankl'] <= 1.5 * 0.05 + 1e-6
    assert means[-1] > means[0] + 0.3
    assert algo.failure() is None


@recurrent_is_slow
@pytest.mark.usefixtures('eagerly')
def test_step_is_as_long_as_its_divergence_says(define, play, network):
    # Where the step is short, the models that it is from are nearly exact.
    algo = define(
        'trpo',
        network=network,
        kl_target=1e-6,
        fisher_every=1,
        damping=1e-6,
        conjugate_steps=40,
        line_search=False,
    )
    play(algo)
    metrics = algo.update()
    np.testing.assert_allclose(metrics['meankl'], 1e-6, rtol=0.1)
    assert metrics['surrgain'] > 0
    assert (metrics['step_size'], metrics['steps_tried']) == (1, 1)


@pytest.mark.usefixtures('eagerly')
def test_step_is_the_natural_gradient(define, play):
    """As by an explicit Fisher matrix, inverted."""
    algo = define(
        'trpo',
        kl_target=1e-4,
        fisher_every=1,
        damping=0.05,
        conjugate_steps=60,
        line_search=False,
        normalize_advantage=False,
    )
    play(algo)
    before = weights_of(algo)
    learner = algo.learner
    update, found = learner.update, {}

    def measure(rollout, *args):
        rows, weights = learner._define_rows(rollout), learner._weights
        found['slope'], _ = gradients.of_rows(learner._loss, weights, rows)
        found['columns'] = [
            gradients.fisher_product(learner._describe, weights, tf.constant(unit), rows)
            for unit in np.eye(weights.size, dtype=np.float32)
        ]
        return update(rollout, *args)

    learner.update = measure
    algo.update()
    matrix = np.stack(found['columns']).astype(np.float64)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-5)
    matrix += 0.05 * np.eye(len(matrix))
    direction = np.linalg.solve(matrix, found['slope'])
    length = np.sqrt(2 * 1e-4 / (direction @ matrix @ direction))
    np.testing.assert_allclose(weights_of(algo) - before, -length * direction, rtol=1e-2, atol=2e-5)


@recurrent_is_slow
@pytest.mark.usefixtures('eagerly')
def test_search_that_rejects_all_steps_changes_no_bit(define, play, network):
    algo = define('trpo', network=network, kl_target=0.1, search_steps=3)
    play(algo, reward_positive)
    before = weights_of(algo)
    measure = algo.learner._measure
    tried = []

    def worse(rows):
        tried.append(weights_of(algo))
        return {**measure(rows), 'loss': tf.constant(1e3)}

    algo.learner._measure = worse
    metrics = algo.update()
    np.testing.assert_array_equal(weights_of(algo), before)
    assert metrics['step_size'] == 0 and metrics['steps_tried'] == 3
    assert metrics['optimgain'] == metrics['meankl'] == 0
    # Each was 0.8 of the one before.
    steps = [weights - before for weights in tried]
    for one, next_one in itertools.pairwise(steps):
        assert np.abs(one).max() > 0
        np.testing.assert_allclose(next_one, 0.8 * one, atol=1e-5)


@pytest.mark.usefixtures('eagerly')
def test_step_that_goes_too_far_is_shortened(define, play):
    # Damping and few rows are taken away, the step is much too long.
    algo = define('trpo', kl_target=3.0, backtrack_factor=0.5)
    for _ in range(3):
        play(algo, reward_positive)
        metrics = algo.update()
        if metrics['steps_tried'] > 1:
            break
    assert metrics['steps_tried'] > 1
    assert metrics['step_size'] == 0.5 ** (int(metrics['steps_tried']) - 1)
    assert metrics['meankl'] <= 1.5 * 3.0


@pytest.mark.usefixtures('eagerly')
def test_useless_gradient_changes_nothing(define, play):
    algo = define('trpo', normalize_reward=False)
    play(algo, lambda now, action: np.full(len(action), np.nan))
    before = weights_of(algo)
    metrics = algo.update()
    np.testing.assert_array_equal(weights_of(algo), before)
    assert metrics['skipped'] > 0
