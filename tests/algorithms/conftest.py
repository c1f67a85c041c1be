"""Small algorithms and what happens to them, for the tests beside this."""

from typing import NamedTuple

import gymnasium as gym
import numpy as np
import pytest

from agents import algorithms
from agents.algorithms import pieces
from agents.algorithms.algorithm import Task
from agents.algorithms.learner import Learner
from agents.algorithms.on_policy import OnPolicy
from agents.scripts import configs
from agents.tools import nested
from agents.tools.graph.backend import tf
from agents.tools.transition import Transition
from agents.training import networks

AGENTS, STEPS = 4, 6
OBSERVS = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
ACTIONS = gym.spaces.Box(-1, 1, (2,), np.float32)


class Keeper(Learner):
    """Learns nothing and keeps the rollout."""

    rollout = None

    def update(self, rollout, key, learning_rate_scale):
        self.rollout = rollout
        return {}


class Recorder(OnPolicy):
    """Learns nothing and keeps the rollout."""

    def __init__(self, networks, task):
        policy = pieces.define_policy(networks, task)
        value_learner = pieces.define_value_learner(networks, task, 12, 1)
        value_learner.update = lambda rollout, key, learning_rate_scale: {}
        learner = Keeper(pieces.define_optimizer(policy.weights, task), task)
        super().__init__(policy, networks.value, learner, value_learner, task)

    @property
    def rollout(self):
        return self.learner.rollout


class Played(NamedTuple):
    """What happened in a rollout, `[time, agent, ...]`."""

    observ: np.ndarray
    begins: np.ndarray
    action: np.ndarray
    log_prob: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    done: np.ndarray
    next_observ: np.ndarray


@pytest.fixture
def settings():
    """A function that makes small settings of an algorithm."""

    def make(algorithm='ppo', **changes):
        sizes = {
            'ppo': {'batch_size': 12, 'update_epochs': 2},
            'reinforce': {'value_batch_size': 12, 'value_epochs': 2},
            'trpo': {'value_batch_size': 12, 'value_epochs': 2},
            'acktr': {'value_batch_size': 12, 'value_epochs': 2},
            'behaviour_cloning': {},
        }
        small = {
            'num_agents': AGENTS,
            'update_every': STEPS,
            'policy_layers': [5],
            'value_layers': [5],
            'recurrent_units': 4,
            'init_output_factor': 1.0,
            'init_std': 0.6,
            **sizes[algorithm],
        }
        return getattr(configs, algorithm)(**{**small, **changes})

    return make


@pytest.fixture
def define(settings):
    """A function that makes a small algorithm by its settings."""

    def make(algorithm='ppo', kind=None, actions=ACTIONS, task=None, **changes):
        config = settings(algorithm, **changes)
        kind = kind or algorithms.find(algorithm)
        made = networks.define(OBSERVS, actions, config)
        plain = Task(OBSERVS, actions, AGENTS, config)
        return kind(made, plain._replace(**(task or {})))

    return make


@pytest.fixture
def recorder(define):
    """A function that makes an algorithm which keeps its rollout."""
    return lambda **changes: define(kind=Recorder, **changes)


@pytest.fixture
def play():
    """A function that lets an algorithm act for a rollout or some steps of it.

    Observations and rewards are random; episodes end in both ways. Rollouts
    that are played one after the other are continued, unless all agents are
    to begin anew. Probabilities of actions are measured on demand.
    """
    rng = np.random.default_rng(0)
    now = {'observ': normal(rng, 3), 'begins': np.ones(AGENTS, bool)}

    def run(algo, reward=lambda now, action: normal(rng), steps=STEPS, anew=False, measured=False):
        now['begins'] |= anew
        rows = []
        for _ in range(steps):
            rows.append(one_step(algo, rng, now, reward, measured))
        return Played(*[np.stack(column) for column in zip(*rows, strict=True)])

    return run


def one_step(algo, rng, now, reward, measured):
    observ, begins = now['observ'], now['begins']
    algo.begin_episode(tf.constant(begins))
    inputs, log_prob = tf.constant(observ), np.full(AGENTS, np.nan)
    if measured:
        state = nested.map(tf.identity, algo.collector._state.policy)
        distribution, _ = algo.policy.step(inputs, state)
    action = algo.perform(inputs)
    if measured:
        log_prob = distribution.log_prob(action).numpy()
    done = rng.random(AGENTS) < 0.25
    terminated = done & (rng.random(AGENTS) < 0.5)
    next_observ = normal(rng, 3)
    rewards = np.float32(reward(now, action.numpy()))
    never = np.zeros(AGENTS, bool)
    transition = Transition(rewards, terminated, done & ~terminated, next_observ, never)
    algo.experience(inputs, action, nested.map(tf.constant, transition))
    algo.end_episode(tf.constant(done))
    now['observ'] = np.where(done[:, None], normal(rng, 3), next_observ)
    now['begins'] = done
    return Played(
        observ, begins, action.numpy(), log_prob, rewards, terminated, done,
        next_observ,
    )  # fmt: skip


def normal(rng, *shape):
    return rng.normal(size=(AGENTS, *shape)).astype(np.float32)
