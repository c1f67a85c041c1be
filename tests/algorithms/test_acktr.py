"""ACKTR: whole updates, and the size of their steps."""

import numpy as np
import pytest

from agents.algorithms.acktr.acktr import ADAPTATION, LARGEST, SMALLEST
from agents.parts import sequences
from agents.tools import errors, nested
from agents.tools.graph import flat
from agents.tools.graph.backend import tf
from agents.tools.transition import Transition

pytestmark = pytest.mark.usefixtures('eagerly')


def weights_of(network):
    return flat.Weights(network.trainable_variables).read().numpy()


def factors_of(optimizer):
    """Those of each block, by how many numbers it takes and puts out."""
    pairs = zip(optimizer._blocks, optimizer._factors, strict=True)
    return {
        (block.inputs, block.outputs): [factor.numpy() for factor in factors]
        for block, factors in pairs
    }


def train(algo, updates=2):
    """Let an algorithm act and learn, with the same numbers each time."""
    rng = np.random.default_rng(0)
    never = np.zeros(4, bool)
    for _ in range(updates):
        for _ in range(6):
            observ, after = rng.normal(size=(2, 4, 3)).astype(np.float32)
            reward = rng.normal(size=4).astype(np.float32)
            done = rng.random(4) < 0.25
            action = algo.perform(tf.constant(observ))
            transition = Transition(reward, done, never, after, never)
            algo.experience(*nested.map(tf.convert_to_tensor, (observ, action, transition)))
            algo.end_episode(tf.constant(done))
        metrics = algo.update()
    return metrics


def reward_positive(now, action):
    return action[:, 0]


def test_rewarded_actions_become_more_probable(define, play):
    algo = define('acktr', kl_clip=0.05, kl_target=0.05)
    means = []
    for _ in range(8):
        play(algo, reward_positive)
        metrics = algo.update()
        means.append(algo.summary()['mode'][..., 0].numpy().mean())
        assert 0 < metrics['kl'] < 0.5
    assert means[-1] > means[0] + 0.3
    assert algo.failure() is None


def test_values_are_learnt_in_a_few_steps(define, play):
    algo = define(
        'acktr',
        discount=0.0,
        normalize_reward=False,
        value_epochs=4,
        value_learning_rate=0.5,
        value_kl_clip=1.0,
        value_cold_steps=0,
    )
    for _ in range(3):
        play(algo, lambda now, action: now['observ'][:, 0])
        metrics = algo.update()
    assert metrics['explained_variance'] > 0.6


def test_divergence_of_a_step_is_about_its_bound(define, play):
    algo = define('acktr', cold_steps=0, kl_clip=1e-4, damping=1e-4, learning_rate=1e3)
    play(algo)
    assert 0.3e-4 < algo.update()['kl'] < 3e-4


@pytest.mark.parametrize(
    ('kl', 'scale', 'expected'),
    [
        (0.021, 1.0, 1 / ADAPTATION),
        (0.019, 1.0, 1.0),
        (0.0051, 1.0, 1.0),
        (0.0049, 1.0, ADAPTATION),
        # The divergence that is meant falls with the learning rate.
        (0.011, 0.5, 1 / ADAPTATION),
        (0.0049, 0.5, 1.0),
        (np.nan, 1.0, 1.0),
    ],
)
def test_step_size_follows_the_divergence(define, kl, scale, expected):
    learner = define('acktr', kl_target=0.01).learner
    learner._adapt(tf.constant(kl), tf.constant(scale))
    np.testing.assert_allclose(learner._step_size, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ('kl_target', 'factor', 'last'),
    [
        (1e3, ADAPTATION, LARGEST),
        pytest.param(1e-9, 1 / ADAPTATION, SMALLEST, marks=pytest.mark.slow),
    ],
)
def test_step_size_stays_within_limits(define, play, kl_target, factor, last):
    algo = define('acktr', cold_steps=0, learning_rate=1e6, kl_target=kl_target, kl_clip=1e-4)
    for count in (1, 2):
        play(algo)
        size = algo.update()['step_size']
        np.testing.assert_allclose(size, factor**count, rtol=1e-5)
    algo.learner._step_size.assign(last / factor**0.5)
    for _ in range(2):
        play(algo)
        np.testing.assert_allclose(algo.update()['step_size'], last)


