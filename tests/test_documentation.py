"""What the documents show works as it stands there, and what they name exists.

Blocks are run page by page, in order, in an empty directory. Blocks of Python
are executed, but those whose first line is `# name.py` are written to that
file, and those marked `<!-- from: file -->` have to be a part of it. Commands
are called in this process. A training that is given a name is run, but with the
settings of `TINY` and nothing compiled; others are only prepared, by
`--settings`, which finds and checks all settings. Sweeps, which train in other
processes, are only parsed. What needs another machine, other packages or hours
is marked `<!-- not run: why -->`; its commands are prepared or parsed all the
same.
"""

import ast
import functools
import importlib
import importlib.util
import pathlib
import re
import shlex
import shutil
import sys
import textwrap
from typing import NamedTuple

import pytest
import ruamel.yaml

from agents.config import checks, plain_yaml
from agents.config.settings import SETTINGS
from agents.exporting import export_check
from agents.scripts import configs
from agents.training import session

ROOT = pathlib.Path(__file__).parent.parent
DOCS = ROOT / 'docs'
PAGES = [ROOT / 'README.md', *sorted(DOCS.glob('*.md'))]

# What becomes of the settings of a training, of those that it has.
TINY = {
    'max_length': 3,
    'num_agents': 2,
    'steps': 4,
    'update_every': 2,
    'update_epochs': 1,
    'batch_size': 4,
    'value_epochs': 1,
    'value_batch_size': 4,
    'conjugate_steps': 1,
    'search_steps': 1,
    'fisher_every': 1,
    'discriminator_steps': 1,
    'discriminator_batch': 4,
    'clone_steps': 1,
    'clone_batch_size': 4,
    'eval_every': 4,
    'eval_episodes': 1,
}

# Commands of others, which are not run.
OTHERS = {
    '.',
    'apt',
    'cd',
    'curl',
    'docker',
    'git',
    'make',
    'mkdocs',
    'mpiexec',
    'pip',
    'python',
    'sbatch',
    'tensorboard',
}

FENCE = re.compile(
    r'^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$', re.MULTILINE | re.DOTALL
)
MARK = re.compile(r'<!-- (not run|from): (.+) -->\s*\Z')
LINK = re.compile(r'\[[^\]]*\]\(([^)\s]+)\)')
HEADING = re.compile(r'^#+ (.+)$', re.MULTILINE)
COMMENT = re.compile(r'<!--.*?-->', re.DOTALL)
TEST = re.compile(r'(tests/[\w/]+\.py)::(\w+)')
PATH = re.compile(r'`((?:agents|benchmarks|docs|examples|tests)/[\w/]+(?:\.\w+)?)')
SET = re.compile(r'`(\w+)=([^`]+)`')


class Block(NamedTuple):
    """A block of code: its language, its text, and the mark before it."""

    language: str
    text: str
    mark: str
    value: str

    @property
    def file(self):
        """Name of the file that it is, by its first line."""
        found = re.match(r'# (\w+\.py)\n', self.text)
        return found and found[1]


def read_blocks(page):
    text = page.read_text()
    for found in FENCE.finditer(text):
        mark = MARK.search(text[: found.start()])
        code = textwrap.dedent(found['text'])
        kind, value = mark.groups() if mark else ('', '')
        yield Block(found['language'], code, kind, value)


def read_commands(block):
    """The commands of a block of shell, each as its words."""
    text = block.text.replace('\\\n', ' ').replace('$SLURM_JOB_ID', '1')
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        while '&&' in words:
            end = words.index('&&')
            yield words[:end]
            words = words[end + 1 :]
        if words:
            yield words


def read_prose(page):
    """A page without its blocks of code and comments."""
    return COMMENT.sub('', FENCE.sub('', page.read_text()))


def name(page):
    return page.stem


def slow(page):
    """The page as a case that only the slow tests have."""
    return pytest.param(page, marks=pytest.mark.slow)


