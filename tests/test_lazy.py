"""Names that are imported when first used."""

import ast
import importlib
import pathlib
import sys

import pytest

import agents
from agents import algorithms, lazy, tools


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package that hands out its names lazily, not yet imported."""
    folder = tmp_path / 'lazily'
    folder.mkdir()
    names = {
        'thing': 'home',
        'home': 'home',
        'same': 'inner.same',
        'inside': 'inner.inside',
        'gone': 'home',
        'lost': 'nowhere',
    }
    (folder / '__init__.py').write_text(
        f'from agents import lazy\n__getattr__, __dir__ = lazy.exports(__name__, {names})\n'
    )
    (folder / 'inner').mkdir()
    (folder / 'inner' / 'same.py').write_text('same = 42\n')
    (folder / 'inner' / 'inside.py').write_text('')
    (folder / 'home.py').write_text('thing = object()\n')
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module('lazily')
    for name in [n for n in sys.modules if n.partition('.')[0] == 'lazily']:
        del sys.modules[name]


def test_module_is_imported_with_the_first_of_its_names(package):
    assert 'lazily.home' not in sys.modules
    thing = package.thing
    assert thing is sys.modules['lazily.home'].thing
    assert package.thing is thing
    assert 'thing' in vars(package)  # It is not looked for a second time.


def test_module_can_be_the_export_itself(package):
    assert package.home is sys.modules['lazily.home']
    assert package.inside is sys.modules['lazily.inner.inside']


def test_function_hides_the_module_of_its_name(package):
    assert package.same == 42


def test_names_that_do_not_exist(package):
    with pytest.raises(AttributeError, match="'lazily' has no name 'other'"):
        package.other  # noqa: B018
    assert not hasattr(package, 'other')
    with pytest.raises(AttributeError, match='gone'):
        package.gone  # noqa: B018
    with pytest.raises(ModuleNotFoundError, match='nowhere'):
        package.lost  # noqa: B018


def test_names_are_listed_before_they_are_imported(package):
    names = ['gone', 'home', 'inside', 'lost', 'same', 'thing']
    assert dir(package) == names
    assert 'lazily.home' not in sys.modules


def test_exports_makes_two_functions():
    find, names = lazy.exports('agents.tools', {'nested': 'nested'})
    assert find('nested') is tools.nested
    assert names() == ['nested']


@pytest.mark.parametrize('module', [agents, tools, algorithms])
def test_all_names_can_be_imported(module):
    for name in dir(module):
        assert getattr(module, name) is not None


@pytest.mark.parametrize('module', [agents, tools])
def test_checkers_of_types_see_the_same_names(module):
    """Those that they are told are imported from where they are at home."""
    tree = ast.parse(pathlib.Path(module.__file__).read_text())
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [n for n in blocks[0].body if isinstance(n, ast.ImportFrom)]
    told = {
        alias.asname: (statement.module, alias.name)
        for statement in imports
        for alias in statement.names
    }
    assert ast.unparse(blocks[0].test) == 'TYPE_CHECKING'
    assert sorted(told) == dir(module)
    for name, (home, original) in told.items():
        assert name == original  # Which checkers take for meant to be seen.
        value = getattr(importlib.import_module(home), name)
        assert value is getattr(module, name)
