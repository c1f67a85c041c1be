"""Options that are taken as they are written, or refused with the nearest."""

import pytest

from agents.scripts import export, options, plot, sweep, train


@pytest.fixture
def refused(capsys):
    """A function that parses by mistake and returns what that prints."""
    parser = options.Parser('run', 'Runs.')
    parser.add_set()
    parser.add_argument('--config')
    parser.add_env_processes()

    def parse(*arguments):
        with pytest.raises(SystemExit) as info:
            parser.parse(arguments)
        assert info.value.code == 2
        return capsys.readouterr().err.splitlines()[-1]

    return parse


@pytest.mark.parametrize(
    'arguments, message',
    [
        (['--conf=x'], '--conf=x; did you mean --config?'),
        (['--config='], 'argument --config must not be empty'),
        (['--env_process'], '; did you mean --env_processes?'),
        (['--env=A-v0'], '--env=A-v0; it is a setting: --set env=A-v0'),
        (['--env', 'A-v0'], '; it is a setting: --set env=A-v0'),
        (['--steps'], '--steps; it is a setting: --set steps=VALUE'),
        (['--lr', '3e-4'], '; did you mean --set learning_rate=3e-4?'),
        (['--ent-coef=0.01'], '; did you mean --set entropy_bonus=0.01?'),
        (['--batch-size=64'], '; it is a setting: --set batch_size=64'),
        (['--learnign_rate=1'], '; did you mean --set learning_rate=1?'),
        (['--zzz'], 'unrecognized arguments: --zzz'),
        (['zzz'], 'unrecognized arguments: zzz'),
    ],
)
def test_unknown_option_is_refused_with_what_was_meant(refused, arguments, message):
    assert refused(*arguments).endswith(message)


def test_synonyms_are_of_settings():
    assert {*options.SYNONYMS.values()} <= {*options.SETTINGS}
    assert not {*options.SYNONYMS} & {*options.SETTINGS}


def test_environments_may_have_processes_or_not():
    parser = options.Parser('run', 'Runs.')
    parser.add_env_processes()
    assert parser.parse([]).env_processes is None
    assert parser.parse(['--env_processes']).env_processes is True
    assert parser.parse(['--noenv_processes']).env_processes is False


@pytest.mark.parametrize(
    'command, arguments',
    [
        (train, ['--config=debug']),
        (sweep, ['--config=debug']),
        (export, ['--logdir=x', '--outfile=y.npz']),
        (plot, ['x']),
    ],
    ids=['train', 'sweep', 'export', 'plot'],
)
def test_removed_working_directory_is_one_error(command, arguments, tmp_path, monkeypatch, capsys):
    (tmp_path / 'gone').mkdir()
    monkeypatch.chdir(tmp_path / 'gone')
    (tmp_path / 'gone').rmdir()
    with pytest.raises(SystemExit) as info:
        command.main(arguments)
    assert info.value.code == 1
    assert 'The working directory must exist' in capsys.readouterr().err
