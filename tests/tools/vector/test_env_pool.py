"""Environments of EnvPool."""

import importlib.util

import numpy as np
import pytest

from agents.tools import cpu
from agents.tools.vector import env_pool

needs_envpool = pytest.mark.skipif(
    importlib.util.find_spec('envpool') is None, reason='needs envpool'
)


@pytest.mark.parametrize(
    'cores, count, found',
    [
        ([0, 1], 8, {'num_threads': 2, 'thread_affinity_offset': 0}),
        ([4, 5, 6], 3, {'num_threads': 3, 'thread_affinity_offset': 4}),
        ([0, 2], 8, {'num_threads': 2}),  # A thread would get the core 1.
        ([0, 1, 2, 3], 2, {'num_threads': 2}),  # Other runs may use these two.
        ([3], 8, {'num_threads': 1}),
    ],
)
def test_threads_are_kept_on_cores_that_all_have_work(monkeypatch, cores, count, found):
    monkeypatch.setattr(cpu, 'cores', lambda: cores)
    assert env_pool._threads(count) == found


@needs_envpool
@pytest.mark.parametrize('name', ['HalfCheetah-v4', 'CartPole-v1'])
def test_short_way_to_step_is_that_of_envpool(name):
    """Over ends of episodes, after which a step only resets."""
    short, usual = (env_pool.EnvPoolVector(name, 3, seed=1, max_length=20) for _ in range(2))
    assert short._step != short._pool.step
    usual._step = usual._pool.step
    ends = np.zeros(2)
    assert (short.reset()[0] == usual.reset()[0]).all()
    rng = np.random.default_rng(0)
    for _ in range(100):
        space = short.single_action_space
        action = rng.integers(2, size=3)
        if space.shape:
            action = rng.uniform(-1, 1, (3, *space.shape))
        *found, infos = short.step(action)
        *expected, others = usual.step(action)
        for mine, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(mine, theirs)
        for key, value in others.items():
            if isinstance(value, np.ndarray):
                np.testing.assert_array_equal(infos[key], value)
        ends += [np.sum(flags) for flags in found[2:]]
    assert ends[1] and (ends[0] or name == 'HalfCheetah-v4')


@needs_envpool
def test_other_versions_are_stepped_the_usual_way():
    class Other:
        """A pool without what this one has inside."""

        def step(self, action):
            return action

    pool = Other()
    assert env_pool._find_step(pool)(3) == 3
