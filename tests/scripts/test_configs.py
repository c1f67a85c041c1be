"""Experiments: that each can be run as it stands."""

import pytest

from agents import environments
from agents.algorithms import ALGORITHMS
from agents.config.lookup import list_configs
from agents.scripts import configs
from agents.tools import errors
from agents.tools.attr_dict import AttrDict
from agents.training import env_kinds, env_names, env_setup, plan
from agents.training.env_kinds.vector import Vector

CONFIGS = {name: getattr(configs, name)() for name in list_configs()}


def spec_of(config):
    if isinstance(env_kinds.of(config), Vector):
        pytest.importorskip('ale_py')
    return env_names.find_spec(config.env.removeprefix(env_names.VECTOR))


def test_config_is_locked_settings_of_a_known_algorithm(subtests):
    for name, config in CONFIGS.items():
        with subtests.test(name):
            assert isinstance(config, AttrDict)
            assert config.algorithm in ALGORITHMS
            assert set(config) == set(getattr(configs, config.algorithm)())
            with pytest.raises(RuntimeError, match='locked'):
                config.steps = 1


def test_environment_of_config_exists_and_allows_its_episodes(subtests):
    for name, config in CONFIGS.items():
        with subtests.test(name):
            if env_setup.is_native(config):
                env = config.env.removeprefix(env_setup.NATIVE)
                assert env in environments.ENVIRONMENTS
                limit = env_setup.native(config).max_length
            else:
                spec = spec_of(config)
                assert spec.id == config.env.rpartition(':')[2]
                limit = spec.max_episode_steps
            length = config.max_length
            assert limit is None or length is None or length <= limit


def test_plan_of_config_is_what_it_asks_for(subtests):
    for name, config in CONFIGS.items():
        with subtests.test(name):
            phases = plan.make(config)
            assert 0 <= phases.steps - config.steps < phases.rollout
            # Several updates between evaluations, and several evaluations.
            assert phases.eval_every >= 2 * phases.rollout
            assert phases.steps >= 2 * phases.eval_every


@pytest.mark.parametrize('define', [configs.ppo, configs.reinforce])
def test_mistyped_setting_suggests_nearest(define):
    with pytest.raises(errors.ConfigError, match="did you mean 'num_agents'"):
        define(num_agnets=5)
    with pytest.raises(errors.ConfigError, match='There is no'):
        define(colour='red')


def test_settings_of_one_algorithm_are_unknown_to_another():
    with pytest.raises(errors.ConfigError, match="no 'clip_range'"):
        configs.reinforce(clip_range=0.1)


def test_settings_replace_those_of_the_family():
    config = configs.mujoco('Hopper-v5', init_std=0.1)
    assert (config.env, config.init_std) == ('Hopper-v5', 0.1)
    assert config.learning_rate_schedule == 'linear'


def test_settings_replace_those_of_atari():
    config = configs.atari('ms_pacman', num_agents=32)
    assert config.env == 'vector:ale_py:ALE/MsPacman-v5'
    assert (config.num_agents, config.reward_limit) == (32, 1.0)


def test_actions_of_atari_are_not_repeated_by_chance_unless_told():
    assert configs.atari('Pong').env_kwargs == {'repeat_action_probability': 0.0}
    kwargs = {'episodic_life': True, 'repeat_action_probability': 0.25}
    assert configs.atari('Pong', env_kwargs=kwargs).env_kwargs == kwargs
