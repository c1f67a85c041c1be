"""Native environments that break their contract, looked over in the graph."""

import gymnasium as gym
import pytest

from agents.environments import native_inspection
from agents.environments.native_env import NativeEnv
from agents.tools.graph import random
from agents.tools.graph.backend import tf
from agents.training import check_text


class Car(NativeEnv):
    """Drives to the middle, unless something is wrong with it."""

    observation_space = gym.spaces.Box(-10, 10, (2,))
    action_space = gym.spaces.Box(-1, 1, (1,))
    max_length = 5

    def __init__(self, fault=''):
        self._fault = fault

    def reset(self, key, count):
        if self._fault == 'exit':
            raise SystemExit(3)
        return {'place': random.uniform(key, (count,)), 'speed': tf.zeros(count)}

    def step(self, state, action, key):
        speed = state['speed'] + 0.1 * action[:, 0]
        place = state['place'] + 0.1 * speed
        if self._fault == 'infinite':
            place /= 0.0
        if self._fault == 'random':
            place += tf.random.uniform(place.shape)
        reward = -tf.abs(place)
        if self._fault == 'reward':
            reward = tf.cast(reward, tf.float64)
        if self._fault == 'state':
            speed = speed[:, None]
        after = {'place': place, 'speed': speed}
        if self._fault == 'values':
            return after, reward
        return after, reward, tf.abs(place) < 0.01

    def observe(self, state):
        shift = 100.0 if self._fault == 'bounds' else 0.0
        return tf.stack([state['place'] + shift, state['speed']], 1)


class Flat(Car):
    observation_space = gym.spaces.Box(-10, 10, (3,))


def inspect(kind, *arguments):
    report = native_inspection.inspect(lambda: kind(*arguments), 160)
    return report, [(each.text, each.ends) for each in report.breaches]


def test_sound_environment():
    report, breaches = inspect(Car)
    assert not breaches
    assert report.steps == report.reward.count == report.repeated == 160
    assert report.cut + report.terminated == len(report.lengths) >= 32
    assert max(report.lengths) == 5
    assert report.starts_differ
    assert report.render_modes == []


@pytest.mark.parametrize(
    'fault, told, ends',
    [
        ('exit', 'reset raised: SystemExit: 3', True),
        ('infinite', 'an observation has ', True),
        ('random', 'the same seed and actions do not repeat: reward', False),
        ('reward', 'the rewards of step should be float32 [16], not float64 [16]', True),
        ('state', 'the state of step speed should be float32 [16], not float32 [16, 1]', True),
        ('values', 'step should return 3 values (state, reward, ter', True),
        ('bounds', 'observation is 100.', False),
    ],
)
def test_breach_is_told(fault, told, ends):
    report, breaches = inspect(Car, fault)
    assert report.breaches[0].kind not in check_text.REMEDIES
    text, found = breaches[0]
    assert text.startswith(told), breaches
    assert found == ends


def test_observations_that_are_not_those_of_the_space():
    _, breaches = inspect(Flat)
    assert breaches == [
        ('the observations of observe should be float32 [16, 3], not float32 [16, 2]', True)
    ]
