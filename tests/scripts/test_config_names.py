"""Configs that are found by name, and mistakes that are told."""

import textwrap

import pytest

from agents.algorithms import ALGORITHMS
from agents.config import lookup
from agents.scripts import configs
from agents.tools import errors


@pytest.fixture
def file(tmp_path):
    """A function that makes a file of configs, as the text to name it by."""

    def write(text, function='mine'):
        path = tmp_path / 'experiment.py'
        path.write_text(textwrap.dedent(text))
        return f'{path}:{function}'

    return write


def test_config_is_found_by_name():
    assert lookup.find_config('pendulum') is configs.pendulum


def test_config_names_are_experiments_alone():
    names = lookup.list_configs()
    assert {'debug', 'pendulum', 'cheetah'} <= set(names)
    assert not {'default', 'mujoco', 'Any', *ALGORITHMS} & set(names)


def test_unknown_config_suggests_nearest_and_tells_where_all_are():
    with pytest.raises(errors.ConfigError) as info:
        lookup.find_config('pendulm')
    message = str(info.value)
    assert "no config 'pendulm'; did you mean 'pendulum'? " in message
    assert '`agents configs` lists' in message


@pytest.mark.parametrize('name', ['default', 'ppo', 'mujoco', 'Any', '_define'])
def test_helpers_are_no_configs(name):
    with pytest.raises(errors.ConfigError, match='There is no config'):
        lookup.find_config(name)


def test_config_is_found_in_file_with_what_is_beside_it(file, tmp_path):
    (tmp_path / 'beside_the_experiment.py').write_text('STEPS = 123')
    name = file("""
        import beside_the_experiment
        from agents.scripts import configs

        def mine():
            return configs.ppo(steps=beside_the_experiment.STEPS)
    """)
    assert lookup.find_config(name)().steps == 123


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
        lookup.find_config(file(text))()
    assert '\n' not in str(info.value)


def test_mistyped_setting_in_file_suggests_nearest(file):
    name = file("""
        from agents.scripts import configs

        def mine():
            return configs.ppo(stpes=5)
    """)
    with pytest.raises(errors.ConfigError, match="did you mean 'steps'"):
        lookup.find_config(name)()


@pytest.mark.parametrize('name', ['missing.py:mine', 'debug:'])
def test_missing_file_is_named(name):
    file = name.partition(':')[0]
    with pytest.raises(errors.ConfigError, match=f'There is no file {file!r}'):
        lookup.find_config(name)


def test_file_that_is_not_python_is_refused(tmp_path):
    (tmp_path / 'notes.txt').write_text('')
    for path in (tmp_path, tmp_path / 'notes.txt'):
        with pytest.raises(errors.ConfigError, match='is not a Python file'):
            lookup.find_config(f'{path}:mine')