@pytest.fixture
def workshop(tmp_path, monkeypatch, eagerly):
    """An empty directory, where trainings are short."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for directory in ('examples', 'zoo'):
        shutil.copytree(ROOT / directory, tmp_path / directory)
    original = session.Session.__init__

    def shorten(self, config, *others, **options):
        tiny = {key: value for key, value in TINY.items() if key in config}
        original(self, config.copy(**tiny), *others, **options)

    monkeypatch.setattr(session.Session, '__init__', shorten)
    # Steps that an export is compared over.
    monkeypatch.setattr(export_check, 'STEPS', 10)
    before = {*sys.modules}
    yield tmp_path
    for module in {*sys.modules} - before:
        file = getattr(sys.modules[module], '__file__', None)
        if file and pathlib.Path(file).is_relative_to(tmp_path):
            del sys.modules[module]


@pytest.mark.parametrize('page', [PAGES[0], *map(slow, PAGES[1:])], ids=name)
def test_blocks_run(page, workshop):
    namespace = {'__name__': 'page'}
    for block in read_blocks(page):
        if block.mark == 'from':
            assert is_part(block.text, (ROOT / block.value).read_text())
        elif block.language == 'sh':
            for words in read_commands(block):
                run_command(words, block.mark == 'not run')
        elif block.language == 'python':
            if block.file:
                (workshop / block.file).write_text(block.text)
            code = compile(textwrap.dedent(block.text), page.name, 'exec')
            if block.mark != 'not run':
                exec(code, namespace)


def test_links_lead_somewhere():
    targets = [(p, t) for p in PAGES for t in LINK.findall(read_prose(p))]
    assert len(targets) > 100
    assert [each for each in targets if not leads_somewhere(*each)] == []


def leads_somewhere(page, target):
    if re.match(r'\w+:', target):  # Elsewhere.
        return True
    file, _, anchor = target.partition('#')
    path = (page.parent / file).resolve() if file else page
    return path.exists() and (not anchor or anchor in read_anchors(path))


def test_tests_and_files_that_are_named_exist():
    text = '\n'.join(page.read_text() for page in PAGES)
    tests, paths = set(TEST.findall(text)), set(PATH.findall(text))
    assert len(tests) > 50
    absent = [each for each in tests if each[1] not in read_functions(each[0])]
    assert absent + [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize('page', PAGES, ids=name)
def test_settings_that_are_named_may_have_these_values(page):
    for key, text in SET.findall(read_prose(page)):
        kind = SETTINGS[key].kind if key in SETTINGS else None
        if kind and not text.isupper() and kind.type is not dict:
            value = plain_yaml.parse(text, key)
            # What a page calls a function is none here.
            if 'function' not in kind.describe() or value in kind.choices:
                checks.convert_value(key, value)


def test_configs_that_are_named_exist():
    text = '\n'.join(page.read_text() for page in PAGES)
    for each in set(re.findall(r'\bconfigs\.(\w+)\(', text)):
        assert hasattr(configs, each), each


def test_every_page_is_in_the_site():
    site = ruamel.yaml.YAML(typ='safe').load(ROOT / 'mkdocs.yml')
    named = set(re.findall(r"'([\w/]+\.md)'", str(site['nav'])))
    assert named == {page.name for page in DOCS.glob('*.md')}


def test_messages_are_those_of_the_code():
    titles = re.findall(r'^#### `(.+)`$', (DOCS / 'messages.md').read_text(), re.M)
    assert len(titles) >= 30
    texts = [text for file in (ROOT / 'agents').rglob('*.py') for text in read_texts(file)]
    for title in titles:
        parts = map(re.escape, filter(None, title.split('…')))
        pattern = re.compile('.*'.join(parts), re.DOTALL)
        assert any(map(pattern.search, texts)), title


def test_every_complaint_is_answered():
    text = (DOCS / 'complaints.md').read_text()
    rows = re.findall(r'^\| (\d+) \|.*\| (.+) \|$', text, re.MULTILINE)
    numbers = [int(number) for number, _ in rows]
    assert numbers == [*range(1, 36), *range(1, 14)]
    for number, answer in rows:
        assert TEST.search(answer) or LINK.search(answer), number


def run_command(words, only_prepare):
    """Call a command of ours, or see that a command could be called."""
    own = find_own(words)
    if own is None:
        require_other(words)
        return
    command, arguments = own
    named = any(re.match('--name($|=)', word) for word in arguments)
    only_prepare |= command == 'sweep'
    if command == 'train' and (only_prepare or not named):
        arguments = [*arguments, '--settings']
    module = find_module(command)
    if only_prepare and command != 'train':
        module._parse(arguments)
    else:
        assert module.main(arguments) == 0, shlex.join(words)


def find_own(words):
    """The command of ours that words call, and its arguments."""
    if '--wrap' in words:  # What a job of Slurm runs.
        words = shlex.split(words[-1])
    if words[0] == 'mpiexec' and 'agents' in words:
        words = words[words.index('agents') :]
    if words[0] == 'agents':
        return words[1], words[2:]
    for index, word in enumerate(words):
        if word.startswith('agents.scripts.') and words[index - 1] == '-m':
            return word.rpartition('.')[2], words[index + 1 :]
    return None


def find_module(command):
    home = {'configs': 'config_list'}.get(command, command)
    return importlib.import_module(f'agents.scripts.{home}')


def require_other(words):
    """See that a command of others names what there is."""
    command, *arguments = words
    assert command in OTHERS, shlex.join(words)
    if command == 'pip':
        extras = re.findall(r"'(\w+)': ", (ROOT / 'setup.py').read_text())
        for each in re.findall(r'\.\[([\w,]+)\]', words[-1]):
            assert {*each.split(',')} <= {*extras}, each
    if arguments[:1] == ['-m']:
        assert importlib.util.find_spec(arguments[1]), shlex.join(words)
        arguments = arguments[2:]
    for each in arguments:
        if re.search(r'\.(py|yml|toml)$', each):
            assert (ROOT / each).exists(), each


def read_anchors(page):
    """The anchors of the headings of a page, as its site names them."""
    anchors = set()
    for title in HEADING.findall(FENCE.sub('', page.read_text())):
        plain = re.sub(r'\[([^\]]*)\]\([^)]*\)', r'\1', title)
        words = re.sub(r'[^\w\s-]', '', plain.lower()).strip()
        anchors.add(re.sub(r'[-\s]+', '-', words))
    return anchors


@functools.cache
def read_functions(file):
    """Names of the functions of a file of tests."""
    text = (ROOT / file).read_text()
    return set(re.findall(r'^def (\w+)\(', text, re.MULTILINE))


def read_texts(file):
    """The texts of a file of Python; … is where something is filled in."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.JoinedStr):
            parts = [getattr(part, 'value', '…') for part in node.values]
            yield ''.join(x if isinstance(x, str) else '…' for x in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def is_part(some, text):
    """Whether some lines follow each other in a text, however indented."""
    lines, others = [[line.strip() for line in each.splitlines()] for each in (some, text)]
    ends = range(len(lines), len(others) + 1)
    return any(others[end - len(lines) : end] == lines for end in ends)
