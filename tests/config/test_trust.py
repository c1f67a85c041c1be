"""Code that a file names is used by the user who has signed it only."""

import os
import re
import shutil
import sys

import pytest

from agents.config import lookup, plain_yaml, store, trust
from agents.scripts import configs, train
from agents.tools import errors

FILE = """
import functools
import gymnasium as gym
from agents import configs

class Maze(gym.Env):
    def __init__(self, size=3):
        self.size = size

def made():
    return configs.ppo(env=functools.partial(Maze, size=5), steps=7)

def log(report):
    return None
"""


@pytest.fixture
def run(tmp_path):
    """A function that saves a run; returns its directory."""
    directory = tmp_path / 'run'
    directory.mkdir()

    def save(config):
        store.save_config(config, directory)
        return directory

    return save


@pytest.fixture
def file(tmp_path):
    path = tmp_path / 'maze.py'
    path.write_text(FILE)
    path.chmod(0o644)
    return path


@pytest.fixture
def state(tmp_path, monkeypatch):
    """The directory of the key, which is not there yet."""
    monkeypatch.setenv('XDG_STATE_HOME', str(tmp_path / 'state'))
    monkeypatch.setattr(trust, '_told', set())
    return tmp_path / 'state' / 'agents'


def restore(directory, **options):
    return store.restore_config(None, directory, unused=(), **options)


def make_env():
    return None


TRUST = 'Pass --trust (trust=True in Python) to run that code, or '


def is_refused(directory, *parts, remedy=TRUST):
    """Return whether a run is refused in one line with a remedy."""
    with pytest.raises(errors.ConfigError) as info:
        restore(directory)
    message = str(info.value)
    assert message.isprintable()
    return all(part in message for part in (remedy, *parts))


CODE = {
    'module': {'env': 'antigravity:Env-v0'},
    'module of a native one': {'env': 'native:antigravity:Env-v0'},
    'module of a vector': {'env': 'vector:antigravity:Env-v0'},
    'module of EnvPool': {'env': 'envpool:antigravity:Env-v0'},
    'module of another prefix': {'env': 'native:vector:Env-v0'},
    'end of a line': {'env': 'CartPole-v1\nantigravity:Env-v0'},
    'module of an argument': {'env_kwargs': {'inner': ['antigravity:Env-v0']}},
    'path of an argument': {'env_kwargs': {'xml_file': './model.xml'}},
    'dotted argument': {'env_kwargs': {'wrapper': 'antigravity.Wrapper'}},
    'long argument': {'env_kwargs': {'file': 'a long name ' * 20}},
    'odd argument': {'env_kwargs': {'\u202e': ['\x1b[2K\r" \U0001f600', 1e-07]}},
}


@pytest.mark.parametrize('changes', CODE.values(), ids=CODE)
def test_code_is_used_if_the_user_has_signed_it(run, changes, tmp_path, capsys):
    config = configs.ppo().copy(**changes)
    directory = run(config)
    assert restore(directory) == config
    copied = shutil.copytree(directory, tmp_path / 'copied')
    ((key, _),) = changes.items()
    assert is_refused(copied, f'The setting {key!r} of {copied} names code (', 'copied')
    other = configs.ppo(env='Taxi-v3', env_kwargs={'x': 1})
    with pytest.raises(errors.ConfigError, match='yours is'):
        store.restore_config(other, copied)
    assert store.restore_config(config, copied) == config
    changed = store.restore_config(None, copied, [f'{key}={other[key]}'])
    assert changed[key] == other[key]
    assert store.restore_config(other, copied, unused=[key])
    assert not capsys.readouterr().err
    assert restore(copied, trusted=True) == config
    shown = capsys.readouterr().err
    assert shown.startswith(f'trust: {key} of {copied} is ')
    assert shown[:-1].isprintable()


