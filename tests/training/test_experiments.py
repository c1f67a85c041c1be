"""What is trained by the names of a config, an environment and an algorithm."""

import textwrap

import pytest

from agents.config import lookup, store
from agents.scripts import configs
from agents.tools import errors
from agents.training import experiments

ENVS = """
    import gymnasium as gym
    import numpy as np
    from agents import configs

    class Seen(gym.Env):
        action_space = gym.spaces.Discrete(2)
        observation_space = gym.spaces.Box(0, 255, (64, 64, 3), np.uint8)

        def reset(self, *, seed=None, options=None):
            return self.observation_space.sample(), {}

        def step(self, action):
            return self.observation_space.sample(), 0.0, False, False, {}

    class Small(Seen):
        observation_space = gym.spaces.Box(0, 255, (8, 8, 3), np.uint8)

    class Sized(Seen):
        def __init__(self, size):
            self.observation_space = gym.spaces.Box(0, 255, (size,), np.uint8)
            if size > 9:
                shape = size, size
                self.observation_space = gym.spaces.Box(0, 255, shape, np.uint8)

    def make_vector(num_envs, size=64):
        def make():
            return Sized(size)
        return gym.vector.SyncVectorEnv([make] * num_envs)

    def make_nothing():
        raise KeyError('nothing')

    def mine():
        return configs.trpo(env=Seen, steps=5000)
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / 'envs.py'
    path.write_text(textwrap.dedent(ENVS))
    return path


@pytest.mark.parametrize(
    'given, name',
    [
        (('ant', None, None), 'ant'),
        (('a/b.py:ant', None, None), 'ant'),
        (('ant', 'Hopper-v5', None), 'ant-Hopper-v5'),
        ((None, 'Ant-v5', None), 'Ant-v5-ppo'),
        ((None, 'ALE/Pong-v5', 'trpo'), 'Pong-v5-trpo'),
        ((None, 'a/b c.py:make_it', None), 'make_it-ppo'),
        ((None, 'native:CartPole-v1', None), 'CartPole-v1-ppo'),
        ((None, "x:../o 'dd$", None), 'o__dd_-ppo'),
    ],
)
def test_name_is_one_of_a_directory(given, name):
    assert experiments.name_of(*given) == name


def test_config_of_an_environment_and_an_algorithm_is_found(subtests):
    for name in lookup.list_configs():
        with subtests.test(name):
            config = getattr(configs, name)()
            algorithm = configs.algorithm_of(config)
            found = experiments.find(env=config.env, algorithm=algorithm)
            assert found.origin.startswith('those of the config ')
            if name != 'debug':
                assert found.origin == f'those of the config {name}'
                assert found.config == config


def test_algorithm_is_ppo_if_nothing_is_said():
    assert experiments.find(env='Ant-v5').config == configs.ant()


def test_environments_of_a_kind_have_the_settings_of_one():
    found = experiments.find(env='Pusher-v5', algorithm='trpo')
    assert found.config == configs.cheetah_trpo().copy(env='Pusher-v5')
    assert 'cheetah_trpo, which is like it' in found.origin
    found = experiments.find(env='ALE/Seaquest-v5')
    assert found.config == configs.atari('Seaquest')


def test_other_environments_have_the_defaults():
    for env in ('MountainCar-v0', 'Taxi-v4', 'vector:Taxi-v4', 'native:X'):
        found = experiments.find(env=env)
        assert found.config == configs.ppo(env=env)
        assert found.origin == 'the defaults of ppo'
    found = experiments.find(env='Ant-v5', algorithm='npg')
    # No config has both, but others of MuJoCo have.
    assert found.config.line_search is False


@pytest.mark.parametrize('env_processes', [True, False])
def test_images_are_looked_for(file, nothing_left, env_processes):
    found = experiments.find(env=f'{file}:Seen', env_processes=env_processes)
    assert found.origin == 'those for images'
    assert found.config == configs.images(found.config.env)
    assert found.config.env.__name__ == 'Seen'


def test_small_images_and_other_algorithms_need_nothing_else(file):
    small = experiments.find(env=f'{file}:Small', env_processes=False)
    trpo = experiments.find(env=f'{file}:Seen', algorithm='trpo')
    assert small.config == configs.ppo(env=small.config.env)
    assert trpo.config == configs.trpo(env=trpo.config.env)


@pytest.mark.parametrize('size, origin', [(9, 'the defaults of ppo'), (64, 'those for images')])
def test_arguments_are_those_that_replace_settings(file, size, origin):
    for name in 'Sized', 'make_vector':
        changes = [f'env_kwargs={{size: {size}}}', 'num_agents=2']
        found = experiments.find(env=f'{file}:{name}', env_processes=False, changes=changes)
        assert found.origin == origin


def test_environments_of_envpool_have_the_settings_of_the_same_task():
    pytest.importorskip('envpool')
    for env, config in (
        ('envpool:Pong-v5', configs.pong()),
        ('envpool:Seaquest-v5', configs.pong()),
        ('envpool:Hopper-v4', configs.hopper()),
        ('envpool:Pusher-v4', configs.cheetah()),
        ('envpool:CartPole-v1', configs.cartpole()),
    ):
        assert experiments.find(env=env).config == config.copy(env=env)


def test_environment_that_raises_where_it_is_looked_at(file, nothing_left):
    with pytest.raises(errors.EnvError, match="KeyError: 'nothing'"):
        experiments.find(env=f'{file}:make_nothing')


def test_environment_replaces_that_of_a_config(file):
    found = experiments.find('cartpole', f'{file}:Seen')
    changed = configs.cartpole().copy(env=found.config.env)
    assert found.config == changed and found.config.env.__name__ == 'Seen'


@pytest.mark.parametrize(
    'given, message',
    [
        ((None, None), 'There is nothing to train'),
        ((None, 'Ant-v5', 'pop'), "no algorithm 'pop'; did you mean 'ppo'?"),
        ((None, 'Art-v5'), "did you mean 'Ant-v5'"),
        ((None, 'nowhere.py:make'), "There is no file 'nowhere.py'"),
        ((None, 'mine.py'), '--env=mine.py:NAME'),
        (('nowhere', 'Ant-v5'), "no config 'nowhere'"),
    ],
)
def test_mistake(given, message):
    with pytest.raises(errors.ConfigError) as info:
        experiments.find(*given)
    assert message in str(info.value)


def test_options_beside_the_settings_of_a_run(file, tmp_path):
    trained = lookup.find_config(f'{file}:mine')().copy(seed=3)
    store.save_config(trained, tmp_path)
    for options in ((f'{file}:mine', None), (None, f'{file}:Small')):
        found = experiments.find_for_run(*options, True)
        assert found.pop('trust') is True
        restored = store.restore_config(directory=tmp_path, **found)
        assert (restored.algorithm, restored.steps) == ('trpo', 5000)
        name = 'Small' if options[1] else 'Seen'
        assert restored.seed == 3 and restored.env.__name__ == name


def test_environment_that_is_named_replaces_that_of_a_run(tmp_path):
    store.save_config(configs.ppo(env='some_package:X-v0'), tmp_path)
    for env in ('some_package:X-v0', 'CartPole-v1'):
        found = experiments.find_for_run(None, env, False)
        del found['trust']
        restored = store.restore_config(directory=tmp_path, **found)
        assert restored == configs.ppo(env=env)
