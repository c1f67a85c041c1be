"""The command `agents`: what it lists, starts and refuses."""

import pytest

import agents
from agents.config import lookup
from agents.scripts import command, config_list, configs

MODULES = {
    name: module for group in command.COMMANDS.values() for name, (module, _) in group.items()
}


@pytest.fixture
def called(monkeypatch):
    """What commands were called with, instead of calling them."""
    calls = []

    def find(name):
        class Module:
            @staticmethod
            def main(arguments):
                calls.append((name, arguments))
                return 7

        return Module

    monkeypatch.setattr(command.importlib, 'import_module', find)
    return calls


@pytest.mark.parametrize('name, module', MODULES.items())
def test_command_is_called_with_its_arguments(called, name, module):
    assert command.main([name, '--logdir=x', '--version', '--help']) == 7
    rest = ['--logdir=x', '--version', '--help']
    assert called == [(f'agents.scripts.{module}', rest)]


@pytest.mark.parametrize('arguments', [[], ['--help'], ['-h']])
def test_help_lists_the_commands_and_exit_codes(capsys, arguments):
    try:
        code = command.main(arguments)
    except SystemExit as exit:  # As the parser of options ends.
        code = exit.code
    assert code == 0
    output = capsys.readouterr().out
    assert output.startswith('usage: agents COMMAND [options]\n')
    for name in MODULES:
        assert f'\n  {name:<11}' in output
    positions = [output.index(f'\n{title}:') for title in command.COMMANDS]
    assert positions == sorted(positions)
    assert '128+N' in output and max(map(len, output.splitlines())) <= 80


def test_commands_are_functions_of_the_package():
    assert all(hasattr(agents, name) for name in MODULES)
    assert agents.visualize.__module__ == 'agents.policies.video'
    assert agents.record.__module__ == 'agents.policies.recording'


def test_version(capsys):
    with pytest.raises(SystemExit) as info:
        command.main(['--version'])
    assert info.value.code == 0
    assert capsys.readouterr().out == f'agents {agents.__version__}\n'


@pytest.mark.parametrize(
    'arguments, message',
    [
        (['trian'], "there is no command 'trian'; did you mean 'train'?"),
        (['--vresion'], 'unrecognized arguments: --vresion; did you mean'),
    ],
)
def test_mistake_names_the_nearest(capsys, arguments, message):
    with pytest.raises(SystemExit) as info:
        command.main(arguments)
    assert info.value.code == 2
    assert message in capsys.readouterr().err


def test_help_and_list_of_configs_need_nothing_that_takes_long(run_python):
    slow = 'tensorflow', 'keras', 'gymnasium', 'numpy', 'matplotlib', 'rich'
    program = (
        'import sys; from agents.scripts import command; '
        "command.main(['configs']); command.main([]); "
        f'print([name for name in {slow} if name in sys.modules])'
    )
    _, output, problems = run_python('-c', program)
    assert output.splitlines()[-1] == '[]' and not problems


def test_module_is_the_command(run_python):
    code, output, problems = run_python('-m', 'agents', 'configs', 'debgu')
    assert (code, output) == (1, '')
    assert "no config 'debgu'; did you mean 'debug'?" in problems


def test_configs_are_listed_by_environment(capsys):
    assert config_list.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    env, places = '', {}
    for line in lines[: lines.index('')]:
        if not line.startswith(' '):
            env = line
            assert env not in places.values()  # Each stands once.
            continue
        name, algorithm, steps, *_ = line.split()
        config = getattr(configs, name)()
        assert (config.env, f'{config.steps:,}') == (env, steps)
        assert configs.algorithm_of(config) == algorithm
        places[name] = env
    assert set(places) == set(lookup.list_configs())
    debug = next(line for line in lines if line.startswith('  debug '))
    assert debug.endswith('  Runs in seconds, to see whether everything works.')


def test_list_of_configs_fits_the_terminal():
    for width in (72, 80):
        lines = [*config_list.list_lines(width)]
        assert max(map(len, lines)) <= width
        assert '    Runs in seconds' in '\n'.join(lines)


def test_names_of_configs_alone(capsys):
    assert config_list.main(['--quiet']) == 0
    assert capsys.readouterr().out.split() == lookup.list_configs()


def test_settings_of_a_config_are_printed(capsys):
    assert config_list.main(['debug', '--set=seed=5']) == 0
    output = capsys.readouterr().out
    assert '* num_agents              4  ' in output
    assert '* seed                    5  ' in output
    assert config_list.main(['debug', '--set=sed=5']) == 1
    assert "did you mean 'seed'" in capsys.readouterr().err