def test_change_of_what_names_code_is_refused(run):
    directory = run(configs.ppo(env='antigravity:Env-v0', steps=7))
    path = directory / store.CONFIG_FILE
    text = path.read_text()
    path.write_text(text.replace('steps: 7', 'steps: 8'))
    assert restore(directory).steps == 8
    for old, new in {
        'antigravity:': 'this:',
        'env_kwargs: {}': 'env_kwargs: {a: "b:c"}',
        'callbacks: []': 'callbacks: [/a:b]',
        'network: feed_forward': 'network: <function a:b>',
        'functions: {}': "functions: {env: '<function this:s>'}",
    }.items():
        assert old in text
        path.write_text(text.replace(old, new))
        assert is_refused(directory, 'were copied, moved or edited since')
    path.write_text(text.replace('antigravity:Env-v0', r'"a\0.py:f"'))
    assert is_refused(directory, 'is not there any more')
    for signature in ('', 'é', '0' * 64, 5):
        values = plain_yaml.parse(text, '')
        values['code']['signature'] = signature
        path.write_text(plain_yaml.format_value(values))
        assert is_refused(directory)
    path.write_text(text)
    assert restore(directory).env == 'antigravity:Env-v0'


@pytest.mark.parametrize(
    'changes',
    [
        {'env': 'native:CartPole-v1'},
        {'env': 'ale_py:ALE/Pong-v5'},
        {'env': 'vector:ale_py:ALE/Pong-v5'},
        {'env_kwargs': {'map': '8x8', 'a': [1, 2.5], 'b': True, 'x': None}},
    ],
)
def test_what_names_no_code_needs_no_signature(run, state, changes):
    config = configs.ppo().copy(**changes)
    assert restore(run(config)) == config
    assert not state.exists()


def test_code_of_every_setting_is_known():
    """A new setting that takes texts has to say which of them are code."""
    free = {
        key
        for key, setting in trust.SETTINGS.items()
        if setting.kind.type in (str, dict) and not setting.kind.choices
    }
    data = {'begin_from', 'demonstrations', 'log_info'}
    for key in free - data:
        assert trust.names_code(key, 'a:b') and trust.names_code(key, ['a:b'])
    assert not any(trust.names_code(key, 'a:b') for key in data)
    assert all(trust.names_code(key, '<function a:b>') for key in ('x', *data))


