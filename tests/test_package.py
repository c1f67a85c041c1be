"""What is installed: the wheel, and the sources that it is made of."""

import pathlib
import re
import shutil
import tarfile
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parent.parent
BUILD = """
import setuptools.build_meta as backend
print(backend.build_wheel('.'))
print(backend.build_sdist('.'))
"""


@pytest.fixture(scope='module')
def archives(tmp_path_factory, run_python):
    """Names and contents of the files of the wheel and of the sources."""
    place = tmp_path_factory.mktemp('package')
    for name in ('agents', 'tests', 'docs', 'benchmarks'):
        ignored = shutil.ignore_patterns('__pycache__')
        shutil.copytree(ROOT / name, place / name, ignore=ignored)
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, place)
    result = run_python('-c', BUILD, cwd=place)
    assert result.code == 0, result.problems
    [wheel], [sources] = place.glob('*.whl'), place.glob('*.tar.gz')
    with zipfile.ZipFile(wheel) as zipped:
        built = {name: zipped.read(name) for name in zipped.namelist()}
    with tarfile.open(sources) as tarred:
        files = [entry for entry in tarred if entry.isfile()]
        given = {entry.name.partition('/')[2]: tarred.extractfile(entry).read() for entry in files}
    return built, given


def _of_package():
    """Files that belong to the package."""
    return {
        path.relative_to(ROOT).as_posix(): path.read_bytes()
        for path in (ROOT / 'agents').rglob('*')
        if path.is_file() and '__pycache__' not in path.parts
    }


def test_wheel_holds_the_package_and_nothing_else(archives):
    wheel, _ = archives
    about = {name for name in wheel if '.dist-info/' in name}
    assert {n: wheel[n] for n in {*wheel} - about} == _of_package()
    assert 'agents/py.typed' in wheel
    assert [name for name in about if name.endswith('/LICENSE')]


def test_sources_hold_what_the_wheel_is_made_of(archives):
    _, sources = archives
    assert _of_package().items() <= sources.items()
    others = {name for name in sources if name.partition('/')[0] != 'agents'}
    assert {n for n in others if not n.startswith('agents.egg-info/')} == {
        'CHANGELOG.md',
        'LICENSE',
        'MANIFEST.in',
        'PKG-INFO',
        'README.md',
        'pyproject.toml',
        'setup.cfg',
        'setup.py',
    }


def test_description_leads_nowhere_that_is_not_there(archives):
    wheel, _ = archives
    [name] = [name for name in wheel if name.endswith('/METADATA')]
    text = wheel[name].decode()
    assert '\nVersion: ' in text and '\n# agents\n' in text
    links = re.findall(r'\]\(([^)]*)\)', text)
    assert links and all(link.startswith('https://') for link in links)
