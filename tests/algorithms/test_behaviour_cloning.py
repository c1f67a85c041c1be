"""Behaviour cloning: its loss and what comes of it."""

import gymnasium as gym
import numpy as np
import pytest

from agents.algorithms import pieces
from agents.algorithms.algorithm import Task
from agents.parts.cloning import Cloner
from agents.parts.expert import Expert, Steps
from agents.tools import errors
from agents.tools.graph.backend import tf
from agents.training import networks

OBSERVS = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
ACTIONS = gym.spaces.Box(-1, 1, (2,), np.float32)
COUNT = 40


@pytest.fixture
def shown(tmp_path):
    """A file of actions that follow from the first two of the observations."""
    rng = np.random.default_rng(0)
    observ = rng.uniform(-0.8, 0.8, (COUNT, 3))
    truncated = np.arange(COUNT) == COUNT - 1
    np.savez(
        tmp_path / 'demos.npz',
        observ=observ,
        action=observ[:, :2],
        reward=np.zeros(COUNT),
        terminated=np.zeros(COUNT, bool),
        truncated=truncated,
    )
    return str(tmp_path / 'demos.npz')


@pytest.fixture
def clone(define, shown):
    def make(**changes):
        small = {
            'clone_steps': 20,
            'clone_batch_size': 16,
            'learning_rate': 0.02,
            'demonstrations': shown,
        }
        return define('behaviour_cloning', **{**small, **changes})

    return make


@pytest.mark.usefixtures('eagerly')
def test_loss_is_how_improbable_the_actions_are(settings, shown):
    config = settings('behaviour_cloning', demonstrations=shown)
    task = Task(OBSERVS, ACTIONS, 4, config)
    made = networks.define(OBSERVS, ACTIONS, config)
    policy = pieces.define_policy(made, task)
    expert = Expert(config, OBSERVS, ACTIONS)
    cloner = Cloner(policy, expert, None, 16)
    rng = np.random.default_rng(0)
    observ = rng.normal(size=(5, 3)).astype(np.float32)
    action = rng.normal(size=(5, 2)).astype(np.float32)
    loss = cloner._loss(Steps(tf.constant(observ), tf.constant(action)))['loss']
    mean, log_std = np.split(made.policy(observ).numpy(), 2, -1)
    each = -0.5 * ((action - mean) / np.exp(log_std)) ** 2 - log_std
    each -= 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(loss, -each.sum(-1).mean(), rtol=1e-5)


@pytest.mark.usefixtures('eagerly')
def test_it_acts_as_was_shown(clone):
    algo = clone()
    losses = [float(algo.update()['policy_loss']) for _ in range(8)]
    assert losses[-1] < losses[0] - 1
    observ = np.random.default_rng(1).uniform(-0.8, 0.8, (4, 3))
    action = algo.perform(tf.constant(observ, tf.float32)).numpy()
    np.testing.assert_allclose(action, observ[:, :2], atol=0.25)
    assert algo.failure() is None


@pytest.mark.usefixtures('eagerly')
def test_statistics_are_of_what_was_shown_and_change_once(clone, shown):
    algo = clone(clone_steps=1)
    for _ in range(2):
        algo.update()
        normalizer = algo.policy.normalizer
        (statistics,) = normalizer._normalizers.values()
        with np.load(shown) as stored:
            expected = stored['observ'].mean(0)
        np.testing.assert_allclose(statistics.mean, expected, rtol=1e-4)
        assert statistics.count == COUNT


def test_recurrent_policy_is_refused(clone):
    with pytest.raises(errors.ConfigError, match='recurrent policy cannot be'):
        clone(network='recurrent')
