"""Format, lint and types, as part of the one command that checks all."""

import ast
import os
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent


@pytest.mark.parametrize(
    'command',
    [['ruff', 'format', '--check', '--diff', '.'], ['ruff', 'check', '.'], ['mypy']],
    ids=['format', 'lint', 'types'],
)
def test_checks(run_python, command):
    if command == ['mypy'] and sys.version_info < (3, 11):
        pytest.skip('NumPy has no newer versions, whose types are meant, there')
    result = run_python('-m', *command, cwd=ROOT)
    assert not result.code, result.output + result.problems


@pytest.mark.slow
def test_users_may_be_strict(run_python):
    """As with the installed package, of which checkers report no errors."""
    result = run_python(
        *('-m', 'mypy', '--strict', '--config-file='),
        '--follow-imports=silent',
        f'--cache-dir={ROOT / ".mypy_cache" / "strict"}',
        'types_of_user.py',
        cwd=ROOT / 'tests',
        env={**os.environ, 'MYPYPATH': str(ROOT)},
    )
    assert not result.code, result.output + result.problems


# A docstring begins with a verb or a noun.
RIDDLES = {
    'All', 'As', 'How', 'It', 'No', 'Not', 'Of', 'So', 'That', 'The same', 'These', 'This', 'Those',
    'What', 'Where', 'Whether', 'Which', 'Who',
}  # fmt: skip


def list_docstrings(file):
    """The docstrings of a file, by the names of what they describe."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            yield getattr(node, 'name', file.stem), ast.get_docstring(node) or ''


def test_docstrings_begin_with_a_verb_or_a_noun():
    pattern = re.compile(rf'({"|".join(sorted(RIDDLES))})\b')
    found = [
        f'{file.relative_to(ROOT)}: {name}'
        for file in sorted((ROOT / 'agents').rglob('*.py'))
        for name, text in list_docstrings(file)
        if pattern.match(text)
    ]
    assert not found


def test_maps_of_packages_have_every_module():
    lacking = []
    for name in ('config', 'training', 'policies', 'analysis', 'sweeps'):
        package = ROOT / 'agents' / name
        words = re.findall(r'\w+', (package / '__init__.py').read_text())
        modules = {file.stem for file in package.glob('*.py')}
        lacking += sorted(modules - {'__init__', *words})
    assert not lacking
