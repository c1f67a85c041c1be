"""Native environments that return what is no number, trained in."""

import math

import gymnasium as gym
import numpy as np
import pytest

import agents
from agents.algorithms.algorithm import Networks
from agents.environments.native_env import NativeEnv
from agents.tools import errors
from agents.tools.graph.backend import keras, tf
from agents.training import storage

BAD_STEP = 23


class Faulty(NativeEnv):
    """Counts steps, and after some of them returns a value of the kind."""

    observation_space = gym.spaces.Box(-1e3, 1e3, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, kind, value):
        self._kind, self._value = kind, value

    def reset(self, key, count):
        return tf.zeros(count, tf.int32)

    def step(self, state, action, key):
        state += 1
        reward = tf.ones_like(state, tf.float32)
        if self._kind == 'reward':
            reward = self._replaced(state, reward)
        return state, reward, state < 0

    def observe(self, state):
        first = tf.cast(state, tf.float32)
        second = first
        if self._kind == 'observation':
            second = self._replaced(state, second)
        return tf.stack([first, second], -1)

    def _replaced(self, state, value):
        """Only for the second agent."""
        bad = (state == BAD_STEP) & (tf.range(state.shape[0]) == 1)
        return tf.where(bad, self._value, value)


def config(tiny, kind, value, **changes):
    kwargs = {'kind': kind, 'value': value}
    settings = {'env': Faulty, 'env_kwargs': kwargs, 'max_length': 30}
    return tiny(**settings, steps=200, eval_every=10, **changes)


@pytest.mark.parametrize(
    ('kind', 'value', 'text', 'one_program'),
    [
        ('observation', math.inf, 'inf', False),
        pytest.param('reward', math.nan, 'nan', True, marks=pytest.mark.slow),
        pytest.param('observation', 1e20, r'1.0e\+20', True, marks=pytest.mark.slow),
    ],
)
def test_what_is_no_number_ends_the_run_and_is_not_learnt_from(
    request, tiny, tmp_path, checkpoint, monkeypatch, kind, value, text, one_program
):
    monkeypatch.setattr('agents.training.phases.REPORTING_SHARE', 1.0)
    if not one_program:
        request.getfixturevalue('eagerly')
        monkeypatch.setattr('agents.training.plan.ONE_PROGRAM_STEPS', 0)
    told = f'Environment 1 returned the {kind} .*{text}'
    bad = config(tiny, kind, value)
    with pytest.raises(errors.EnvError, match=told):
        for _ in agents.train(bad, tmp_path / 'bad'):
            pass
    # Two agents take five steps for an update; the fifth rollout is bad.
    last = storage.last_checkpoint(tmp_path / 'bad')
    assert last == 40
    stored = checkpoint(tmp_path / 'bad', last)
    assert all(np.isfinite(x).all() for x in stored.values())
    good = config(tiny, kind, 1.0)
    for score in agents.train(good, tmp_path / 'good'):
        if score.report.step == last and score.report.phase == 'eval':
            break
    expected = checkpoint(tmp_path / 'good', last)
    for name, value in stored.items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


def test_policy_that_is_no_number_reaches_no_environment(tiny, eagerly):
    def network(observ_space, action_space, config):
        broken = keras.layers.Lambda(lambda x: x * math.nan)
        policy = keras.Sequential([keras.layers.Dense(2), broken])
        return Networks(policy, keras.Sequential([keras.layers.Dense(1)]))

    for env in ('CartPole-v1', 'native:CartPole-v1'):
        settings = tiny(env=env, network=network)
        with pytest.raises(errors.EnvError, match='-1'):
            next(agents.train(settings, env_processes=False))
