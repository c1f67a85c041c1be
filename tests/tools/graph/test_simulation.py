"""Environments and an algorithm as one step, rollouts and evaluations."""

import collections
import itertools

import gymnasium as gym
import numpy as np
import pytest

from agents.tools.batch.batch_env import BatchEnv
from agents.tools.batch.env_slice import EnvSlice
from agents.tools.batch.mock_environment import MockEnvironment
from agents.tools.graph import simulation
from agents.tools.graph.backend import tf
from agents.tools.graph.episode_scores import EpisodeScores
from agents.tools.graph.in_graph_batch_env import InGraphBatchEnv
from agents.tools.graph.mock_algorithm import MockAlgorithm

AGENTS = 3
VERBS = 'begin_episode', 'perform', 'experience', 'end_episode'


class Recording(tf.Module):
    """Writes down what it is told, and acts by the observation and a count.

    Args:
        steps: Number of steps that it has room for.
    """

    convolutional = False

    def __init__(self, steps=12):
        super().__init__()

        def rows(*shape, dtype='float32'):
            zeros = tf.zeros((steps, AGENTS, *shape), dtype)
            return tf.Variable(zeros, trainable=False)

        self.count = tf.Variable(0, trainable=False)
        self.clock = tf.Variable(0, trainable=False)
        self.times = {name: tf.Variable(-1, trainable=False) for name in VERBS}
        self.record = {
            'begins': rows(dtype='bool'),
            'performed': rows(3),
            'observ': rows(3),
            'action': rows(2),
            'reward': rows(),
            'terminated': rows(dtype='bool'),
            'truncated': rows(dtype='bool'),
            'next_observ': rows(3),
            'lost': rows(dtype='bool'),
            'done': rows(dtype='bool'),
        }

    def begin_episode(self, begins):
        self.note('begin_episode', begins=begins)

    def perform(self, observ):
        self.note('perform', performed=observ)
        angle = observ[:, :2] * 5 + tf.cast(self.count, tf.float32)
        return tf.sin(angle)

    def experience(self, observ, action, transition):
        told = {'observ': observ, 'action': action, **transition._asdict()}
        self.note('experience', **told)

    def end_episode(self, done):
        self.note('end_episode', done=done)
        self.count.assign_add(1)

    def note(self, verb, **told):
        self.times[verb].assign(self.clock)
        self.clock.assign_add(1)
        for name, value in told.items():
            row = tf.IndexedSlices(value[None], self.count[None])
            self.record[name].scatter_update(row)


class Counting(gym.Env):
    """Episodes of a given number of steps, with rewards 1, 2, 3 and so on."""

    observation_space = gym.spaces.Box(0.0, 100.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, length):
        self.length = length
        self.resets = 0

    def reset(self, *, seed=None, options=None):
        self.resets += 1
        self.time = 0
        return np.array([0.0], np.float32), {}

    def step(self, action):
        self.time += 1
        observ = np.array([self.time], np.float32)
        return observ, float(self.time), self.time >= self.length, False, {}


def mocks():
    envs = EnvSlice([MockEnvironment] * AGENTS, range(1, 1 + AGENTS))
    batch_env = InGraphBatchEnv(BatchEnv([envs]))
    batch_env.reset()
    return batch_env


def counting(*lengths):
    envs = [Counting(length) for length in lengths]
    return envs, InGraphBatchEnv(BatchEnv(envs))


def numbers(results):
    return {name: float(value) for name, value in results.items()}


def means(scores):
    """The number of episodes since the last time, and means over them."""
    results = numbers(scores.clear())
    return {name: results[name] for name in ('episodes', 'score', 'length')}


@pytest.fixture(scope='module')
def simulated():
    """What became of twelve single steps, by a graph of one."""
    batch_env, algo, scores = mocks(), Recording(), EpisodeScores(AGENTS)
    traces = count_traces(algo)
    step = tf.function(lambda: simulation.simulate(batch_env, algo, scores), autograph=False)
    done = [step().numpy() for _ in range(12)]
    record = {name: value.numpy() for name, value in algo.record.items()}
    return {
        'batch_env': batch_env,
        'algo': algo,
        'done': np.array(done),
        'record': record,
        'scores': means(scores),
        'traces': traces,
        'step': step,
    }


