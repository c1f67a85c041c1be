"""What is refused before anything is started."""

import functools

import gymnasium as gym
import numpy as np
import pytest

from agents.algorithms import ALGORITHMS
from agents.config import checks, lookup
from agents.config.settings import SETTINGS, find_defaults
from agents.parts import encodings
from agents.scripts import configs
from agents.tools import errors
from agents.tools.attr_dict import AttrDict


def refused(message, base=configs.ppo, **changes):
    with pytest.raises(errors.ConfigError, match=message) as info:
        checks.require_settings(base(**changes))
    assert '\n' not in str(info.value)


def test_every_config_is_valid(subtests):
    for name in lookup.list_configs():
        with subtests.test(name):
            config = getattr(configs, name)()
            checks.require_settings(config.copy(demonstrations='demos.npz'))


def test_every_setting_refuses_what_is_nothing_of_its_kind(subtests):
    for key in sorted(SETTINGS):
        name = next(name for name in ALGORITHMS if key in find_defaults(name))
        base = getattr(configs, name)
        for value in (object(), float('nan'), [None], b'x'):
            with subtests.test(key, value=value):
                message = f"The setting '{key}' has to be "
                refused(message, base, **{key: value})


OUT_OF_RANGE = [
    ('gradient_clip', 0, 'a number above 0 or None, not 0'),
    ('clip_range', -0.2, 'a number above 0, not -0.2'),
    ('init_output_factor', -1, 'a number of at least 0, not -1'),
    ('reward_clip', 0, 'a number above 0 or None'),
    ('observ_clip', -1.0, 'a number above 0 or None'),
    ('init_std', 0, 'a number above 0, not 0'),
    ('update_epochs', 0, 'a whole number from 1 to 1,000,000, not 0'),
    ('batch_size', 0, 'a whole number from 1 to 100,000,000'),
    ('batch_size', 12.5, 'a whole number from 1 to 100,000,000'),
    ('kl_target', 0, 'a number above 0'),
    ('kl_init_penalty', -1, 'a number of at least 0'),
    ('kl_cutoff_coef', -1, 'a number of at least 0'),
    ('kl_stop', -0.1, 'a number above 0 or None'),
    ('entropy_bonus', -0.1, 'a number of at least 0'),
    ('policy_layers', [64, 0], r'a list .* number from 1 to 65,536, not \['),
    ('convolutions', [[-1, 3, 1]], 'one of atari, small or a list of'),
    ('convolutions', [16], r'one of .*, or None, not \[16\]'),
    ('convolutions', 'atary', "one of .*did you mean 'atari'"),
    ('activation', 'tanhh', "one of .* or a function, .* mean 'tanh'"),
    ('learning_rate_schedule', 'linaer', "one of.*did you mean 'linear'"),
    ('surrogate', 'none', 'one of clip, penalty, not'),
    ('network', 'recurent_gaussian', "one of .*mean 'recurrent'"),
    ('algorithm', 'ppoo', "one of ppo, reinforce.*did you mean 'ppo'"),
    ('observ_bounds', 'warn', "one of ignore, clip, error, not 'warn'"),
    ('num_workers', 0, 'a whole number from 1 to 10,000 or None'),
    ('worker_timeout', 0, 'a number above 0'),
    ('worker_timeout', float('inf'), 'a number above 0, not inf'),
    ('seed', -1, 'a whole number from 0 to 4,294,967,295, not -1'),
    ('seed', 2**32, 'a whole number from 0 to 4,294,967,295'),
    ('env_kwargs', 'size', 'names with their values, such as'),
    ('discount', 1.5, 'a number from 0 to 1, not 1.5'),
    ('gae_lambda', -0.5, 'a number from 0 to 1'),
    ('learning_rate', 0.0, 'a number above 0'),
    ('normalize_observ', 1, 'true or false, not 1'),
    ('steps', True, 'a whole number of at least 1, not True'),
    ('steps', 1.5, 'a whole number of at least 1, not 1.5'),
    ('policy_layers', [777777777777777777], 'a list .* to 65,536, not'),
    ('value_layers', [1_000_000_000], 'a list .* to 65,536, not'),
    ('value_layers', [1] * 101, 'a list of at most 100 parts'),
    ('recurrent_units', 1_000_000_000, 'a whole number from 1 to 65,536'),
    ('convolutions', [[65_536, 3, 1]], 'one of .* from 1 to 1,024, or'),
    ('num_agents', 777777777777, 'a whole number from 1 to 100,000, not'),
    ('eval_episodes', 777777777777, 'a whole number from 1 to 100,000'),
    ('num_workers', 777777777777, 'a whole number from 1 to 10,000 or'),
    ('max_length', 777777777777, 'a whole number from 1 to 1,000,000,000'),
    ('update_every', 777777777777, 'a whole number from 1 to 100,000,000'),
    ('update_epochs', 777777777777, 'a whole number from 1 to 1,000,000'),
]


