"""Proximal policy optimization, from one gradient step to whole updates."""

import gymnasium as gym
import numpy as np
import pytest

import agents
from agents.algorithms.ppo import PPO
from agents.parts import layers
from agents.parts.gradients import MAX_SKIPPED
from agents.tools import errors
from agents.tools.batch import mock_environment
from agents.tools.graph import flat
from agents.tools.graph.backend import keras, tf
from agents.training import networks

pytestmark = pytest.mark.usefixtures('eagerly')

SLOW = pytest.mark.slow
each_surrogate = pytest.mark.parametrize('surrogate', ['clip', 'penalty'])
each_pair = pytest.mark.parametrize(
    ('network', 'surrogate'),
    [
        ('feed_forward', 'clip'),
        ('recurrent', 'penalty'),
        pytest.param('feed_forward', 'penalty', marks=SLOW),
        pytest.param('recurrent', 'clip', marks=SLOW),
    ],
)


@each_pair
def test_ratio_is_one_before_the_first_gradient_step(define, play, network, surrogate):
    # One minibatch, once: all numbers are those before the step.
    algo = define(
        network=network,
        surrogate=surrogate,
        batch_size=24,
        update_epochs=1,
        normalize_advantage=False,
    )
    for _ in range(2):
        play(algo)
        metrics = algo.update()
        advantage = tf.reduce_mean(algo._log['advantage'])
        np.testing.assert_allclose(metrics['policy_loss'], -advantage, atol=1e-6)
        assert metrics['clip_fraction'] == 0
        np.testing.assert_allclose(metrics['kl'], 0, atol=1e-6)


class Expectant(PPO):
    """Computes the gradient of a rollout before it is learnt from."""

    def _learn(self, rollout, inputs):
        # With a ratio of 1 that of −E[Â ln π(a|s)].
        weights = [w.value for w in self.policy.network.trainable_variables]
        with tf.GradientTape() as tape:
            policy = self.policy.unroll(rollout.inputs, rollout.begins, rollout.state.policy)
            log_prob = policy.log_prob(rollout.action)
            loss = -tf.reduce_mean(rollout.advantage * log_prob)
        self.expected = flat.concat(tape.gradient(loss, weights))
        return super()._learn(rollout, inputs)


@each_pair
def test_first_gradient_is_that_of_the_policy(define, play, network, surrogate):
    algo = define(
        kind=Expectant,
        network=network,
        surrogate=surrogate,
        batch_size=24,
        update_epochs=1,
        gradient_clip=None,
        normalize_advantage=False,
    )
    for _ in range(2):
        play(algo)
        mean = algo.summary()['gradients/policy']
        algo.update()
        # The running mean takes in a tenth of each gradient.
        change = algo.summary()['gradients/policy'] - 0.9 * mean
        np.testing.assert_allclose(change, 0.1 * algo.expected, atol=1e-6)


@pytest.mark.parametrize('network', ['feed_forward', pytest.param('recurrent', marks=SLOW)])
def test_without_learning_the_divergence_is_zero(define, play, network):
    algo = define(network=network, learning_rate=0.0)
    for _ in range(2):
        play(algo)
        np.testing.assert_allclose(algo.update()['kl'], 0, atol=1e-6)


@pytest.mark.parametrize(
    ('network', 'surrogate'),
    [
        ('feed_forward', 'clip'),
        pytest.param('recurrent', 'clip', marks=SLOW),
        pytest.param('feed_forward', 'penalty', marks=SLOW),
        pytest.param('recurrent', 'penalty', marks=SLOW),
    ],
)
def test_rewarded_actions_become_more_probable(define, play, network, surrogate):
    algo = define(
        network=network,
        surrogate=surrogate,
        batch_size=24,
        update_epochs=4,
        learning_rate=0.05,
        kl_target=0.5,
    )
    means = []
    for _ in range(4):
        play(algo, lambda now, action: action[:, 0])
        algo.update()
        means.append(algo.summary()['mode'][..., 0].numpy().mean())
    assert means[-1] > means[0] + 0.3
    assert algo.failure() is None


def test_value_is_learnt(define, play):
    algo = define(
        learning_rate=0.1,
        discount=0.0,
        normalize_reward=False,
        normalize_observ=False,
        update_epochs=10,
    )
    for _ in range(3):
        play(algo, lambda now, action: now['observ'][:, 0])
        metrics = algo.update()
    assert metrics['explained_variance'] > 0.6


def test_stops_where_the_policy_changed_too_much(define, play):
    epochs = {}
    for limit in (None, 1e-9, 1e9):
        algo = define(update_epochs=2, kl_stop=limit, learning_rate=0.01)
        play(algo)
        epochs[limit] = algo.update()['epochs']
    assert epochs == {None: 2, 1e-9: 1, 1e9: 2}


def test_penalty_follows_the_divergence(define, play):
    algo = define(surrogate='penalty', learning_rate=0.0, kl_init_penalty=2.0)
    play(algo)
    # No change at all is too little of it.
    np.testing.assert_allclose(algo.update()['penalty'], 2.0 / 1.5, rtol=1e-6)
    algo = define(
        surrogate='penalty',
        learning_rate=0.1,
        kl_target=1e-6,
        kl_init_penalty=2.0,
        kl_cutoff_coef=0.0,
    )
    play(algo)
    np.testing.assert_allclose(algo.update()['penalty'], 3.0, rtol=1e-6)