def count_traces(algo):
    """How often an algorithm's verbs become part of a graph from now on."""
    counts = collections.Counter()

    def counted(verb, function):
        def call(*args):
            counts[verb] += 1
            return function(*args)

        return call

    for verb in VERBS:
        setattr(algo, verb, counted(verb, getattr(algo, verb)))
    return counts


def test_order_of_the_verbs(simulated):
    times = [int(simulated['algo'].times[verb]) for verb in VERBS]
    assert times == [44, 45, 46, 47]  # The last four of twelve times four.


def test_each_verb_is_called_once_a_step():
    _, batch_env = counting(2, 3)
    batch_env.reset()
    algo, scores = MockAlgorithm(batch_env), EpisodeScores(2)
    for _ in range(3):
        simulation.simulate(batch_env, algo, scores)
    counts = {name: int(count) for name, count in algo.calls.items()}
    assert counts == {**dict.fromkeys(VERBS, 3), 'update': 0}


def test_algorithm_is_told_what_the_environments_did(simulated):
    record = simulated['record']
    outside = BatchEnv([EnvSlice([MockEnvironment] * AGENTS, range(1, 1 + AGENTS))])
    begins, observ = np.ones(AGENTS, bool), outside.reset()
    for step in range(12):
        row = {name: values[step] for name, values in record.items()}
        np.testing.assert_array_equal(row['begins'], begins)
        np.testing.assert_array_equal(row['performed'], observ)
        np.testing.assert_array_equal(row['observ'], observ)
        observ, reward, terminated, truncated, next_observ = outside.step(row['action'])
        begins = terminated | truncated
        np.testing.assert_array_equal(row['reward'], reward)
        np.testing.assert_array_equal(row['terminated'], terminated)
        np.testing.assert_array_equal(row['truncated'], truncated)
        np.testing.assert_array_equal(row['next_observ'], next_observ)
        np.testing.assert_array_equal(row['done'], begins)
        np.testing.assert_array_equal(simulated['done'][step], begins)
    assert record['done'].sum() > AGENTS


def test_rollout_equals_single_steps_bit_for_bit(simulated):
    batch_env, algo, scores = mocks(), Recording(), EpisodeScores(AGENTS)
    for steps in (1, 4, 7):
        rollout = tf.function(simulation.rollout, autograph=False)
        done = rollout(batch_env, algo, scores, steps)
    np.testing.assert_array_equal(done, simulated['done'][-1])
    for name, value in algo.record.items():
        np.testing.assert_array_equal(value, simulated['record'][name])
    for verb in VERBS:
        assert int(algo.times[verb]) == int(simulated['algo'].times[verb])
    np.testing.assert_array_equal(batch_env.observ, simulated['batch_env'].observ)
    assert means(scores) == simulated['scores']


def test_scores_are_those_of_the_rewards(simulated):
    rewards, done = simulated['record']['reward'], simulated['done']
    scores, lengths = [], []
    for agent in range(AGENTS):
        ends = [0, *np.flatnonzero(done[:, agent]) + 1]
        for begin, end in itertools.pairwise(ends):
            scores.append(rewards[begin:end, agent].sum())
            lengths.append(end - begin)
    assert simulated['scores'] == {
        'episodes': len(scores),
        'score': pytest.approx(np.mean(scores), rel=1e-6),
        'length': pytest.approx(np.mean(lengths)),
    }


def test_steps_are_traced_once(simulated):
    assert simulated['step'].experimental_get_tracing_count() == 1
    assert simulated['traces'] == dict.fromkeys(VERBS, 1)


