"""The settings of a run in its file: whole, plain, and never code."""

import itertools
import os

import numpy as np
import pytest

from agents.config import lookup, plain_yaml, store
from agents.scripts import configs
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
        (tmp_path / store.CONFIG_FILE).write_bytes(data)
        return tmp_path

    return write


def make_env():
    return None


def test_run_without_a_limit_is_restored(tmp_path):
    config = configs.ppo(gradient_clip=None, reward_clip=None)
    store.save_config(config, tmp_path)
    assert store.restore_config(configs.ppo(), tmp_path) == config
    assert store.restore_config(None, tmp_path) == config


def test_saved_config_is_restored(tmp_path, subtests):
    for name in lookup.list_configs():
        directory = tmp_path / name
        directory.mkdir()
        with subtests.test(name):
            config = getattr(configs, name)()
            store.save_config(config, directory)
            assert store.load_config(directory) == config
            assert store.restore_config(config, directory) == config
            assert store.restore_config(None, directory) == config


def test_values_survive_saving(tmp_path):
    config = configs.ppo(
        env_kwargs={'text': '1e6', 'no': 'null', 'deep': {'a': [1, 2.5, None]}},
        policy_layers=(8, 4),
        learning_rate=np.float64(0.25),
        normalize_observ=False,
        env='<odd># {}',
    )
    store.save_config(config, tmp_path)
    loaded = store.restore_config(configs.ppo(), tmp_path)
    assert loaded.env_kwargs == config.env_kwargs
    assert loaded.policy_layers == [8, 4]
    assert loaded.learning_rate == 0.25
    assert loaded.normalize_observ is False
    assert loaded.env == config.env


def test_value_that_is_not_plain_is_not_saved(tmp_path):
    with pytest.raises(errors.ConfigError, match='plain value or a function'):
        store.save_config({'steps': object()}, tmp_path)
    assert not list(tmp_path.iterdir())


def test_missing_run_is_named(tmp_path):
    with pytest.raises(errors.ConfigError, match='Expected the directory of a'):
        store.load_config(tmp_path / 'missing')


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


def test_hostile_file_is_refused(run, tmp_path, subtests):
    touched = tmp_path / 'touched'
    for name, text in HOSTILE.items():
        if isinstance(text, str):
            text = text.replace('{}', str(touched))
        refuse = pytest.raises(errors.ConfigError, match=r'config\.yaml')
        with subtests.test(name):
            with refuse as info:
                store.load_config(run(text))
            assert '\n' not in str(info.value)
            assert not touched.exists()


FORGED = '\x1b[2K\nerror: forged \u202e'
FORGERIES = {
    'unknown key': {'algorithm': 'ppo', FORGED: 1},
    'many unknown keys': {'algorithm': 'ppo', **{f'k{FORGED}{i}': 1 for i in range(500)}},
    'value': {'algorithm': 'ppo', 'steps': FORGED},
    'long value': {'algorithm': 'ppo', 'steps': FORGED * 500},
    'environment': {'algorithm': 'ppo', 'env': f'x:{FORGED}'},
    'long environment': {'algorithm': 'ppo', 'env': f'x:{FORGED}' * 500},
}


def test_text_of_a_file_is_told_in_a_short_line(run, config, subtests):
    for name, given in itertools.product(FORGERIES, (config, None)):
        with subtests.test(name, given=given is not None):
            directory = run(plain_yaml.format_value(FORGERIES[name]))
            with pytest.raises(errors.ConfigError) as info:
                store.restore_config(given, directory)
            message = str(info.value)
            assert message.isprintable() and len(message) <= 2_000
            assert 'forged' in message
            # A value that is left out in parts is not for a shell.
            assert '--set' not in message or '…' not in message


@pytest.mark.parametrize(
    'text', ['a: *b\x85c', 'a: !\u202ething 5', "a: '\x9b2K\n  - ", 'ü: [', '%\n']
)
def test_problem_of_a_text_is_told_in_a_line(run, text):
    with pytest.raises(errors.ConfigError) as info:
        store.load_config(run(text))
    assert str(info.value).isprintable()


def test_unknown_settings_of_a_file_are_refused(run, config):
    directory = run('algorithm: ppo\nsteps: 5\nstepz: 6')
    with pytest.raises(errors.ConfigError, match='does not know: stepz'):
        store.restore_config(config, directory)
    with pytest.raises(errors.ConfigError, match='does not know: stepz'):
        store.restore_config(None, directory)


@pytest.mark.parametrize(
    'text', ['network: feed_forward_gaussian', 'convolution_filters: [16, 32]']
)
def test_settings_of_another_version_are_told_with_a_remedy(run, config, text):
    directory = run(f'algorithm: ppo\n{text}')
    for given in (config, None):
        with pytest.raises(errors.ConfigError) as info:
            store.restore_config(given, directory)
        message = str(info.value)
        assert str(directory / store.CONFIG_FILE) in message
        assert text.partition(':')[0] in message
        assert 'begin a new run in another directory.' in message


