"""Run directories from strangers: no code runs, no file elsewhere is touched.

Each is opened as a user would: resumed, filmed and loaded, from inside the
directory and from outside.
"""

import os
import pathlib
import re
import resource
import shutil
import sys

import gymnasium as gym
import pytest

import agents
from agents.config import store
from agents.scripts import train, visualize
from agents.tools import errors
from agents.tools.workers import wire
from agents.training import storage

EVIL = """
import pathlib
pathlib.Path({touched!r}).touch()
import gymnasium
gymnasium.register('X-v0', 'gymnasium.envs.classic_control:CartPoleEnv')
"""

# Modules of one name in other tests would be taken for this one.
GAMES = """
import gymnasium
gymnasium.register('Strange-v0', 'gymnasium.envs.classic_control:CartPoleEnv')
"""


@pytest.fixture
def run(debug_run, tmp_path):
    """A copy of a run in the directory of all runs, to be changed."""
    directory = tmp_path / 'logdir' / 'now-debug'
    return shutil.copytree(debug_run.directory, directory)


@pytest.fixture
def touched(tmp_path):
    """What the code of a stranger would make."""
    file = tmp_path / 'touched'
    yield file
    assert not file.exists()


def replace(run, old, new):
    file = run / store.CONFIG_FILE
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def plant(run, touched, env, **kwargs):
    """Let a run ask for code that is in its directory."""
    (run / 'evil.py').write_text(EVIL.format(touched=str(touched)))
    replace(run, 'env: CartPole-v1', f"env: '{env}'")
    if kwargs:
        replace(run, 'env_kwargs: {}', f'env_kwargs: {kwargs}')


@pytest.fixture(params=['outside', 'inside'])
def place(request, run, touched, monkeypatch):
    """Where commands are started, with the code of a stranger in reach."""
    inside = request.param == 'inside'
    module = 'evil' if inside else 'logdir.now-debug.evil'
    plant(run, touched, f'{module}:X-v0')
    directory = run if inside else run.parent.parent
    monkeypatch.chdir(directory)
    monkeypatch.syspath_prepend(str(directory))
    return directory


# Options of a training of one update.
MOMENT = [f'--set={setting}=200' for setting in ('steps', 'eval_every')] + [
    '--set=update_epochs=1',
    '--set=max_length=10',
]


def commands(run, home='.'):
    """How a run is opened, with all that the command line offers."""
    here = os.path.relpath(run, home)
    logdir = os.path.relpath(run.parent, home)
    film = ['visualize', f'--logdir={here}', '--outdir=videos']
    return [
        ['train', '--config=debug', f'--logdir={logdir}', '--timestamp=now'],
        film,
        [*film, '--config=debug'],
        [*film, '--config=debug', '--set=env_kwargs={}'],
    ]


def test_environment_of_a_stranger_is_not_imported(place, run, touched, capsys):
    for command in commands(run):
        name, *arguments = command
        assert getattr(agents.scripts, name).main(arguments) == 1
        problems = capsys.readouterr().err
        assert re.fullmatch(
            r"error: The setting 'env' of \S+ names code \('\S*evil:X-v0'\), "
            r'and its settings were not written by you on this '
            r'machine, or not by this version'
            + (r"; yours is 'CartPole-v1'" if '--config=debug' in command else '')
            + r'\. Pass --trust [^\n]+\n',
            problems,
        ), problems
        assert not touched.exists()
    assert not (place / 'videos').exists()


def test_policy_of_a_stranger_is_loaded_without_its_environment(place, run, touched):
    policy = agents.load(os.path.relpath(run))
    assert policy(policy.observation_space.sample()) in (0, 1)
    assert agents.load(run, agents.configs.debug()).action_space.n == 2


@pytest.mark.parametrize(
    'changes',
    [
        {'env': 'native:evil:X-v0'},
        {'env': 'CartPole-v1', 'env_id': 'evil:X-v0'},
        {'env': 'CartPole-v1', 'inner': ['evil:X-v0']},
        {'env': 'CartPole-v1', 'wrapper': 'evil.Wrapper'},
    ],
    ids=str,
)
def test_other_ways_to_the_code_of_a_stranger(run, touched, changes, monkeypatch, capsys):
    plant(run, touched, **changes)
    monkeypatch.chdir(run)
    monkeypatch.syspath_prepend(str(run))
    for name, *arguments in commands(run)[:3]:
        assert getattr(agents.scripts, name).main(arguments) == 1
        assert 'Pass --trust ' in capsys.readouterr().err
    agents.load(run)


