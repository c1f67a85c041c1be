"""GAIL: what the discriminator learns, and what its opinion is worth."""

import functools

import gymnasium as gym
import numpy as np
import pytest

from agents import algorithms
from agents.algorithms.algorithm import Task
from agents.algorithms.gail import GAIL
from agents.algorithms.gail.discriminator import (
    Discriminator,
    bernoulli_entropy,
    cross_entropy,
    slope_penalty,
)
from agents.algorithms.gail.rewards import FORMS
from agents.parts.expert import Expert, Steps, given_action
from agents.scripts import configs
from agents.tools import errors
from agents.tools.graph.backend import keras, tf
from agents.tools.graph.flat import Weights
from agents.tools.transition import Transition

OBSERVS = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
ACTIONS = gym.spaces.Box(-1, 1, (2,), np.float32)
COUNT = 60

# The others differ from these in nothing that GAIL sees.
POLICY_ALGORITHMS = ['trpo', 'ppo']


@pytest.fixture
def shown(tmp_path):
    """A file of steps in which the first action is high, the second low."""
    rng = np.random.default_rng(0)
    truncated = np.arange(COUNT) % 20 == 19
    path = tmp_path / 'demos.npz'
    np.savez(
        path,
        observ=rng.normal(size=(COUNT, 3)),
        action=np.tile([0.9, -0.9], (COUNT, 1)) + rng.normal(size=(COUNT, 2)) / 50,
        reward=np.ones(COUNT),
        terminated=np.zeros(COUNT, bool),
        truncated=truncated,
    )
    return str(path)


@pytest.fixture
def imitator(define, shown):
    """A function that makes GAIL around a small algorithm."""

    def make(algorithm='trpo', **changes):
        kind = functools.partial(GAIL, algorithms.find(algorithm))
        small = {
            'rewards': 'airl',
            'demonstrations': shown,
            'discriminator_layers': [8],
            'discriminator_batch': 16,
            'discriminator_rate': 1e-2,
            **changes,
        }
        return define(algorithm, kind=kind, **small)

    return make


@pytest.fixture
def play_within(play):
    """The collector is that of the algorithm within."""

    def run(algo, *args, **kwargs):
        algo.collector = algo.algorithm.collector
        return play(algo, *args, **kwargs)

    return run


def discriminator(**changes):
    config = configs.trpo(discriminator_layers=[8], discriminator_rate=1e-2, **changes)
    keras.utils.set_random_seed(0)
    return Discriminator(Task(OBSERVS, ACTIONS, 4, config))


def steps(rng, action):
    rows = rng.normal(size=(16, 3)).astype(np.float32)
    return Steps(tf.constant(rows), tf.tile([action], [16, 1]))


def test_rewards_computed_by_hand():
    # D = ¾ and ½: l = ln 3 and 0.
    logits = tf.math.log([3.0, 1.0])
    expected = {
        'gail': [-np.log(0.25), -np.log(0.5)],
        'log': [np.log(0.75), np.log(0.5)],
        'airl': [np.log(3), 0],
    }
    assert set(FORMS) == set(expected)
    for name, form in FORMS.items():
        np.testing.assert_allclose(form(logits), expected[name], atol=1e-6)


def test_loss_computed_by_hand():
    # D = ¾, ½ for the policy and ¼ for the expert.
    policy, expert = tf.math.log([3.0, 1.0]), tf.math.log([1 / 3])
    loss = -(np.log(0.25) + np.log(0.5)) / 2 - np.log(0.25)
    np.testing.assert_allclose(cross_entropy(policy, expert), loss, rtol=1e-6)
    entropy = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    np.testing.assert_allclose(bernoulli_entropy(tf.math.log([3.0, 1 / 3])), entropy, rtol=1e-6)


def test_gradient_computed_by_hand():
    # By the logit, that of the policy is D, that of the expert D − 1.
    policy, expert = tf.math.log([3.0, 1.0]), tf.math.log([1 / 3])
    with tf.GradientTape() as tape:
        tape.watch((policy, expert))
        loss = cross_entropy(policy, expert)
    by_policy, by_expert = tape.gradient(loss, (policy, expert))
    np.testing.assert_allclose(by_policy, [0.75 / 2, 0.5 / 2], rtol=1e-6)
    np.testing.assert_allclose(by_expert, [0.25 - 1], rtol=1e-6)


