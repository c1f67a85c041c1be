"""Settings from texts and files: typed, known, plain, and never code."""

import os
import re
import textwrap

import numpy as np
import pytest

from agents.algorithms import ALGORITHMS
from agents.scripts import configs, settings
from agents.tools import errors
from agents.tools.attr_dict import AttrDict


@pytest.fixture
def config():
    return configs.ppo()


@pytest.fixture
def run(tmp_path):
    """A function that makes the directory of a run from a text."""

    def write(text):
        data = text if isinstance(text, bytes) else text.encode()
        (tmp_path / settings.CONFIG_FILE).write_bytes(data)
        return tmp_path

    return write


@pytest.fixture
def file(tmp_path):
    """A function that makes a file of configs, as the text to name it by."""

    def write(text, function='mine'):
        path = tmp_path / 'experiment.py'
        path.write_text(textwrap.dedent(text))
        return f'{path}:{function}'

    return write


@pytest.mark.parametrize(
    'text, expected',
    [
        ('steps=5000', 5000),
        ('steps=1e6', 1_000_000),
        ('steps=1_000', 1000),
        ('learning_rate=1e-3', 0.001),
        ('discount=1', 1.0),
        ('discount=.5', 0.5),
        ('normalize_observ=false', False),
        ('policy_layers=[32, 16]', [32, 16]),
        ('policy_layers=[]', []),
        ('activation=relu', 'relu'),
        ('env=Pendulum-v1', 'Pendulum-v1'),
        ('env=native:CartPole-v1', 'native:CartPole-v1'),
        ('env_kwargs={gravity: 9.8}', {'gravity': 9.8}),
        ('num_workers=3', 3),
        ('num_workers=null', None),
        ('num_workers=', None),
        ('value_clip=1', 1.0),
        ('network=recurrent_categorical', 'recurrent_categorical'),
    ],
)
def test_value_has_type_of_default(config, text, expected):
    value = settings.override(config, [text])[text.partition('=')[0]]
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    'text, expected',
    [
        ('steps=many', 'a whole number of at least 1, not '),
        ('steps=1.5', 'a whole number'),
        ('steps=.inf', 'a whole number'),
        ('steps=true', 'a whole number'),
        ('steps=', 'a whole number of at least 1, not None'),
        ('steps="5"', 'a whole number'),
        ('discount=true', 'a number from 0 to 1, not True'),
        ('discount=null', 'a number'),
        ('normalize_observ=1', 'true or false, not 1'),
        ('normalize_observ=yes', 'true or false'),
        ('policy_layers=64', r'a list, such as \[64, 64\], each part'),
        ('policy_layers=[64, big]', 'a list'),
        ('env=5', 'the name of an environment, or a class or function'),
        ('env_kwargs=[1]', 'names with their values, such as {size: 9}'),
        ('num_workers=two', 'a whole number of at least 1 or None'),
        ('kl_stop=much', 'a number above 0 or None, not '),
        ('network=[64]', 'one of feed_forward_gaussian, '),
    ],
)
def test_value_of_other_type_is_refused_with_what_is_expected(
    config, text, expected
):
    key = text.partition('=')[0]
    message = f"The setting '{key}' has to be {expected}"
    with pytest.raises(errors.ConfigError, match=message):
        settings.override(config, [text])


@pytest.mark.parametrize('text', ['null', 'None', 'none', ''])
def test_nothing_is_null_as_in_yaml_or_none_as_in_python(text):
    config = configs.ppo(kl_stop=0.1)
    assert settings.override(config, [f'kl_stop={text}']).kl_stop is None


def test_types_are_those_of_settings_rather_than_of_config():
    config = configs.ppo(discount=1, env=lambda: None, gradient_clip=None)
    changed = settings.override(config, ['discount=0.5', 'env=CartPole-v1'])
    assert (changed.discount, changed.env) == (0.5, 'CartPole-v1')
    assert settings.override(config, ['gradient_clip=1']).gradient_clip == 1.0
    assert settings.override(config, ['gradient_clip=']).gradient_clip is None


def test_run_without_a_limit_is_restored(tmp_path):
    config = configs.ppo(gradient_clip=None, reward_clip=None)
    settings.save_config(config, tmp_path)
    assert settings.restored(configs.ppo(), tmp_path) == config
    assert settings.restored(None, tmp_path) == config


def test_setting_of_the_users_keeps_its_type():
    config = AttrDict(configs.ppo(), mine=3)
    assert settings.override(config, ['mine=1e1']).mine == 10
    with pytest.raises(errors.ConfigError, match="'mine' has to be a whole"):
        settings.override(config, ['mine=many'])


def test_last_of_several_overrides_counts_and_config_is_unchanged(config):
    changed = settings.override(config, ['seed=1', 'steps=5', 'seed=2'])
    assert (changed.seed, changed.steps) == (2, 5)
    assert (config.seed, config.steps) == (0, 1_000_000)