def test_functions_are_found_again(run, file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    maze = lookup.find_in_file('maze.py', 'Maze')
    made = lookup.find_config('maze.py:made')()
    config = configs.ppo(env=maze, callbacks=['maze.py:log'])
    monkeypatch.chdir('/')
    assert restore(run(made)).env.keywords == {'size': 5}
    monkeypatch.chdir(tmp_path)
    directory = run(config)
    monkeypatch.chdir('/')
    restored = restore(directory)
    assert restored.env(size=4).size == 4
    assert restored.callbacks == [f'{file}:log']
    # In another process, of which the file is not there yet.
    monkeypatch.delitem(sys.modules, 'maze')
    monkeypatch.setattr(lookup, '_found', [])
    assert restore(directory).env(size=4).size == 4
    # Those of a config that the caller gives come first.
    mine = configs.ppo(env=make_env)
    assert store.restore_config(mine, directory).env is make_env
    file.unlink()
    gone = f'the file {file} is not there any more'
    assert is_refused(directory, gone, remedy='more. Pass --config or --env of')
    with pytest.raises(errors.ConfigError, match='more. Pass --config or --env'):
        restore(directory, trusted=True)


def test_class_of_this_process_is_found(run, tmp_path):
    class Line:
        pass

    directory = run(configs.ppo(env=Line))
    assert restore(directory).env is Line
    # As another process does, in which the class was never used.
    copied = shutil.copytree(directory, tmp_path / 'copied')
    with pytest.raises(errors.ConfigError, match='cannot be imported again'):
        restore(copied)
    path = directory / store.CONFIG_FILE
    path.write_text(path.read_text().replace('Line', 'Other'))
    with pytest.raises(errors.ConfigError, match='cannot be imported again'):
        restore(directory)


def resume(capsys, directory, *arguments):
    """Return the error of a command that goes on with a run, if any."""
    which = f'--logdir={directory.parent}', f'--name={directory.name}'
    train.main([*which, '--settings', *arguments])
    return capsys.readouterr().err


def test_run_goes_on_with_its_file_moved(run, file, capsys):
    directory = run(configs.ppo(env=lookup.find_in_file(file, 'Maze')))
    moved = shutil.copy(file, file.with_name('moved.py'))
    here = f'--env={moved}:Maze'
    differs = f'{directory} is a run with env=<function maze.Maze>, not env='
    assert differs in resume(capsys, directory, here)
    assert differs in resume(capsys, directory, f'--config={moved}:made')
    file.unlink()
    assert 'Pass --config or --env of your own' in resume(capsys, directory)
    assert resume(capsys, directory, here) == ''
    assert resume(capsys, directory, f'--config={moved}:made') == ''
    assert differs in resume(capsys, directory, '--env=CartPole-v1')


def test_run_of_a_script_goes_on_with_its_class_from_a_file(run, file, capsys):
    directory = run(configs.ppo(env=make_env))
    path = directory / store.CONFIG_FILE
    text = re.sub("'?<function [^>]*>'?", '<function __main__.Line>', path.read_text())
    path.write_text(text)
    here = f'--env={file}:Maze'
    assert 'cannot be imported again' in resume(capsys, directory)
    for arguments in ([here], [here, '--trust'], [f'--config={file}:made']):
        assert resume(capsys, directory, *arguments) == ''


def test_own_algorithm_needs_no_config(run, file):
    maze = lookup.find_in_file(str(file), 'Maze')
    config = configs.trpo(env='CartPole-v1', damping=0.5).copy(algorithm=maze)
    assert restore(run(config)) == config


def test_file_that_others_may_write_to_is_refused(run, file):
    maze = lookup.find_in_file(str(file), 'Maze')
    directory = run(configs.ppo(env=maze))
    assert restore(directory).env is maze
    for path, mode in ((file, 0o646), (file.parent, 0o1777)):
        before = path.stat().st_mode
        path.chmod(mode)
        assert is_refused(directory, f'other users may write to {file}')
        path.chmod(before)


def test_module_of_another_place_is_refused(run, tmp_path, monkeypatch):
    for place in ('mine', 'theirs'):
        (tmp_path / place).mkdir()
        (tmp_path / place / 'some_games.py').write_text('')
    directory = run(configs.ppo(env='some_games:Game-v0'))
    assert restore(directory)
    monkeypatch.syspath_prepend(str(tmp_path / 'mine'))
    assert is_refused(directory, 'the name leads to other code now')
    run(configs.ppo(env='some_games:Game-v0'))
    assert restore(directory)
    monkeypatch.syspath_prepend(str(tmp_path / 'theirs'))
    assert is_refused(directory, 'the name leads to other code now')
    assert 'some_games' not in sys.modules


def make_link(state):
    (state.parent / 'elsewhere').write_bytes(b'k' * trust.KEY_BYTES)
    (state / 'key').unlink()
    (state / 'key').symlink_to(state.parent / 'elsewhere')


KEYS = {
    'readable': lambda state: (state / 'key').chmod(0o640),
    'in a directory of others': lambda state: state.chmod(0o777),
    'link': make_link,
    'short': lambda state: (state / 'key').write_bytes(b'short'),
    'pipe': lambda state: ((state / 'key').unlink(), os.mkfifo(state / 'key', 0o600)),
}


@pytest.mark.parametrize('spoil', KEYS.values(), ids=KEYS)
def test_key_that_is_not_private_is_not_used(run, state, spoil, capsys):
    config = configs.ppo(env='antigravity:Env-v0')
    directory = run(config)
    assert oct(state.stat().st_mode)[-3:] == '700'
    assert oct((state / 'key').stat().st_mode)[-3:] == '600'
    assert os.listdir(state) == ['key']
    assert restore(directory) == config
    spoil(state)
    assert is_refused(directory, 'were not written by you on this machine')
    assert is_refused(run(config), 'were not written by you on this machine')
    error = capsys.readouterr().err
    assert error.count('\n') == 1 and 'cannot be used as a key' in error
    assert restore(directory, trusted=True) == config


def test_state_that_cannot_be_written_is_told_once(run, state, capsys):
    state.parent.write_text('This is a file.')
    config = configs.ppo(env='antigravity:Env-v0')
    assert run(config) == run(config)
    assert capsys.readouterr().err.count('\n') == 1
    assert is_refused(run(config), 'were not written by you on this machine')


def test_processes_that_begin_together_have_one_key(state):
    trust._make_key(state / 'key')
    before = (state / 'key').read_bytes()
    trust._make_key(state / 'key')
    assert (state / 'key').read_bytes() == before
    assert os.listdir(state) == ['key']