@pytest.mark.parametrize('kind', ['network', 'activation', 'algorithm'])
def test_other_names_are_looked_up(run, touched, kind, monkeypatch):
    plant(run, touched, 'CartPole-v1')
    monkeypatch.syspath_prepend(str(run))
    old = re.search(f'^{kind}: .*$', (run / 'config.yaml').read_text(), re.M)[0]
    replace(run, old, f"{kind}: 'evil:X-v0'")
    with pytest.raises(errors.ConfigError):
        agents.load(run)


def test_environment_of_a_stranger_that_is_trusted_is_filmed(run, tmp_path, monkeypatch, capsys):
    (tmp_path / 'strange_games.py').write_text(GAMES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    replace(run, 'env: CartPole-v1', "env: 'strange_games:Strange-v0'")
    film = [f'--logdir={run}', '--outdir=videos', '--noenv_processes']
    assert visualize.main(film) == 1
    assert 'strange_games' not in sys.modules
    assert 'Pass --trust ' in capsys.readouterr().err
    assert visualize.main([*film, '--trust']) == 0
    shown = capsys.readouterr().err
    assert f'({tmp_path}/strange_games.py)' in shown and shown.count('\n') == 1
    assert pathlib.Path('videos/agent0-episode0-step2000.mp4').stat().st_size > 1000


def test_callback_of_a_stranger_is_not_called(run, touched, monkeypatch, capsys):
    (run / 'evil.py').write_text(EVIL.format(touched=str(touched)))
    replace(run, 'callbacks: []', f"callbacks: ['{run}/evil.py:hook']")
    monkeypatch.chdir(run.parent.parent)
    assert train.main(['--name=now-debug', '--steps=2200']) == 1
    assert "The setting 'callbacks' of " in capsys.readouterr().err


# Links


@pytest.fixture
def victims(tmp_path):
    """A file and a directory of the user's, which stay as they are."""
    directory = tmp_path / 'precious'
    directory.mkdir()
    for name in ('file', f'{7:012d}', f'{8:012d}', '.000000000009.77'):
        (directory / name).mkdir()
        (directory / name / 'thesis').write_text(name)
    (directory / 'thesis').write_text('precious')
    before = contents(directory)
    yield directory
    assert contents(directory) == before


def contents(directory):
    return {
        path: path.is_file() and (path.read_bytes(), path.stat().st_mtime_ns)
        for path in directory.rglob('*')
    }


def link(path, target):
    """Put a link in the place of what there is."""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


LINKED_FILES = [
    *['lock', 'config.yaml', 'spaces.bin', 'progress.csv'],
    *['learning_curve.png', 'agent0-episode0-step2000.mp4'],
]


@pytest.mark.parametrize(
    'name', [*LINKED_FILES, pytest.param('progress.tmp', marks=pytest.mark.slow)]
)
def test_linked_file_is_not_followed(run, victims, name, monkeypatch, capsys, eagerly):
    link(run / name, victims / 'thesis')
    monkeypatch.chdir(run.parent.parent)
    resume = ['--config=debug', '--timestamp=now', '--noenv_processes']
    assert train.main([*resume, '--set=steps=2200']) == 1
    error = capsys.readouterr().err
    assert re.fullmatch(r'error: [^\n]*symbolic link[^\n]*\n', error), error
    code = visualize.main([f'--logdir={run}', '--noenv_processes'])
    error = capsys.readouterr().err
    used = name not in ('lock', 'progress.tmp')
    assert code == used
    assert ('is a symbolic link' in error) == used
    assert (run / name).is_symlink()


def test_linked_leftover_is_named_and_not_followed(run, victims, capsys):
    leftover = run / '.config.yaml.0123456789abcdef.new'
    leftover.symlink_to(victims / 'thesis')
    assert visualize.main([f'--logdir={run}', '--noenv_processes']) == 1
    reason = 'It is a symbolic link, which could lead anywhere'
    error = capsys.readouterr().err
    assert error == f'error: Cannot write to {leftover}: {reason}.\n'
    assert leftover.is_symlink()


@pytest.mark.parametrize('name', ['checkpoints', 'train', 'eval'])
def test_linked_directory_is_refused_and_not_pruned(run, victims, name, monkeypatch, capsys):
    link(run / name, victims)
    monkeypatch.chdir(run.parent.parent)
    resume = ['--config=debug', '--timestamp=now', '--noenv_processes']
    assert train.main([*resume, '--set=steps=2200']) == 1
    error = capsys.readouterr().err
    assert re.fullmatch(r'error: [^\n]*symbolic link[^\n]*\n', error), error
    if name == 'checkpoints':
        with pytest.raises(errors.ConfigError, match='is a symbolic link'):
            agents.load(run)
        film = [f'--logdir={run}', '--noenv_processes']
        assert visualize.main(film) == 1
        assert 'is a symbolic link' in capsys.readouterr().err


def test_linked_checkpoint_is_neither_read_nor_removed(run, victims):
    link(run / 'checkpoints' / f'{3000:012d}', victims)
    link(run / 'checkpoints' / f'{1000:012d}', victims)
    assert storage.last_checkpoint(run) == 2000
    agents.load(run)
    with pytest.raises(errors.UserError, match='There is no checkpoint 3000'):
        agents.load(run, checkpoint=3000)


def test_resumed_on_the_command_line_with_links_everywhere(run, victims, run_python):
    for name in (*LINKED_FILES, 'progress.tmp'):
        link(run / name, victims / 'thesis')
    for name in ('checkpoints', 'train', 'eval'):
        link(run / name, victims)
    home = run.parent.parent
    for command, *arguments in commands(run, home)[:2]:
        words = '-m', f'agents.scripts.{command}', *arguments
        code, _, problems = run_python(*words, cwd=home)
        assert code == 1
        assert re.fullmatch(r'error: [^\n]+link[^\n]*\n', problems)


def test_run_itself_may_be_a_link(run, tmp_path, monkeypatch, eagerly):
    moved = tmp_path / 'big disk'
    run.rename(moved)
    run.symlink_to(moved)
    monkeypatch.chdir(tmp_path)
    resume = ['--config=debug', '--timestamp=now', '--noenv_processes']
    assert train.main([*resume, *MOMENT, '--set=steps=2200']) == 0
    assert storage.last_checkpoint(moved) == 2200
    assert run.is_symlink()


# What is missing


@pytest.mark.parametrize(
    'name, message',
    [
        ('checkpoints', 'lacks a checkpoint'),
        ('checkpoints/*', 'lacks a checkpoint'),
        ('config.yaml', 'but no config.yaml'),
        ('spaces.bin', 'lacks spaces.bin'),
    ],
)
def test_run_that_lacks_something_is_not_begun_anew(run, name, message, monkeypatch, capsys):
    for path in run.glob(name):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    monkeypatch.chdir(run.parent.parent)
    before = contents(run)
    assert train.main(['--config=debug', '--timestamp=now']) == 1
    error = capsys.readouterr().err
    assert message in error
    assert re.fullmatch(r'error: [^\n]+\n', error)
    assert contents(run) == before


def test_run_of_which_nothing_had_been_saved_says_so(run, monkeypatch, capsys, eagerly):
    for name in ('checkpoints', 'train', 'eval'):
        shutil.rmtree(run / name)
    (run / 'progress.csv').unlink()
    monkeypatch.chdir(run.parent.parent)
    resume = ['--config=debug', '--timestamp=now', '--noenv_processes']
    assert train.main([*resume, *MOMENT]) == 0
    output = capsys.readouterr().out
    assert 'checkpoint nothing had been saved\ntrain      from the b' in output


def test_directory_of_something_else_is_left_alone(tmp_path, monkeypatch, capsys):
    directory = tmp_path / 'logdir' / 'now-debug'
    directory.mkdir(parents=True)
    (directory / 'thesis.tex').write_text('precious')
    monkeypatch.chdir(tmp_path)
    assert train.main(['--config=debug', '--timestamp=now']) == 1
    assert 'holds thesis.tex but no config.yaml' in capsys.readouterr().err
    assert os.listdir(directory) == ['thesis.tex']


# Where files are written


CHANGES_DIRECTORY = """
import os
import gymnasium
from agents.scripts import configs

def make(render_mode=None):
    os.chdir({elsewhere!r})
    return gymnasium.make('CartPole-v1', render_mode=render_mode)

def debug():
    return configs.debug().copy(
        env=make, steps=200, eval_every=200, update_epochs=1, max_length=10
    )
"""


@pytest.mark.slow
def test_environment_that_changes_the_directory_changes_no_path(
    tmp_path, monkeypatch, capsys, eagerly
):
    elsewhere, home = tmp_path / 'elsewhere', tmp_path / 'home'
    elsewhere.mkdir(), home.mkdir()
    file = tmp_path / 'mine.py'
    file.write_text(CHANGES_DIRECTORY.format(elsewhere=str(elsewhere)))
    monkeypatch.chdir(home)
    config, local = f'--config={file}:debug', '--noenv_processes'
    assert train.main([config, '--timestamp=now', local]) == 0
    output = capsys.readouterr().out
    assert output.endswith('see tensorboard --logdir logdir/now-debug\n')
    monkeypatch.chdir(home)
    film = ['--logdir=logdir/now-debug', '--outdir=videos']
    assert visualize.main([config, local, *film]) == 0
    shown = capsys.readouterr().out.split()
    assert shown[:2] == ['videos/learning_curve.png', 'videos/agent0-episode0-step200.mp4']
    assert not os.listdir(elsewhere)
    assert sorted(os.listdir(home)) == ['logdir', 'videos']
    assert storage.last_checkpoint(home / 'logdir' / 'now-debug') == 200


def test_full_disk_at_the_start_is_one_line(tmp_path, monkeypatch, capsys, eagerly):
    monkeypatch.chdir(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        start = ['--config=debug', '--timestamp=now', '--noenv_processes']
        assert train.main(start) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    file = tmp_path / 'logdir' / 'now-debug' / store.CONFIG_FILE
    error = capsys.readouterr().err
    assert error == f'error: Cannot write to {file}: File too large.\n'
    assert not os.listdir(tmp_path)


# Sizes


@pytest.fixture
def little_memory():
    """Fails a test in which this process takes more memory than some."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 300_000  # Kilobytes.


SIZES = {
    'policy_layers: [64, 64]': [
        'policy_layers: [25000, 25000]',
        'policy_layers: [12000, 12000]',
        'policy_layers: [777777777777777777]',
        'policy_layers: [1000000000]',
    ],
    'value_layers: [64, 64]': [
        'value_layers: [25000, 25000]',
        'value_layers: [9000, 9000]',
        'value_layers: [65536, 65536]',
    ],
    'num_agents: 4': ['num_agents: 777777777777'],
    'eval_episodes: 2': ['eval_episodes: 777777777777'],
}


@pytest.mark.parametrize('old, new', [(old, new) for old, news in SIZES.items() for new in news])
def test_sizes_of_a_stranger_take_no_memory(run, old, new, monkeypatch, capsys, little_memory):
    replace(run, old, new)
    monkeypatch.chdir(run.parent.parent)
    for name, *arguments in commands(run)[:2]:
        command = [*arguments, '--noenv_processes']
        assert getattr(agents.scripts, name).main(command) == 1
        assert capsys.readouterr().err.startswith('error: ')
    if 'layers' in old:
        with pytest.raises(errors.ConfigError):
            agents.load(run)


def test_wide_spaces_of_a_stranger_take_no_memory(run, little_memory):
    # Between them and the first 64 units there would be 4 gigabytes.
    found = gym.spaces.Discrete(2**24), gym.spaces.Discrete(2)
    (run / storage.SPACES).write_bytes(wire.dumps(found))
    with pytest.raises(errors.ConfigError, match='does not fit'):
        agents.load(run)