def test_value_may_contain_equals_sign(config):
    changed = settings.override(config, ['env=a=b'])
    assert changed.env == 'a=b'


def test_unknown_setting_suggests_nearest_and_lists_all(config):
    with pytest.raises(errors.ConfigError) as info:
        settings.override(config, ['lerning_rate=1'])
    message = str(info.value)
    assert (
        "no setting 'lerning_rate'; did you mean 'learning_rate'? " in message
    )
    assert all(key in message for key in config)


def test_override_without_equals_sign_is_refused(config):
    with pytest.raises(errors.ConfigError, match='Expected --set key=value'):
        settings.override(config, ['steps'])


@pytest.mark.parametrize('value', ['[1', '!!int 5', '!!python/name:os.system'])
def test_override_that_is_not_plain_is_one_line(config, value):
    with pytest.raises(errors.ConfigError, match='The value of steps') as info:
        settings.override(config, [f'steps={value}'])
    assert '\n' not in str(info.value)


def test_config_is_found_by_name():
    assert settings.find_config('pendulum') is configs.pendulum


def test_config_names_are_experiments_alone():
    names = settings.config_names()
    assert {'debug', 'pendulum', 'cheetah'} <= set(names)
    assert not {'default', 'mujoco', 'Any', *ALGORITHMS} & set(names)


def test_unknown_config_suggests_nearest_and_lists_all():
    with pytest.raises(errors.ConfigError) as info:
        settings.find_config('pendulm')
    message = str(info.value)
    assert "no config 'pendulm'; did you mean 'pendulum'? " in message
    assert all(name in message for name in settings.config_names())


@pytest.mark.parametrize('name', ['default', 'ppo', 'mujoco', 'Any', '_define'])
def test_helpers_are_no_configs(name):
    with pytest.raises(errors.ConfigError, match='There is no config'):
        settings.find_config(name)


def test_config_is_found_in_file_with_what_is_beside_it(file, tmp_path):
    (tmp_path / 'beside_the_experiment.py').write_text('STEPS = 123')
    name = file("""
        import beside_the_experiment
        from agents.scripts import configs

        def mine():
            return configs.ppo(steps=beside_the_experiment.STEPS)
    """)
    assert settings.find_config(name)().steps == 123


@pytest.mark.parametrize(
    'text, message',
    [
        ('1 / 0', 'experiment.py raised ZeroDivisionError in line 1: division'),
        ('import no_such_package', "ModuleNotFoundError in line 1: No module"),
        ('def mine(:', 'raised SyntaxError'),
        ('\ndef mine():\n  {}["a"]', "raised KeyError in line 3: 'a'"),
        ('def mine(size): pass', 'raised TypeError'),
        ('def mine(): return 5', 'returned 5 where settings were expected'),
        ('def main(): pass', "no function 'mine' in .*; did you mean 'main'"),
        ('mine = 5', "no function 'mine'"),
    ],
)  # fmt: skip
def test_mistake_in_file_is_told_in_one_line(file, text, message):
    with pytest.raises(errors.ConfigError, match=message) as info:
        settings.find_config(file(text))()
    assert '\n' not in str(info.value)


def test_mistyped_setting_in_file_suggests_nearest(file):
    name = file("""
        from agents.scripts import configs

        def mine():
            return configs.ppo(stpes=5)
    """)
    with pytest.raises(errors.ConfigError, match="did you mean 'steps'"):
        settings.find_config(name)()


@pytest.mark.parametrize('name', ['missing.py:mine', 'debug:'])
def test_missing_file_is_named(name):
    file = name.partition(':')[0]
    with pytest.raises(errors.ConfigError, match=f'There is no file {file!r}'):
        settings.find_config(name)


def test_file_that_is_not_python_is_refused(tmp_path):
    (tmp_path / 'notes.txt').write_text('')
    for path in (tmp_path, tmp_path / 'notes.txt'):
        with pytest.raises(errors.ConfigError, match='is not a Python file'):
            settings.find_config(f'{path}:mine')


@pytest.mark.parametrize('name', settings.config_names())
def test_saved_config_is_restored(tmp_path, name):
    config = getattr(configs, name)()
    settings.save_config(config, tmp_path)
    assert settings.load_config(tmp_path) == config
    assert settings.restored(config, tmp_path) == config
    assert settings.restored(None, tmp_path) == config


def test_values_survive_saving(tmp_path):
    config = configs.ppo(
        env_kwargs={'text': '1e6', 'no': 'null', 'deep': {'a': [1, 2.5, None]}},
        policy_layers=(8, 4),
        learning_rate=np.float64(0.25),
        normalize_observ=False,
        env='<odd># {}',
    )
    settings.save_config(config, tmp_path)
    loaded = settings.restored(configs.ppo(), tmp_path)
    assert loaded.env_kwargs == config.env_kwargs
    assert loaded.policy_layers == [8, 4]
    assert loaded.learning_rate == 0.25
    assert loaded.normalize_observ is False
    assert loaded.env == config.env