@pytest.mark.parametrize(
    'text', ['steps: many', 'steps: null', 'policy_layers: [a]', 'env: {a: 1}']
)
def test_settings_of_other_types_in_a_file_are_refused(run, config, text):
    directory = run(f'algorithm: ppo\n{text}')
    for read in (
        lambda: store.restore_config(config, directory),
        lambda: store.restore_config(None, directory),
    ):
        with pytest.raises(errors.ConfigError, match='has to be'):
            read()


def test_settings_that_a_file_lacks_have_their_defaults(run, config):
    directory = run('algorithm: ppo\nenv: CartPole-v1\nsteps: 5')
    expected = config.copy(steps=5)
    assert store.restore_config(config, directory) == expected
    assert store.restore_config(None, directory) == expected


def test_file_that_lacks_the_environment_is_refused(run, config):
    directory = run('algorithm: ppo\nsteps: 5')
    for given in (config, None):
        with pytest.raises(errors.ConfigError, match="yaml lacks the setting 'e"):
            store.restore_config(given, directory)
    restored = store.restore_config(None, directory, env='Taxi-v4')
    assert (restored.env, restored.steps) == ('Taxi-v4', 5)


def test_algorithm_of_a_file_is_no_way_to_other_functions(run):
    for text in ('algorithm: debug\nbatch_size: 4', 'algorithm: [x]', 'seed: 1'):
        with pytest.raises(errors.ConfigError, match='There is no algorithm'):
            store.restore_config(None, run(text))


def test_functions_are_saved_by_name_and_taken_from_config(tmp_path):
    kwargs = {'inner': {'reward': len}, 'size': 3}
    config = configs.ppo(env=make_env, env_kwargs=kwargs, steps=7)
    store.save_config(config, tmp_path)
    saved = store.load_config(tmp_path)
    assert saved.env.startswith('<function ')
    assert saved.env.endswith('.make_env>')
    restored = store.restore_config(config.copy(steps=9), tmp_path)
    assert (restored.env, restored.steps) == (make_env, 7)
    assert restored.env_kwargs == kwargs


def test_settings_are_written_only_if_they_change(tmp_path, config):
    path = tmp_path / store.CONFIG_FILE
    store.save_config(config, tmp_path)
    before = path.stat()
    store.save_config(config, tmp_path)
    after = path.stat()  # To read the file may change its access time.
    assert after.st_ino == before.st_ino
    assert after.st_mtime_ns == before.st_mtime_ns
    store.save_config(config.copy(steps=5), tmp_path)
    assert store.load_config(tmp_path).steps == 5
    assert os.listdir(tmp_path) == [store.CONFIG_FILE]


def test_loaded_settings_are_locked(run):
    loaded = store.load_config(run('steps: 5'))
    assert isinstance(loaded, AttrDict)
    with pytest.raises(RuntimeError, match='locked'):
        loaded.steps = 6


@pytest.mark.parametrize(
    'changes, settings_before',
    [
        ({'update_every': 32}, {}),
        ({'policy_layers': [8]}, {}),
        ({'value_layers': [8]}, {}),
        ({'normalize_observ': False}, {}),
        ({'network': 'recurrent'}, {}),
        ({'recurrent_units': 8}, {'network': 'recurrent'}),
        ({'recurrent_units': 8}, {'network': make_env}),
        ({'convolutions': 'atari'}, {}),
        ({'image_units': 9}, {}),
        ({'shared_encoder': True}, {}),
        ({'env': 'CartPole-v1'}, {'env': 'native:CartPole-v1'}),
        ({'env': 'native:CartPole-v1'}, {}),
    ],
)
def test_setting_that_a_run_cannot_change_is_named(tmp_path, changes, settings_before):
    config = configs.ppo(**settings_before)
    store.save_config(config, tmp_path)
    store.require_same_sizes(config, tmp_path)
    ((key, new),) = changes.items()
    with pytest.raises(errors.ConfigError) as info:
        store.require_same_sizes(config.copy(**changes), tmp_path)
    message = str(info.value)
    assert f'was trained with {key}={config[key]}; ' in message
    assert f'does not fit {key}={new}. Leave {key} as it was' in message


def test_settings_that_a_run_can_change_are_not_refused(tmp_path, config):
    store.save_config(config, tmp_path)
    store.require_same_sizes(
        config.copy(
            learning_rate=1.0, steps=5, recurrent_units=8,
            policy_layers=(64, 64), eval_episodes=3, num_agents=4,
        ),
        tmp_path,
    )  # fmt: skip


def test_other_runs_are_told_where_there_is_none(tmp_path):
    for name in ('robot', 'arm'):
        (tmp_path / name).mkdir()
        store.save_config(configs.debug(), tmp_path / name)
    (tmp_path / 'legs' / 'left').mkdir(parents=True)
    store.save_config(configs.debug(), tmp_path / 'legs' / 'left')
    listed = f'{tmp_path} holds the runs arm, legs/left, robot.'
    expected = {
        tmp_path: f'directory of a run. {listed}',
        tmp_path / 'legs': f'a run. {tmp_path / "legs"} holds the run left.',
        tmp_path / 'robbot': f"run; did you mean 'robot'? {listed}",
        tmp_path / 'robot' / 'x': 'Expected the directory of a run.',
    }
    for directory, end in expected.items():
        with pytest.raises(errors.ConfigError) as info:
            store.load_config(directory)
        assert str(info.value).endswith(end)