def test_slope_of_a_line_is_its_weights():
    line = keras.Sequential([keras.layers.Dense(1)])
    line(tf.zeros((1, 2)))
    line.layers[0].set_weights([np.array([[3.0], [4.0]]), np.array([7.0])])
    penalty = slope_penalty(line, tf.random.normal((5, 2)))
    np.testing.assert_allclose(penalty, (5 - 1) ** 2, rtol=1e-5)


@pytest.mark.usefixtures('eagerly')
def test_penalty_keeps_the_slope_near_one():
    slopes = {}
    for penalty in (0.0, 10.0):
        found = discriminator(gradient_penalty=penalty)
        rng = np.random.default_rng(0)
        for _ in range(60):
            mine, shown = steps(rng, [-0.5, 0.0]), steps(rng, [0.5, 0.0])
            metrics = found.learn(mine, shown, tf.fill((16, 1), 0.5))
        features = found._features(mine)
        slopes[penalty] = float(slope_penalty(found._network, features))
        # It tells them apart in either case.
        assert metrics['accuracy_policy'] == metrics['accuracy_expert'] == 1
        assert found.logits(mine).numpy().max() < 0
        assert found.logits(shown).numpy().min() > 0
    assert slopes[10.0] < 0.2 < slopes[0.0]


@pytest.mark.slow
@pytest.mark.usefixtures('eagerly')
def test_entropy_makes_it_less_certain():
    certain = {}
    for weight in (0.0, 2.0):
        found = discriminator(gradient_penalty=0.0, discriminator_entropy=weight)
        rng = np.random.default_rng(0)
        for _ in range(60):
            mine, shown = steps(rng, [-0.5, 0.0]), steps(rng, [0.5, 0.0])
            found.learn(mine, shown, tf.fill((16, 1), 0.5))
        certain[weight] = float(np.abs(found.logits(mine)).mean())
    assert certain[2.0] < 0.7 * certain[0.0]


def test_policy_is_judged_by_what_environments_were_given():
    space = gym.spaces.Box(np.float32([0, -2]), np.float32([4, 2]))
    chosen = tf.constant([[0.5, 9.0], [-7.0, 0.0]])
    given = given_action(chosen, space)
    np.testing.assert_allclose(given, [[0.5, 1.0], [-1.0, 0.0]])


def test_demonstrations_are_as_policies_choose(shown):
    config = configs.trpo(demonstrations=shown, demonstration_episodes=2)
    space = gym.spaces.Box(-2, 2, (2,), np.float32)
    expert = Expert(config, OBSERVS, space)
    assert (expert.deaths, expert.steps) == (0, 40)
    action = expert.read().action.numpy()
    assert action.shape == (40, 2)
    np.testing.assert_allclose(action.mean(0), [0.45, -0.45], atol=0.01)
    drawn = expert.draw(tf.constant([1, 2]), 4000)
    assert len(np.unique(drawn.observ.numpy()[:, 0])) == 40


@pytest.mark.usefixtures('eagerly')
def test_ends_computed_by_hand(imitator):
    algo = imitator()
    assert (algo.expert.deaths, algo.expert.steps) == (0, 60)
    terminated = np.zeros((6, 4), bool)
    terminated[2:4, 1:3] = True
    # (0 + ½) / 61 over (4 + ½) / 25, then over (0.9 · 4 + 4 + ½) / 46.6.
    first = algo._judge_end(tf.constant(terminated))
    np.testing.assert_allclose(first, np.log(0.5 / 61 / (4.5 / 25)), rtol=1e-5)
    second = algo._judge_end(tf.constant(terminated))
    expected = np.log(0.5 / 61 / (8.1 / (0.9 * 24 + 24 + 1)))
    np.testing.assert_allclose(second, expected, rtol=1e-5)