def test_value_that_is_not_plain_is_not_saved(tmp_path):
    with pytest.raises(errors.ConfigError, match='plain value or a function'):
        settings.save_config({'steps': object()}, tmp_path)
    assert not list(tmp_path.iterdir())


def test_missing_run_is_named(tmp_path):
    with pytest.raises(errors.ConfigError, match='Expected the directory of a'):
        settings.load_config(tmp_path / 'missing')


HOSTILE = {
    'tag that calls': 'env: !!python/object/apply:os.system ["touch {}"]',
    'tag that names': 'env: !!python/name:os.system',
    'tag of its own': 'env: !thing 5',
    'harmless tag': 'env: !!str 5',
    'binary': 'env: !!binary aGk=',
    'set': 'env_kwargs: !!set {a, b}',
    'date': 'env: 2020-01-01',
    'bomb': 'a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]',
    'ouroboros': 'env: &a [*a]',
    'merge': 'env_kwargs: &a {b: 1}\nsteps: {<<: *a}',
    'deep': '[' * 50_000,
    'deep and closed': 'env: ' + '[' * 500 + ']' * 500,
    'deep mapping': '{a: ' * 5_000,
    'wide': 'env: [' + '1,' * 40_000 + ']',
    'huge': 'env: ' + 'x' * 200_000,
    'huge number': 'steps: ' + '9' * 5_000,
    'twice': 'steps: 5\nsteps: 6',
    'twice inside': 'env_kwargs: {a: 1, a: 2}',
    'number for a key': '1: 2',
    'list for a key': '[[a]]: 1',
    'list': '- steps',
    'text': 'steps',
    'nothing': '',
    'two documents': 'steps: 5\n---\nsteps: 6',
    'zero byte': 'steps: \0',
    'not text': b'steps: \xff\xfe',
    'not YAML': 'steps: [5',
}


@pytest.mark.parametrize('text', HOSTILE.values(), ids=HOSTILE)
def test_hostile_file_is_refused(run, text, tmp_path):
    touched = tmp_path / 'touched'
    if isinstance(text, str):
        text = text.replace('{}', str(touched))
    with pytest.raises(errors.ConfigError, match=r'config\.yaml') as info:
        settings.load_config(run(text))
    assert '\n' not in str(info.value)
    assert not touched.exists()


def test_unknown_settings_of_a_file_are_refused(run, config):
    directory = run('algorithm: ppo\nsteps: 5\nstepz: 6')
    with pytest.raises(errors.ConfigError, match='does not know: stepz'):
        settings.restored(config, directory)
    with pytest.raises(errors.ConfigError, match='does not know: stepz'):
        settings.restored(None, directory)


@pytest.mark.parametrize(
    'text', ['steps: many', 'steps: null', 'policy_layers: [a]', 'env: {a: 1}']
)
def test_settings_of_other_types_in_a_file_are_refused(run, config, text):
    directory = run(f'algorithm: ppo\n{text}')
    for read in (
        lambda: settings.restored(config, directory),
        lambda: settings.restored(None, directory),
    ):
        with pytest.raises(errors.ConfigError, match='has to be'):
            read()


def test_settings_that_a_file_lacks_have_their_defaults(run, config):
    directory = run('algorithm: ppo\nsteps: 5')
    expected = config.copy(steps=5)
    assert settings.restored(config, directory) == expected
    assert settings.restored(None, directory) == expected


def test_algorithm_of_a_file_is_no_way_to_other_functions(run):
    with pytest.raises(errors.ConfigError, match='know: algorithm, batch_size'):
        settings.restored(None, run('algorithm: debug\nbatch_size: 4'))


def make_env():
    return None


def test_functions_are_saved_by_name_and_taken_from_config(tmp_path):
    kwargs = {'inner': {'reward': len}, 'size': 3}
    config = configs.ppo(env=make_env, env_kwargs=kwargs, steps=7)
    settings.save_config(config, tmp_path)
    saved = settings.load_config(tmp_path)
    assert saved.env.startswith('<function ')
    assert saved.env.endswith('.make_env>')
    restored = settings.restored(config.copy(steps=9), tmp_path)
    assert (restored.env, restored.steps) == (make_env, 7)
    assert restored.env_kwargs == kwargs


@pytest.mark.parametrize(
    'changes', [{'env': make_env}, {'env_kwargs': {'inner': [make_env]}}]
)
def test_functions_cannot_be_used_from_a_file(tmp_path, config, changes):
    settings.save_config(config.copy(**changes), tmp_path)
    (key,) = changes
    for given in (config, None):
        with pytest.raises(errors.ConfigError) as info:
            settings.restored(given, tmp_path)
        message = str(info.value)
        assert f'The setting {key!r} of {tmp_path} is ' in message
        assert 'cannot be trusted' in message and '--config=file' in message
        rest = settings.restored(given, tmp_path, unused=[key])
        assert rest == config