def test_training_is_traced_once_and_updates_after_each_rollout(monkeypatch):
    _, batch_env = counting(2, 4)
    batch_env.reset()
    traced, step = [], batch_env.step
    monkeypatch.setattr(batch_env, 'step', lambda a: traced.append(step(a)))
    algo = MockAlgorithm(batch_env)
    scores = EpisodeScores(2)
    operation = simulation.training(batch_env, algo, scores, 4)
    traces = count_traces(algo)
    results = [numbers(operation()) for _ in range(3)]
    # Four steps are two episodes with the rewards 1 and 2 of one agent, and
    # one with 1 to 4 of the other: (3 + 3 + 10) / 3 and (2 + 2 + 4) / 3.
    for result in results:
        assert result.pop('update_seconds') >= 0
        assert result == {
            'episodes': 3,
            'score': pytest.approx(16 / 3),
            'score_std': pytest.approx(np.std([3, 3, 10])),
            'score_min': 3,
            'score_max': 10,
            'length': pytest.approx(8 / 3),
        }
    counts = {name: int(count) for name, count in algo.calls.items()}
    assert counts == {**dict.fromkeys(VERBS, 12), 'update': 3}
    assert len(traced) == 1  # However often it runs.
    assert all(traces[verb] == 1 for verb in VERBS)


def test_evaluation_counts_one_episode_of_each_agent():
    envs, batch_env = counting(1, 2, 5)
    algo, scores = MockAlgorithm(batch_env), EpisodeScores(3)
    evaluate = tf.function(simulation.evaluation, autograph=False)
    for run in range(1, 4):
        evaluate(batch_env, algo, scores, 100)
        # Rewards 1; 1 and 2; 1 to 5.
        assert means(scores) == {
            'episodes': 3,
            'score': pytest.approx((1 + 3 + 15) / 3),
            'length': pytest.approx((1 + 2 + 5) / 3),
        }
        # All wait for the longest episode, and none goes on after it.
        assert int(algo.calls['perform']) == 5 * run
        assert envs[2].resets == 2 * run
    assert evaluate.experimental_get_tracing_count() == 1


def test_evaluation_begins_new_episodes():
    _, batch_env = counting(3, 3)
    algo, scores = MockAlgorithm(batch_env), EpisodeScores(2)
    batch_env.reset()
    for _ in range(2):
        simulation.simulate(batch_env, algo, scores)
    simulation.evaluation(batch_env, algo, scores, 100)
    results = means(scores)
    assert results == {'episodes': 2, 'score': 6, 'length': 3}


def test_evaluation_gives_up_after_so_many_steps():
    _, batch_env = counting(2, 9)
    algo, scores = MockAlgorithm(batch_env), EpisodeScores(2)
    simulation.evaluation(batch_env, algo, scores, 4)
    assert int(algo.calls['perform']) == 4
    results = means(scores)
    # One episode ends after two steps, the other is truncated after four.
    assert results == {'episodes': 2, 'score': (3 + 10) / 2, 'length': 3}


class Losing(InGraphBatchEnv):
    """Says that the second step of the first environment was lost."""

    def __init__(self, batch_env):
        super().__init__(batch_env)
        self.steps = tf.Variable(0, trainable=False)

    def step(self, prepared):
        super().step(prepared)
        self.steps.assign_add(1)

    @property
    def transition(self):
        here = tf.range(len(self)) == 0
        lost = here & (self.steps == 2)
        return super().transition._replace(lost=lost)


def test_agent_whose_episode_was_lost_plays_another():
    #   step        1     2     3     4
    #   agent 0     1     2 | lost    1     2 |
    #   agent 1     1     2     3 |
    envs = [Counting(2), Counting(3)]
    batch_env = Losing(BatchEnv(envs))
    algo, scores = MockAlgorithm(batch_env), EpisodeScores(2)
    simulation.evaluation(batch_env, algo, scores, max_steps=3)
    assert int(algo.calls['perform']) == 4
    results = means(scores)
    assert results == {'episodes': 2, 'score': (3 + 6) / 2, 'length': 2.5}
