"""Vectors of environments: what is learnt from their steps, and what counts."""

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import agents
from agents.algorithms import pieces
from agents.algorithms.algorithm import Task
from agents.algorithms.learner import Learner, scale_advantage
from agents.algorithms.on_policy import OnPolicy
from agents.scripts import configs
from agents.tools.attr_dict import AttrDict
from agents.tools.batch.batch_env import BatchEnv
from agents.tools.graph import simulation
from agents.tools.graph.backend import keras, tf
from agents.tools.graph.episode_scores import EpisodeScores
from agents.tools.graph.in_graph_batch_env import InGraphBatchEnv
from agents.tools.vector.mock_vector import MockVector
from agents.tools.vector.vector_slice import VectorSlice
from agents.training import networks

SAME, NEXT, DISABLED = (AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED)
MODES = {'same': SAME, 'disabled': DISABLED, 'next': NEXT}
each_mode = pytest.mark.parametrize('mode', MODES.values(), ids=MODES)

# Of the first environment the episodes 1 and 3 are terminated and 2 is
# truncated; those of the second do not end. With a discount of ½, λ = ½ and
# the value 10 e + t of what is observed of step t of episode e:
#
#   step       1,0   1,1   2,0   3,0   4,0
#   value       10    11    20    30    40
#   reward      11    12    21    31    41
#   successor   11     -    21     -    41
#   δ          6.5     1  11.5     1  21.5
#   advantage 6.75     1  11.5     1  21.5
LENGTHS = [2, 1, 1, 9], [99]
VALUE = np.array([10, 11, 20, 30, 40])
ADVANTAGE = np.array([6.75, 1, 11.5, 1, 21.5])

# The steps that begin the episodes 2, 3 and 4 where these have some of their
# own, and the values of the ends that they act on.
LOST = np.array([0, 0, 1, 0, 1, 0, 1, 0], bool)
LAST = [12, 21, 31]


class Keeper(Learner):
    """Learns nothing and keeps the rollout."""

    def update(self, rollout, key, learning_rate_scale):
        self.rollout = rollout
        return {}


class Value(keras.Model):
    """Returns the value 10 e + t of an observation [e, t]."""

    def call(self, observ):
        return tf.linalg.matvec(observ, tf.constant([10.0, 1.0]))[..., None]


def batch_of(lengths, mode):
    vector = VectorSlice(lambda: MockVector(lengths, mode))
    return InGraphBatchEnv(BatchEnv([vector]))


def keeper(batch_env, steps, **settings):
    """An algorithm that keeps its rollouts of so many steps."""
    config = configs.ppo(
        num_agents=2,
        update_every=steps,
        batch_size=2,
        discount=0.5,
        gae_lambda=0.5,
        normalize_observ=False,
        normalize_reward=False,
        **settings,
    )
    spaces = batch_env.observation_space, batch_env.action_space
    task = Task(*spaces, 2, config)
    policy = pieces.define_policy(networks.define(*spaces, config), task)
    learner = Keeper(pieces.define_optimizer(policy.weights, task), task)
    return OnPolicy(policy, Value(), learner, None, task)


@each_mode
def test_returns_are_those_computed_by_hand(eagerly, mode):
    lost = LOST if mode is NEXT else np.zeros(5, bool)
    batch_env = batch_of(LENGTHS, mode)
    algo, scores = keeper(batch_env, len(lost)), EpisodeScores(2)
    train = simulation.training(batch_env, algo, scores, len(lost))
    batch_env.reset()
    numbers = train()
    rollout = algo.learner.rollout
    np.testing.assert_array_equal(rollout.lost[:, 0], lost)
    value, advantage = np.zeros((2, len(lost)))
    value[~lost], advantage[~lost] = VALUE, ADVANTAGE
    value[lost] = LAST if mode is NEXT else []
    np.testing.assert_allclose(rollout.predictions.value[:, 0], value)
    np.testing.assert_allclose(rollout.advantage[:, 0], advantage, rtol=1e-6)
    np.testing.assert_allclose(rollout.returns[:, 0], value + advantage)
    # Whatever the policy remembers, nothing is of an episode before.
    first = rollout.inputs.visible.numpy()[:, 0, 1] == 0
    np.testing.assert_array_equal(rollout.begins[:, 0], first | lost)
    assert not rollout.lost[:, 1].numpy().any()
    config = AttrDict(normalize_advantage=True)
    assert not scale_advantage(rollout, config).numpy()[:, 0][lost].any()
    # Scores of 23, 21 and 31, in 2, 1 and 1 steps.
    found = [float(numbers[name]) for name in ('episodes', 'score', 'length')]
    np.testing.assert_allclose(found, [3, 25, 4 / 3], rtol=1e-6)


@each_mode
def test_evaluations_play_an_episode_of_each(eagerly, mode):
    batch_env = batch_of([[2, 1], [5]], mode)
    algo, scores = keeper(batch_env, 20), EpisodeScores(2)
    simulation.evaluation(batch_env, algo, scores, 10)
    numbers = scores.clear()
    # Scores of 11 + 12 and of 11 + ... + 15.
    found = [float(numbers[name]) for name in ('episodes', 'score', 'length')]
    np.testing.assert_allclose(found, [2, 44, 3.5])
    assert float(numbers['score_min']) == 23
    simulation.evaluation(batch_env, algo, scores, 10)
    assert float(scores.clear()['episodes']) == 2


def test_rewards_are_limited_but_scores_are_not(eagerly):
    batch_env = batch_of(LENGTHS, SAME)
    algo = keeper(batch_env, 5, reward_limit=20.0)
    train = simulation.training(batch_env, algo, EpisodeScores(2), 5)
    batch_env.reset()
    assert float(train()['score']) == 25
    reward = algo.learner.rollout.reward
    np.testing.assert_array_equal(reward[:, 0], [11, 12, 20, 20, 20])


@pytest.mark.slow
def test_pole_is_balanced_by_a_vector_that_loses_steps():
    config = configs.ppo(
        env='vector:CartPole-v1',
        max_length=200,
        num_agents=16,
        steps=12_000,
        update_every=32,
        update_epochs=8,
        batch_size=128,
        eval_every=12_000,
        learning_rate=3e-3,
        policy_layers=[16],
        value_layers=[16],
        discount=0.98,
    )
    *_, score = agents.train(config)
    assert score > 100  # Chance makes it 20.