CODE = {
    'module': {'env': 'antigravity:Env-v0'},
    'module of a native one': {'env': 'native:antigravity:Env-v0'},
    'module of an argument': {'env_kwargs': {'inner': ['antigravity:Env-v0']}},
    'path of an argument': {'env_kwargs': {'xml_file': './model.xml'}},
    'dotted argument': {'env_kwargs': {'wrapper': 'antigravity.Wrapper'}},
}


@pytest.mark.parametrize('changes', CODE.values(), ids=CODE)
def test_code_is_not_used_on_the_word_of_a_file(tmp_path, config, changes):
    settings.save_config(config.copy(**changes), tmp_path)
    ((key, value),) = changes.items()
    for given in (config, None, config.copy(env=make_env)):
        with pytest.raises(errors.ConfigError) as info:
            settings.restored(given, tmp_path)
        message = str(info.value)
        own = settings._plain((given or config)[key])
        assert f'The setting {key!r} of {tmp_path} is {value!r}' in message
        assert f'yours is {own!r}' in message
        # What the message says to do is what helps.
        change = re.search("--set '(.*)'", message)[1]
        restored = settings.restored(given, tmp_path, [change])
        assert restored[key] == value
        unused = settings.restored(given, tmp_path, unused=[key])
        assert unused[key] == (given or config)[key]
    same = config.copy(**changes)
    assert settings.restored(same, tmp_path) == same


def test_arguments_that_are_numbers_and_words_are_used_from_a_file(
    tmp_path, config
):
    kwargs = {'map_name': '8x8', 'size': [1, 2.5], 'slippery': True, 'x': None}
    settings.save_config(config.copy(env_kwargs=kwargs), tmp_path)
    assert settings.restored(None, tmp_path).env_kwargs == kwargs


def test_settings_are_written_only_if_they_change(tmp_path, config):
    path = tmp_path / settings.CONFIG_FILE
    settings.save_config(config, tmp_path)
    before = path.stat()
    settings.save_config(config, tmp_path)
    assert path.stat() == before
    settings.save_config(config.copy(steps=5), tmp_path)
    assert settings.load_config(tmp_path).steps == 5
    assert os.listdir(tmp_path) == [settings.CONFIG_FILE]


def test_native_environment_is_used_from_a_file(tmp_path, config):
    settings.save_config(config.copy(env='native:CartPole-v1'), tmp_path)
    restored = settings.restored(None, tmp_path)
    assert restored.env == 'native:CartPole-v1'


def test_loaded_settings_are_locked(run):
    loaded = settings.load_config(run('steps: 5'))
    assert isinstance(loaded, AttrDict)
    with pytest.raises(RuntimeError, match='locked'):
        loaded.steps = 6


@pytest.mark.parametrize(
    'changes, settings_before',
    [
        ({'num_agents': 4}, {}),
        ({'update_every': 32}, {}),
        ({'policy_layers': [8]}, {}),
        ({'value_layers': [8]}, {}),
        ({'normalize_observ': False}, {}),
        ({'network': 'recurrent_gaussian'}, {}),
        ({'recurrent_units': 8}, {'network': 'recurrent_gaussian'}),
        ({'recurrent_units': 8}, {'network': make_env}),
        (
            {'convolution_filters': [8]},
            {'network': 'convolutional_categorical'},
        ),
        ({'eval_episodes': 3}, {'env': 'native:CartPole-v1'}),
        ({'env': 'CartPole-v1'}, {'env': 'native:CartPole-v1'}),
        ({'env': 'native:CartPole-v1'}, {}),
    ],
)
def test_setting_that_a_run_cannot_change_is_named(
    tmp_path, changes, settings_before
):
    config = configs.ppo(**settings_before)
    settings.save_config(config, tmp_path)
    settings.require_same_sizes(config, tmp_path)
    ((key, new),) = changes.items()
    with pytest.raises(errors.ConfigError) as info:
        settings.require_same_sizes(config.copy(**changes), tmp_path)
    message = str(info.value)
    assert f'has learnt with {key}={config[key]}, ' in message
    assert f'cannot go on with {key}={new}. Leave {key} as it was' in message


def test_settings_that_a_run_can_change_are_not_refused(tmp_path, config):
    settings.save_config(config, tmp_path)
    settings.require_same_sizes(
        config.copy(
            learning_rate=1.0, steps=5, recurrent_units=8,
            convolution_filters=[8], policy_layers=(64, 64), eval_episodes=3,
        ),
        tmp_path,
    )  # fmt: skip
