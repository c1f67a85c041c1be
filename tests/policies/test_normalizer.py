"""What a run normalizes by, compared with NumPy on what it has seen."""

import gymnasium as gym
import numpy as np
import pytest

import agents
from agents.policies import normalizer
from agents.tools import errors
from agents.tools.runs import tensors

pytestmark = pytest.mark.usefixtures('eagerly')

# What was acted on, and the reward for it.
STEPS: list = []


class Watched(gym.Env):
    """Keeps what it is stepped from; an episode is three steps."""

    observation_space = gym.spaces.Dict(
        {
            'image': gym.spaces.Box(0, 255, (4, 4, 1), np.uint8),
            'place': gym.spaces.Box(-np.inf, np.inf, (2,), np.float32),
        }
    )
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return self._observe(), {}

    def step(self, action):
        self._time += 1
        reward = self.np_random.normal(0, 3)
        STEPS.append((self._place, reward))
        return self._observe(), reward, self._time == 3, False, {}

    def _observe(self):
        drawn = self.np_random.normal([5, -1], [2, 0.1])
        self._place = drawn.astype(np.float32)
        return {'image': np.zeros((4, 4, 1), np.uint8), 'place': self._place}


def train(config, directory):
    STEPS.clear()
    agents.train(config, directory, env_processes=False).run()
    return agents.load(directory)


@pytest.mark.slow
def test_count_of_a_stranger_is_refused(tiny, tmp_path, monkeypatch):
    policy = train(tiny(env=Watched), tmp_path)
    for value in (np.nan, 1e300, -1.0):
        monkeypatch.setattr(tensors, 'read', lambda *_, v=value: dict.fromkeys(_[1], v))
        with pytest.raises(errors.ConfigError, match='rewards in .* must be'):
            normalizer.of_rewards(tmp_path, policy.checkpoint, None)


def test_statistics_are_those_of_what_was_seen(tiny, tmp_path):
    # One agent that steps in order, and is evaluated only afterwards.
    config = tiny(
        env=Watched,
        num_agents=1,
        update_every=9,
        batch_size=9,
        steps=9,
        observ_clip=1.5,
        discount=0.5,
        reward_clip=None,
    )
    policy = train(config, tmp_path)
    first = np.float64([place for place, _ in STEPS[:9]])
    normalizer = policy.normalizer
    assert normalizer.count == 9 and normalizer.clip == 1.5
    np.testing.assert_allclose(normalizer.mean['place'], first.mean(0))
    np.testing.assert_allclose(normalizer.std['place'], first.std(0), rtol=1e-5)
    assert normalizer.mean['image'] is normalizer.std['image'] is None
    observ = {'image': np.ones((4, 4, 1), np.uint8), 'place': first}
    expected = np.clip((first - first.mean(0)) / first.std(0), -1.5, 1.5)
    assert np.abs(expected).max() == 1.5
    found = normalizer(observ)
    np.testing.assert_allclose(found['place'], expected, atol=1e-4)
    assert found['image'] is observ['image']
    # The sum of the rewards so far in an episode, each half of it a step later.
    past = []
    for number, (_, reward) in enumerate(STEPS[:9]):
        past.append(reward + (0.5 * past[-1] if number % 3 else 0))
    rewards = policy.reward_normalizer
    assert rewards.mean == 0 and rewards.clip is None
    assert rewards.count == 9
    assert rewards.std == pytest.approx(np.std(past), rel=1e-5)
    assert rewards(2.0) == pytest.approx(2 / np.std(past), rel=1e-5)


def test_it_is_what_the_policy_sees_by(native_run):
    policy = agents.load(native_run)
    observs = np.random.default_rng(0).normal(0, 9, (50, 3)).astype(np.float32)
    seen = policy._policy.normalize(observs).visible.numpy()
    np.testing.assert_allclose(policy.normalizer(observs), seen, rtol=1e-6)
    assert policy.normalizer.count == 64
    assert policy.reward_normalizer.count == 64


def test_there_is_none_where_nothing_is_normalized(tiny, tmp_path):
    config = tiny(normalize_observ=False, normalize_reward=False, steps=10)
    policy = train(config, tmp_path)
    assert policy.normalizer is policy.reward_normalizer is None