@pytest.mark.parametrize('form', FORMS)
@pytest.mark.usefixtures('eagerly')
def test_end_is_worth_as_much_as_being_there_forever(imitator, play_within, form):
    algo = imitator(rewards=form, discount=0.9)
    played = play_within(algo)
    record = algo.algorithm.collector.take()
    reward = algo._judge(record).numpy()
    logits = algo.discriminator.logits(algo._define_steps(record))
    each = FORMS[form](tf.reshape(logits, reward.shape)).numpy()
    number = played.terminated.sum()
    assert number
    end = np.log(0.5 / 61 / ((number + 0.5) / 25))
    forever = FORMS[form](tf.constant(end, tf.float32)) * 0.9 / 0.1
    expected = each + np.where(played.terminated, forever, 0)
    np.testing.assert_allclose(reward, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize('algorithm', POLICY_ALGORITHMS)
@pytest.mark.usefixtures('eagerly')
def test_any_algorithm_comes_to_act_as_was_shown(imitator, play_within, algorithm):
    fast = {'learning_rate': 0.1}
    if algorithm == 'trpo':
        fast = {'kl_target': 0.1, 'fisher_every': 1}
    algo = imitator(algorithm, discount=0.5, **fast)
    assert algo.policy is algo.algorithm.policy
    means = []
    for _ in range(18):
        # What the environment pays for is the contrary.
        play_within(algo, lambda now, action: action[:, 1] - action[:, 0])
        metrics = algo.update()
        means.append(algo.summary()['mode'].numpy().mean((0, 1)))
    first, last = means[0], means[-1]
    assert last[0] > first[0] + 0.1 and last[1] < first[1] - 0.1
    assert 0 <= metrics['accuracy_policy'] <= 1
    assert {'discriminator_loss', 'accuracy_expert', 'learnt_reward'} <= set(metrics)
    assert algo.failure() is None


@pytest.mark.slow
@pytest.mark.usefixtures('eagerly')
def test_environment_rewards_make_no_difference(imitator, play):
    def learn(reward):
        algo = imitator('ppo')
        algo.collector = algo.algorithm.collector
        rng = np.random.default_rng(3)
        for _ in range(2):
            observ = tf.constant(rng.normal(size=(4, 3)), tf.float32)
            begins = tf.zeros(4, bool)
            for _ in range(6):
                algo.begin_episode(begins)
                action = algo.perform(observ)
                transition = algo_transition(observ, reward)
                algo.experience(observ, action, transition)
            algo.update()
        return Weights(algo.policy.network.trainable_variables).read().numpy()

    np.testing.assert_array_equal(learn(0.0), learn(1000.0))


def algo_transition(observ, reward):
    never = tf.zeros(4, bool)
    return Transition(tf.fill(4, reward), never, never, observ, never)


@pytest.mark.usefixtures('eagerly')
def test_rollout_that_is_no_number_teaches_nothing(imitator, play_within):
    algo = imitator()
    play_within(algo)
    algo.update()
    networks = algo.discriminator._network, algo.policy.network
    before = [Weights(n.trainable_variables).read().numpy() for n in networks]
    mean = algo.discriminator.normalizer.variables
    statistics = [v.numpy() for v in mean]
    play_within(algo, steps=5)
    observ = tf.fill((4, 3), np.nan)
    action = algo.perform(tf.zeros((4, 3)))
    algo.experience(observ, action, algo_transition(observ, 0.0))
    algo.update()
    for network, old in zip(networks, before, strict=True):
        new = Weights(network.trainable_variables).read()
        np.testing.assert_array_equal(new, old)
    for variable, old in zip(mean, statistics, strict=True):
        np.testing.assert_array_equal(variable, old)
    assert not algo.is_finite()
    assert isinstance(algo.failure(), errors.UserError)


@pytest.mark.usefixtures('eagerly')
def test_warm_start_acts_as_was_shown(imitator, play_within):
    algo = imitator(clone_steps=50, clone_batch_size=16, learning_rate=0.05)
    play_within(algo)
    algo.update()
    mode = algo.summary()['mode'].numpy().mean((0, 1))
    np.testing.assert_allclose(mode, [0.9, -0.9], atol=0.3)
    weights = Weights(algo.policy.network.trainable_variables)
    before = weights.read().numpy()
    play_within(algo)
    algo.update()
    # Once only: from here on it is a step of the algorithm, which is short.
    assert np.abs(weights.read() - before).max() < 0.5


def test_missing_file_is_refused(imitator):
    with pytest.raises(errors.ConfigError, match='no file of demonstrations'):
        imitator(demonstrations='nowhere.npz')