def test_step_size_scales_the_step(define):
    changes = []
    for size in (1.0, 0.25):
        algo = define('acktr', cold_steps=0, kl_clip=1e9)
        algo.learner._step_size.assign(size)
        train(algo, updates=1)
        changes.append(algo.summary()['steps/policy'])
    np.testing.assert_allclose(changes[1], 0.25 * changes[0], rtol=1e-5)


def test_factors_are_of_actions_drawn_anew(define, play, monkeypatch):
    algo = define('acktr')
    played, found = play(algo), {}
    minimize = algo.learner.optimizer.minimize

    def watch(loss, rows, *args):
        found.update(rows=rows['steps'], means=loss(rows))
        steps, _ = sequences.from_rows(algo.policy.network, rows)
        policy = algo.policy.unroll(steps['inputs'], steps['begins'], ())
        found['score'] = tf.reduce_mean(policy.log_prob(steps['sampled']))
        return minimize(loss, rows, *args)

    monkeypatch.setattr(algo.learner.optimizer, 'minimize', watch)
    algo.update()
    action, sampled = (found['rows'][n].numpy() for n in ('action', 'sampled'))
    np.testing.assert_array_equal(action, played.action.reshape(-1, 2))
    assert (sampled != action).all()
    np.testing.assert_allclose(found['means']['score'], found['score'])


def test_blocks_of_both_networks(define, play):
    algo = define('acktr')
    play(algo)
    algo.update()
    policy = factors_of(algo.learner.optimizer)
    assert set(policy) == {(4, 5), (6, 2), (1, 2)}
    np.testing.assert_array_equal(policy[1, 2][0], [[1.0]])
    # The value is the mean of a normal distribution of deviation one.
    value = factors_of(algo.value_learner.optimizer)
    assert set(value) == {(4, 5), (6, 1)}
    np.testing.assert_allclose(value[6, 1][1], [[1.0]], rtol=1e-6)


@pytest.mark.slow
def test_same_seed_gives_the_same_weights(define):
    results = []
    for seed in (1, 1, 2):
        algo = define('acktr', seed=seed, inverse_every=1)
        metrics = train(algo, updates=1)
        assert metrics['skipped'] == 0
        networks = algo.policy.network, algo.value_network
        results.append(np.concatenate([weights_of(n) for n in networks]))
    np.testing.assert_array_equal(results[0], results[1])
    assert (results[0] != results[2]).any()


def test_useless_gradient_changes_nothing(define, play):
    algo = define('acktr', normalize_reward=False, kl_target=1.0)
    optimizers = algo.learner.optimizer, algo.value_learner.optimizer
    networks = algo.policy.network, algo.value_network
    play(algo)
    algo.update()
    before = [weights_of(network) for network in networks]
    factors = [factors_of(optimizer) for optimizer in optimizers]
    size = algo.learner._step_size.numpy()
    play(algo, lambda now, action: np.full(len(action), np.nan))
    metrics = algo.update()
    assert metrics['skipped'] > 0
    assert metrics['kl'] == 0
    for network, weights in zip(networks, before, strict=True):
        np.testing.assert_array_equal(weights_of(network), weights)
    for optimizer, kept in zip(optimizers, factors, strict=True):
        for name, pair in factors_of(optimizer).items():
            np.testing.assert_array_equal(pair[0], kept[name][0])
            np.testing.assert_array_equal(pair[1], kept[name][1])
    # It was no step that had too little effect.
    assert metrics['step_size'] == size


def test_recurrent_networks_are_refused_by_name(define):
    with pytest.raises(errors.ConfigError, match="layer 'gru_cell.*GRUCell"):
        define('acktr', network='recurrent')
