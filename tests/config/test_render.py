"""Lists of settings: whole, aligned, and the page as the table has it."""

import os
import pathlib
import re

import numpy as np
import pytest

from agents.config import overrides, store
from agents.config.lookup import list_configs
from agents.config.render import LEGEND, format_columns, format_page, format_value
from agents.config.settings import ALGORITHM_GROUPS
from agents.scripts import configs, train
from agents.tools.attr_dict import AttrDict

CONFIGS = {name: getattr(configs, name)() for name in list_configs()}

PAGE = pathlib.Path(__file__).parents[2] / 'docs' / 'settings.md'


def make_maze():
    return None


def parse_columns(text):
    """The marks and values of the settings by name, of one line each."""
    rows = re.findall(r'^([ *]) (\w+) +(\S+|\[.*?\]|\{.*?\})(?:  .*)?$', text, re.M)
    return {name: (mark, value) for mark, name, value in rows}


def test_setting_is_one_line_where_there_is_no_terminal():
    lines = format_columns(configs.cheetah()).splitlines()
    assert (
        '* num_agents              32            Number of environments '
        'that step in parallel (environments, default 8)'
    ) in lines
    assert (
        '  worker_timeout          60.0          Timeout of a request to a worker (seconds)'
    ) in lines
    assert lines[-1] == LEGEND


def test_every_setting_is_listed_and_what_differs_is_marked(subtests):
    for name, config in CONFIGS.items():
        with subtests.test(name):
            defaults = getattr(configs, config.algorithm)()
            listed = parse_columns(format_columns(config))
            assert set(listed) == set(config)
            for key, (mark, value) in listed.items():
                assert value == format_value(config[key])
                assert (mark == '*') == (config[key] != defaults[key])


def test_columns_fit_the_terminal(subtests):
    for name, config in CONFIGS.items():
        words = format_columns(config).split()
        for width in (80, 100, 120, 250):
            with subtests.test(name, width=width):
                lines = format_columns(config, width).splitlines()
                assert max(map(len, lines)) <= width
                for line in lines:
                    if re.match('[ *] ', line) and line != LEGEND[: len(line)]:
                        # Name, value and meaning begin as in every line.
                        assert line[24:26].isspace() or line[:26].isspace()
                # Nothing is lost but the ends of lines.
                assert '\n'.join(lines).split() == words


def test_terminal_that_is_too_narrow_breaks_no_words():
    words = format_columns(configs.ppo(), 20).split()
    assert words == format_columns(configs.ppo()).split()


def test_long_value_has_a_line_of_its_own():
    lines = format_columns(configs.cartpole_native(), 80).splitlines()
    (row,) = (n for n, line in enumerate(lines) if ' env ' in line)
    assert lines[row].endswith('native:CartPole-v1')
    assert lines[row + 1].strip().startswith('Environment by Id')


@pytest.mark.parametrize('width', [None, 80])
def test_values_that_are_not_plain(width):
    config = AttrDict(
        configs.ppo(
            env=make_maze,
            env_kwargs={'size': 9, 'inner': {'goal': len}},
            policy_layers=(64, 64),
            learning_rate=np.float32(0.1),
            num_agents=np.int64(8),
            init_std=1,
        ),
        mine=3,
    )
    text = format_columns(config, width)
    assert re.search(r'^\* env +<function .*\.make_maze>', text, re.M)
    assert '{size: 9, inner: {goal: <function builtins.len>}}' in text
    assert re.search(r'^\* learning_rate +0\.1 ', text, re.M)
    # As by default, whatever their type.
    assert re.search(r'^  policy_layers +\[64, 64\] ', text, re.M)
    assert re.search(r'^  num_agents +8 ', text, re.M)
    assert re.search(r'^  init_std +1 ', text, re.M)
    assert re.search(r'^Your own\n  mine +3$', text, re.M)


def test_values_are_such_as_the_command_line_takes(subtests):
    for name, config in CONFIGS.items():
        with subtests.test(name):
            base = getattr(configs, config.algorithm)()
            texts = [f'{key}={format_value(config[key])}' for key in config]
            assert overrides.apply(base, texts) == config


def test_page_is_that_of_the_table():
    assert PAGE.read_text() == format_page(), (
        'docs/settings.md is out of date; renew it by\n'
        'python -m agents.config.render > docs/settings.md'
    )


def test_page_has_every_setting_once_in_its_place():
    sections = format_page().split('\n## ')
    titles = [section.partition('\n')[0] for section in sections]
    ppo, reinforce = [
        sections[titles.index(ALGORITHM_GROUPS[name].title)] for name in ('ppo', 'reinforce')
    ]
    assert '`configs.ppo()`.' in ppo
    assert 'where `gae_lambda` is 0.97 by default' in reinforce
    acktr = sections[titles.index(ALGORITHM_GROUPS['acktr'].title)]
    assert '| `damping` | `0.01` |' in acktr
    row = '| `batch_size` | `64` | rows | Minibatch size | a whole number'
    assert ppo.count(row) == 1
    assert format_page().count('`num_agents`') == 1


def test_page_is_written_by_the_command(run_python):
    written = run_python('-m', 'agents.config.render')
    assert written == (0, format_page(), '')


def test_command_prints_settings_and_starts_nothing(tmp_path, run_python):
    code = (
        'import subprocess, sys\n'
        'from agents.scripts.train import main\n'
        'def refuse(*_, **__): raise AssertionError("It starts a process.")\n'
        'subprocess.Popen.__init__ = refuse\n'
        'assert main(sys.argv[1:]) == 0\n'
        'assert "tensorflow" not in sys.modules\n'
    )
    changes = ['--config=cheetah', '--settings', '--seed=3', '--set=steps=9']
    printed = run_python('-c', code, *changes, cwd=tmp_path)
    config = configs.cheetah().copy(seed=3, steps=9)
    assert printed == (0, f'{format_columns(config)}\n', '')
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize('mistake', ['--set=steps=0', '--set=batch_size=33'])
def test_command_refuses_settings_that_cannot_be(mistake, capsys):
    assert train.main(['--config=debug', '--settings', mistake]) == 1
    printed = capsys.readouterr()
    assert printed.out == '' and printed.err.startswith('error: ')


def test_command_prints_settings_of_a_run_that_is_named(tmp_path, capsys):
    directory = tmp_path / 'now-debug'
    directory.mkdir()
    store.save_config(configs.debug().copy(discount=0.5), directory)
    command = ['--config=debug', f'--logdir={tmp_path}', '--settings']
    for timestamp, expected in (('now', '0.5'), ('then', '0.99')):
        assert train.main([*command, f'--timestamp={timestamp}']) == 0
        listed = parse_columns(capsys.readouterr().out)
        assert listed['discount'][1] == expected
    assert [path.name for path in tmp_path.iterdir()] == ['now-debug']


def test_command_ends_silently_where_nobody_reads_on(run_python):
    command = ['-m', 'agents.scripts.train', '--config=debug', '--settings']
    reader, writer = os.pipe()
    os.close(reader)
    assert run_python(*command, stdout=writer) == (0, None, '')
    os.close(writer)
