"""Imports lead downwards, from commands to tools."""

import ast
import pathlib

ROOT = pathlib.Path(__file__).parent.parent / 'agents'

# From the top to the bottom; packages of a line do not import each other.
LAYERS = (
    ('scripts',),
    ('sweeps', 'exporting'),
    ('policies',),
    ('training',),
    ('algorithms', 'environments', 'analysis'),
    ('parts',),
    ('config', 'terminal'),
    ('tools',),
)
HEIGHT = {name: height for height, names in enumerate(reversed(LAYERS)) for name in names}


def imported(path):
    """The packages of `agents` that a module imports, anywhere within it."""
    package = path.relative_to(ROOT.parent).with_suffix('').parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: -node.level] if node.level else ()
            module = '.'.join([*base, *filter(None, [node.module])])
            modules = [f'{module}.{alias.name}' for alias in node.names]
        else:
            continue
        for module in modules:
            first, *rest = module.split('.')
            if first == 'agents' and rest and rest[0] in HEIGHT:
                yield rest[0]


def test_every_package_has_a_layer():
    packages = {path.parent.name for path in ROOT.glob('*/__init__.py')}
    assert packages == {*HEIGHT}


def test_imports_lead_downwards():
    wrong = [
        f'{path.relative_to(ROOT)} imports {package}'
        for path in sorted(ROOT.glob('*/**/*.py'))
        for package in imported(path)
        if (own := path.relative_to(ROOT).parts[0]) != package and HEIGHT[own] <= HEIGHT[package]
    ]
    assert not wrong, '\n'.join(wrong)
