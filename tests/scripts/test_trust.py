"""Values of a file that may be a stranger's: none leads to code."""

import shlex
import subprocess

import pytest

from agents.scripts import config_file, configs, plain_yaml
from agents.tools import errors


@pytest.fixture
def config():
    return configs.ppo()


def make_env():
    return None


@pytest.mark.parametrize(
    'changes', [{'env': make_env}, {'env_kwargs': {'inner': [make_env]}}]
)
def test_functions_cannot_be_used_from_a_file(tmp_path, config, changes):
    config_file.save_config(config.copy(**changes), tmp_path)
    (key,) = changes
    for given in (config, None):
        with pytest.raises(errors.ConfigError) as info:
            config_file.restore_config(given, tmp_path)
        message = str(info.value)
        assert f'The setting {key!r} of {tmp_path} is ' in message
        assert 'cannot be trusted' in message and '--config=file' in message
        rest = config_file.restore_config(given, tmp_path, unused=[key])
        assert rest == config


def advised_change(message):
    """The `key=value` that a message says to give, as a shell takes it."""
    option, change = shlex.split(message[message.index('--set') :])
    assert option == '--set'
    return change


CODE = {
    'module': {'env': 'antigravity:Env-v0'},
    'module of a native one': {'env': 'native:antigravity:Env-v0'},
    'module of a vector': {'env': 'vector:antigravity:Env-v0'},
    'module of another prefix': {'env': 'native:vector:Env-v0'},
    'module of an argument': {'env_kwargs': {'inner': ['antigravity:Env-v0']}},
    'path of an argument': {'env_kwargs': {'xml_file': './model.xml'}},
    'dotted argument': {'env_kwargs': {'wrapper': 'antigravity.Wrapper'}},
    'long argument': {'env_kwargs': {'file': 'a long name ' * 20}},
}


@pytest.mark.parametrize('changes', CODE.values(), ids=CODE)
def test_code_is_not_used_on_the_word_of_a_file(tmp_path, config, changes):
    config_file.save_config(config.copy(**changes), tmp_path)
    ((key, value),) = changes.items()
    for given in (config, None, config.copy(env=make_env)):
        with pytest.raises(errors.ConfigError) as info:
            config_file.restore_config(given, tmp_path)
        message = str(info.value)
        own = plain_yaml.simplify((given or config)[key])
        assert f'The setting {key!r} of {tmp_path} is {value!r}' in message
        assert (f'; yours is {own!r}. ' in message) == (given is not None)
        # What the message says to do is what helps.
        change = advised_change(message)
        restored = config_file.restore_config(given, tmp_path, [change])
        assert restored[key] == value
        unused = config_file.restore_config(given, tmp_path, unused=[key])
        assert unused[key] == (given or config)[key]
    same = config.copy(**changes)
    assert config_file.restore_config(same, tmp_path) == same


HOSTILE = [
    "ale_py:ALE/Pong-v5'; touch PWNED; echo '",
    'a:b" `touch PWNED` "',
    'a:$(touch PWNED)',
    'a:b\ntouch PWNED\n',
    'a:b\r\x1b[2K\u202e\x00\u2028 \\\'"&|;<>!*',
    'ü:\U0001f600',
]


@pytest.mark.parametrize('text', HOSTILE, ids=ascii)
@pytest.mark.parametrize('key', ['env', 'env_kwargs'])
def test_what_is_advised_can_be_pasted_into_a_shell(
    tmp_path, config, key, text, monkeypatch
):
    value = text if key == 'env' else {text: [text, 1.5]}
    config_file.save_config(config.copy(**{key: value}), tmp_path)
    with pytest.raises(errors.ConfigError) as info:
        config_file.restore_config(config, tmp_path)
    message = str(info.value)
    assert message.isprintable()
    change = advised_change(message)
    restored = config_file.restore_config(config, tmp_path, [change])
    assert restored[key] == value
    pasted = f'printf "%s\\n" {message[message.index("--set") :]}'
    monkeypatch.chdir(tmp_path)
    output = subprocess.check_output(['sh', '-c', pasted], text=True)
    assert output == f'--set\n{change}\n'
    assert not (tmp_path / 'PWNED').exists()


def test_arguments_that_are_numbers_and_words_are_used_from_a_file(
    tmp_path, config
):
    kwargs = {'map_name': '8x8', 'size': [1, 2.5], 'slippery': True, 'x': None}
    config_file.save_config(config.copy(env_kwargs=kwargs), tmp_path)
    assert config_file.restore_config(None, tmp_path).env_kwargs == kwargs


def test_native_environment_is_used_from_a_file(tmp_path, config):
    config_file.save_config(config.copy(env='native:CartPole-v1'), tmp_path)
    restored = config_file.restore_config(None, tmp_path)
    assert restored.env == 'native:CartPole-v1'