def test_penalty_is_left_alone_without_its_surrogate(define, play):
    algo = define(surrogate='clip', kl_init_penalty=2.0)
    play(algo)
    assert algo.update()['penalty'] == 2.0


def test_entropy_bonus_keeps_the_policy_random(define, play):
    entropies = {}
    for bonus in (0.0, 1.0):
        algo = define(entropy_bonus=bonus, learning_rate=0.01)
        play(algo)
        algo.update()
        entropies[bonus] = algo.summary()['entropy'].numpy().mean()
    assert entropies[1.0] > entropies[0.0] + 0.01


def test_advantages_are_normalized_where_asked_for(define, play):
    losses = {}
    for normalize in (False, True):
        algo = define(normalize_advantage=normalize, batch_size=24, update_epochs=1)
        play(algo, lambda now, action: np.full(4, 3.0))
        losses[normalize] = abs(float(algo.update()['policy_loss']))
    assert losses[True] < 1e-5 < losses[False]


def test_rewards_that_are_no_numbers_change_nothing_and_are_told(define, play):
    algo = define(update_epochs=10)
    play(algo)
    algo.update()
    before = algo.summary()
    play(algo, lambda now, action: np.full(4, np.nan))
    algo.update()
    after = algo.summary()
    for name in ('weights/policy', 'weights/value'):
        np.testing.assert_array_equal(before[name], after[name])
    assert 'Environment 0 returned the reward nan' in str(algo.failure())


@pytest.fixture
def useless(monkeypatch):
    """Makes what an algorithm learns from useless, until it is undone."""

    def spoil(algo):
        learn, nothing = algo._learn, tf.fill((6, 4), np.nan)
        monkeypatch.setattr(
            algo,
            '_learn',
            lambda rollout, inputs: learn(
                rollout._replace(advantage=nothing, returns=nothing), inputs
            ),
        )
        return monkeypatch

    return spoil


def test_useless_gradients_end_the_run_with_the_name_of_a_weight(define, play, useless):
    algo = define(update_epochs=10)
    useless(algo)
    play(algo)
    # 10 epochs of 2 minibatches, of the policy and of the value.
    assert algo.update()['skipped'] == 2 * MAX_SKIPPED
    error = algo.failure()
    assert isinstance(error, errors.UserError)
    name = algo.policy.network.trainable_variables[0].path
    assert name in str(error)
    assert '20 gradients in a row' in str(error)


def test_a_few_useless_gradients_are_survived(define, play, useless):
    algo = define(update_epochs=9)
    undo = useless(algo).undo
    play(algo)
    algo.update()
    assert algo.failure() is None
    undo()
    play(algo)
    assert algo.update()['skipped'] == 0
    assert algo.failure() is None


class Poisonous(keras.layers.Layer):
    """A function without an effect whose gradient is 0 · ∞."""

    def build(self, shape):
        self.factor = self.add_weight(shape=(), name='factor')

    def call(self, inputs):
        return inputs + tf.sqrt(self.factor * 0.0)


def poisonous(observ_space, action_space, config):
    """Networks of which that for the value is of no use."""
    made = networks.feed_forward(observ_space, action_space, config)
    flatten = layers.Flatten(observ_space)
    value = keras.Sequential([flatten, keras.layers.Dense(1), Poisonous()])
    return made._replace(value=value)


def test_the_weight_whose_gradient_is_useless_is_named(define, play):
    algo = define(network=poisonous, update_epochs=10)
    play(algo)
    algo.update()
    assert algo.value_network.layers[-1].factor.path in str(algo.failure())


def test_useless_gradients_end_a_training(settings):
    config = settings(
        env=mock_environment.MockEnvironment, network=poisonous, update_epochs=10, eval_episodes=1
    )
    with pytest.raises(errors.UserError, match='factor'):
        next(agents.train(config, env_processes=False))


class Mask(keras.layers.Layer):
    """Makes the first of several actions impossible."""

    def call(self, logits):
        return tf.concat([0 * logits[..., :1] - np.inf, logits[..., 1:]], -1)


def masked(observ_space, action_space, config):
    """Networks of which that for the policy excludes an action."""
    made = networks.feed_forward(observ_space, action_space, config)
    policy = keras.Sequential([*made.policy.layers, Mask()])
    return made._replace(policy=policy)


@each_surrogate
def test_policy_that_excludes_an_action_learns(define, play, surrogate):
    algo = define(
        network=masked, actions=gym.spaces.Discrete(3), surrogate=surrogate, entropy_bonus=0.1
    )
    before = [w.numpy() for w in algo.policy.network.trainable_variables]
    for _ in range(2):
        assert set(play(algo).action.flat) <= {1, 2}
        metrics = algo.update()
        assert metrics['skipped'] == 0
        assert all(np.isfinite(number) for number in metrics.values())
    for old, new in zip(before, algo.policy.network.trainable_variables, strict=True):
        assert (old != new.numpy()).any()