def test_value_out_of_range_is_refused(subtests):
    for key, value, expected in OUT_OF_RANGE:
        with subtests.test(key, value=value):
            message = f"The setting '{key}' has to be {expected}"
            refused(message, **{key: value})


@pytest.mark.parametrize(
    'changes',
    [
        {'gradient_clip': None, 'reward_clip': None, 'observ_clip': None},
        {'kl_stop': 0.1, 'value_clip': 1, 'num_workers': 1, 'discount': 1},
        {'policy_layers': (), 'value_layers': [], 'activation': abs},
        {'num_agents': np.int64(8), 'learning_rate': np.float32(1e-3)},
        {'env': object, 'network': lambda *_: None, 'seed': 2**32 - 1},
    ],
)
def test_value_within_its_range_is_fine(changes):
    checks.require_settings(configs.ppo(**changes))


def test_environment_itself_is_refused_with_what_to_give_instead():
    class Arm:
        reset = step = None

    for env in (gym.make('CartPole-v1'), Arm()):
        refused('which is one already. Give its class, or a function', env=env)
    refused('a function of num_envs', env=gym.make_vec('CartPole-v1'))


@pytest.mark.parametrize('name', ['', 'a,b', 'a"', ' a', 'a\nb', 5])
def test_names_that_no_table_can_have_are_refused(name):
    refused(r'a list of .*, such as \[a, b\], each a name', log_info=[name])


def test_names_of_numbers():
    names = ['x', 'reward/x y', 'é-1']
    checks.require_settings(configs.ppo(log_info=names))
    refused("'log_info' has 'x' twice", log_info=[*names, 'x'])


def test_sizes_that_do_not_divide_are_refused():
    refused('batch_size=33. Choose 32 or 64', batch_size=33)
    network = 'recurrent'
    refused('whole sequences.* Choose 256', network=network, batch_size=64)


@pytest.mark.parametrize(
    'changes, count',
    [
        ({'policy_layers': [25_000, 25_000]}, 625_004_096),
        ({'value_layers': [14_000, 10_000, 7_000]}, 210_004_096),
        # Both networks remember, from 64 units to 8,000 by three gates.
        (
            {'network': 'recurrent', 'recurrent_units': 8_000, 'batch_size': 256},
            2 * 3 * 8_000 * (8_000 + 64) + 2 * 64 * 64,
        ),
    ],
)
def test_networks_too_large_for_memory_are_refused(changes, count):
    refused(f'have {count:,} weights or more; there may be 200,', **changes)


def test_config_that_lacks_settings_of_its_algorithm_is_refused():
    with pytest.raises(errors.ConfigError, match=r'configs\.reinforce\(\)'):
        checks.require_settings(configs.ppo(algorithm='reinforce'))
    with pytest.raises(errors.ConfigError, match=r'lacks .*algorithm'):
        checks.require_settings(find_defaults(None))
    with pytest.raises(errors.ConfigError, match='lacks seed'):
        config = {k: v for k, v in configs.ppo().items() if k != 'seed'}
        checks.require_settings(AttrDict(config))


def test_mistake_is_refused_without_tensorflow_workers_or_directory(tmp_path, run_python):
    mistakes = [
        '--config=typo',
        '--set=clip_range=-0.2',
        '--set=batch_size=33',
        '--set=activation=tanhh',
        '--set=network=nope',
        '--set=surrogate=nope',
        '--set=env=CartPole',
        '--set=env=native:CartPole',
    ]
    code = (
        'import subprocess, sys\n'
        'from agents.scripts.train import main\n'
        'def refuse(*_, **__): raise AssertionError("It starts a process.")\n'
        'subprocess.Popen.__init__ = refuse\n'
        'for mistake in sys.argv[1:]:\n'
        '    assert main(["--config=debug", mistake]) == 1, mistake\n'
        'assert "tensorflow" not in sys.modules\n'
    )
    code, output, problems = run_python('-c', code, *mistakes, cwd=tmp_path)
    assert (code, output) == (0, ''), problems
    lines = problems.splitlines()
    assert len(lines) == len(mistakes)
    assert all(line.startswith('error: ') for line in lines), problems
    assert not list(tmp_path.iterdir())


def test_behaviour_cloning_needs_what_it_learns_by():
    base = functools.partial(configs.behaviour_cloning, demonstrations='demos.npz')
    refused('needs rewards=environment and clone_steps', base, clone_steps=0)
    refused('needs rewards=environment and clone_steps', base, rewards='gail')
    refused('distribute must be average for behaviour cloning', base, distribute='gather')


def test_function_that_is_gone_is_named():
    with pytest.raises(errors.ConfigError, match='Cannot find nowhere:nothing'):
        lookup.find_again('nowhere:nothing')


def test_convolutions_have_to_fit_the_image():
    image = gym.spaces.Box(0, 255, (10, 10, 3), np.uint8)
    config = configs.ppo(convolutions=[[8, 20, 4]])
    with pytest.raises(errors.ConfigError, match='too large for an image of 10 × 10 pixels'):
        encodings.choose(image, config)
