"""The environment that counts keeps to the contract of Gymnasium."""

import numpy as np
import pytest
from gymnasium.utils import env_checker

from agents.tools import MockEnvironment


def act(env):
    return np.zeros(env.action_space.shape, np.float32)


def test_passes_the_checks_of_gymnasium():
    env_checker.check_env(MockEnvironment(), skip_render_check=True)


def test_counts_steps_and_durations():
    env = MockEnvironment(min_duration=2, max_duration=4)
    for episode in range(30):
        env.reset(seed=episode)
        over = False
        while not over:
            _, reward, over, truncated, _ = env.step(act(env))
            assert 0 <= reward < 1 and not truncated
    assert env.steps == env.durations
    assert len(env.steps) == 30
    assert set(env.durations) == {2, 3, 4}


def test_counts_an_episode_that_is_broken_off():
    env = MockEnvironment(min_duration=3, max_duration=3)
    env.reset()
    env.step(act(env))
    env.reset()
    assert env.steps == [1, 0]
    assert env.durations == [3, 3]


def test_shapes():
    env = MockEnvironment((2, 3), (4,))
    observ, _ = env.reset(seed=0)
    assert observ.shape == (2, 3) and observ in env.observation_space
    assert env.step(act(env))[0].shape == (2, 3)
    assert env.action_space.shape == (4,)


def test_seeds_repeat():
    def episode(seed):
        env = MockEnvironment()
        observ, _ = env.reset(seed=seed)
        return observ.tolist(), env.step(act(env))[1], env.durations

    assert episode(0) == episode(0) != episode(1)


@pytest.mark.parametrize(
    'action', [np.zeros(3, 'f'), np.full(2, 1.5, 'f'), np.full(2, np.nan, 'f')]
)
def test_refuses_actions_that_are_not_of_the_space(action):
    env = MockEnvironment()
    env.reset()
    with pytest.raises(ValueError, match='is not in'):
        env.step(action)


def test_refuses_to_step_beyond_the_end():
    env = MockEnvironment(min_duration=1, max_duration=1)
    env.reset()
    env.step(act(env))
    with pytest.raises(RuntimeError, match='reset the environment'):
        env.step(act(env))
