"""Kinds of environments: which is asked for, and one more."""

import gymnasium as gym
import numpy as np
import pytest

import agents
from agents import tools
from agents.environments.native_env import NativeEnv
from agents.tools import errors
from agents.tools.batch.env_slice import EnvSlice
from agents.tools.world import ALONE
from agents.training import batches, env_kinds, env_setup
from agents.training.env_kinds import native
from agents.training.env_kinds.native import Native
from agents.training.env_kinds.single import Single
from agents.training.env_kinds.vector import Vector


class Grid(gym.Env):
    """Rewards the choice that it observes."""

    observation_space = gym.spaces.Discrete(2)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._goal = int(self.np_random.integers(2))
        return self._goal, {}

    def step(self, action):
        reward = float(action == self._goal)
        self._goal = int(self.np_random.integers(2))
        return self._goal, reward, False, False, {}


class Grids(env_kinds.EnvKind):
    """All grids of a batch in one slice of this process."""

    def matches(self, config):
        return config.env is Grid

    def require(self, config):
        if config.num_workers:
            raise agents.tools.ConfigError('Grids have no workers.')

    def start_training(self, request):
        assert request.ranks is ALONE
        batches.import_tensorflow(request.reporter)
        members = [
            [EnvSlice([env_setup.constructor(request.config)] * count, seeds=[*range(count)])]
            for _, count in batches.counts(request.config)
        ]
        return batches.combine(members, request)

    def start_playing(self, config, num_agents, env_processes=None, render_mode=None):
        constructors = [env_setup.constructor(config)] * num_agents
        return tools.BatchEnv([EnvSlice(constructors, seeds=[*range(num_agents)])])

    def observation_space(self, config, env_processes):
        return Grid.observation_space


@pytest.mark.parametrize(
    'env, kind',
    [
        ('CartPole-v1', Single),
        ('native:CartPole-v1', Native),
        ('vector:CartPole-v1', Vector),
        (Grid, Single),
    ],
)
def test_kind_that_is_asked_for(tiny, env, kind):
    assert type(env_kinds.of(tiny(env=env))) is kind


def test_one_more_kind_is_trained_in_and_played_with(tiny, tmp_path, monkeypatch, eagerly):
    monkeypatch.setattr(env_kinds, 'KINDS', (Grids(), *env_kinds.KINDS))
    config = tiny(env=Grid)
    *_, last = agents.train(config, tmp_path / 'run')
    assert last.report.phase == 'eval' and 0 <= last <= 10
    played = agents.evaluate(tmp_path / 'run', 4, config=config)
    assert played.lengths == (10,) * 4
    assert np.all(np.array(played.scores) <= 10)
    with pytest.raises(agents.tools.ConfigError, match='no workers'):
        agents.train(config.copy(num_workers=1), tmp_path / 'other')
    assert not (tmp_path / 'other').exists()


class Blind(NativeEnv):
    """A native environment without frames."""

    observation_space = action_space = gym.spaces.Discrete(2)


def test_native_environment_without_frames_is_not_filmed(tiny):
    config = tiny(env=Blind)
    with pytest.raises(errors.ConfigError, match='must have a method render to be filmed'):
        native.constructor(config, 'rgb_array')
