"""Several ranks on the command line: what is printed, saved, and lost."""

import pathlib
import signal
import subprocess
import sys
import time
from typing import NamedTuple

import numpy as np
import psutil
import pytest

from agents.scripts import utility
from agents.tools.runs import progress

# Trains in some seconds once it is compiled. Episodes differ in length.
SETTINGS = {
    'steps': 300_000,
    'eval_every': 30_000,
    'rank_timeout': 60,
    'eval_episodes': 20,
    'learning_rate_schedule': 'constant',
    'policy_layers': '[16]',
    'value_layers': '[16]',
}

# Different things for different ranks, and an environment that breaks on one.
CONFIGS = """
import os
import gymnasium as gym
from agents.scripts import configs

LAST = os.environ.get('PMI_RANK') == '1'

class Breaking(gym.Wrapper):
    count = 0
    def step(self, action):
        self.count += 1
        if LAST and self.count == 300:
            raise RuntimeError('broken on purpose')
        return self.env.step(action)

def make(render_mode=None):
    return Breaking(gym.make('Pendulum-v1'))

def breaking():
    return configs.pendulum().copy(env=make)

def torn():
    return configs.pendulum().copy(learning_rate=1e-3 if LAST else 1e-4)

def broken(*arguments):
    if LAST:
        raise KeyError('a bug in a network')
    from agents.scripts import networks
    return networks.feed_forward(*arguments)

def buggy():
    return configs.pendulum().copy(network=broken)
"""


class Ended(NamedTuple):
    code: int
    output: str
    problems: str


class Command:
    """A training on several ranks that is under way."""

    def __init__(self, home, config, ranks, name, settings):
        changes = [f'{key}={value}' for key, value in settings.items()]
        sets = [word for change in changes for word in ('--set', change)]
        command = [sys.executable, '-m', 'agents.scripts.train']
        command += [f'--config={config}', f'--nprocs={ranks}', *sets]
        self.directory = home / 'logdir' / f'{name}-{config.split(":")[-1]}'
        self._process = subprocess.Popen(
            [*command, f'--timestamp={name}'],
            cwd=home,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def await_checkpoint(self):
        """Wait until there is one, and some steps after."""
        deadline = time.monotonic() + 120
        while not utility.last_checkpoint(self.directory):
            assert self._process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(0.3)

    def ranks(self):
        """The processes of the ranks, in the order of their start."""
        below = psutil.Process(self._process.pid).children(recursive=True)
        found = [
            each
            for each in below
            if any('agents.scripts.train' in part for part in each.cmdline())
            and 'mpiexec' not in each.cmdline()[0]
        ]
        return sorted(found, key=lambda each: each.pid)

    def send(self, number):
        self._process.send_signal(number)

    def end(self):
        """Wait for the end, after which there is nothing left."""
        everything = psutil.Process(self._process.pid).children(recursive=True)
        output, problems = self._process.communicate(timeout=120)
        _, alive = psutil.wait_procs(everything, timeout=10)
        assert not alive
        return Ended(self._process.returncode, output, problems)


@pytest.fixture(scope='module')
def home(tmp_path_factory, no_memory_left_by_file):
    home = tmp_path_factory.mktemp('ranks')
    (home / 'mine.py').write_text(CONFIGS)
    return home


@pytest.fixture(scope='module')
def start(home):
    """A function that starts a training on some ranks."""

    def run(name, ranks=2, config='cartpole_native', **settings):
        return Command(home, config, ranks, name, {**SETTINGS, **settings})

    return run


@pytest.fixture(scope='module')
def whole(start):
    """A run of two ranks that nothing disturbs."""
    command = start('whole')
    return command.directory, command.end()


@pytest.fixture(scope='module')
def killed(start):
    """One of whose ranks one is killed."""
    command = start('killed')
    command.await_checkpoint()
    command.ranks()[1].send_signal(signal.SIGKILL)
    return command.directory, command.end()


def test_first_rank_alone_prints_and_writes(whole):
    directory, ended = whole
    assert (ended.code, ended.problems) == (0, '')
    lines = ended.output.splitlines()
    assert [line.split()[0] for line in lines].count('plan') == 1
    assert '2 ranks × 4 agents × 128 steps' in ended.output
    assert lines[-1].startswith('done')
    rows = list(progress.read(directory))
    evaluations = [row for row in rows if row.phase == 'eval']
    # Ten of each rank.
    assert {row.cells['episodes'] for row in evaluations} == {'20'}
    assert len({row.step for row in evaluations}) == len(evaluations)
    trained = [row for row in rows if row.phase == 'train']
    assert all(float(row.cells['rank_seconds']) > 0 for row in trained)
    assert evaluations[-1].score > 100


def test_rank_that_is_killed_ends_all_and_nothing_is_lost(
    whole, killed, start, checkpoint
):
    directory, ended = killed
    assert ended.code == 137
    assert 'A rank was killed: Killed (signal 9).' in ended.problems
    assert 'Traceback' not in ended.problems
    again = start('killed').end()
    assert (again.code, again.problems) == (0, '')
    assert 'resumed at step' in again.output
    expected, found = checkpoint(whole[0]), checkpoint(directory)
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(value, found[name], name)


@pytest.mark.slow
def test_another_number_of_ranks_goes_on(killed, start):
    directory, _ = killed
    for ranks, steps, agents in ((1, 310_000, 8), (2, 330_000, 16)):
        step = utility.last_checkpoint(directory)
        settings = {
            'steps': steps,
            'eval_every': 10_000,
            'num_agents': agents,
        }
        ended = start('killed', ranks, **settings).end()
        assert ended.code == 0, ended.problems
        assert f'resumed at step {step:,}' in ended.output
        evaluations = [r for r in progress.read(directory) if r.phase == 'eval']
        assert evaluations[-1].step >= steps
        assert evaluations[-1].cells['episodes'] == '20'
        assert evaluations[-1].score > 100


@pytest.mark.slow
@pytest.mark.parametrize('number', [0, 1])
def test_rank_that_is_stopped_is_waited_for_in_vain(start, number):
    # More than one has to wait for the other where much else is compiled.
    command = start(f'stopped{number}', rank_timeout=6, steps=50_000_000)
    command.await_checkpoint()
    command.ranks()[number].send_signal(signal.SIGSTOP)
    ended = command.end()
    assert ended.code == 1
    other = 1 - number
    assert f'Rank {other} has waited for the others for 6 s' in ended.problems
    assert ended.problems.count('error') == 1


def test_signal_saves_once(start):
    command = start('gather', steps=50_000_000, distribute='gather')
    command.await_checkpoint()
    before = utility.last_checkpoint(command.directory)
    command.send(signal.SIGINT)
    ended = command.end()
    assert (ended.code, ended.problems) == (130, '')
    assert ended.output.count('saving') == 1
    assert ended.output.count('is saved') == 1
    assert utility.last_checkpoint(command.directory) >= before


@pytest.mark.parametrize(
    'config, message',
    [
        ('torn', 'Rank 1 has learning_rate=0.001, where the first has 0.0001'),
        pytest.param(
            'breaking',
            'Environment 8 raised an error in step',
            marks=pytest.mark.slow,
        ),
        ('buggy', "KeyError: 'a bug in a network'"),
    ],
)
def test_what_is_wrong_with_one_rank_ends_all(start, home, config, message):
    command = start(config, config=f'mine.py:{config}')
    ended = command.end()
    assert ended.code == 1
    assert message in ended.problems
    assert ended.problems.count(message) == 1
    assert 'BAD TERMINATION' not in ended.output + ended.problems
    if config != 'breaking':
        assert not command.directory.exists()


# What each rank finds, and an error that only one of them has.
FROM_PYTHON = """
import pathlib
import agents
from agents.tools import world

config = agents.configs.cartpole_native().copy(
    steps=20_000, eval_every=10_000, log_every=10_000, max_length=50
)
scores = [*map(float, agents.train(config, 'run'))]
rank = world.connect().rank
pathlib.Path(str(rank)).write_text(repr(scores))
if rank == 1:
    raise ValueError('a mistake in a script')
world.connect().share(None)
"""


@pytest.mark.slow
def test_from_python_all_ranks_have_all_scores_and_errors_end_all(tmp_path):
    mpiexec = str(pathlib.Path(sys.executable).with_name('mpiexec'))
    ended = subprocess.run(
        [mpiexec, '-n', '2', sys.executable, '-c', FROM_PYTHON],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
    )
    first, second = [(tmp_path / str(rank)).read_text() for rank in range(2)]
    assert first == second
    assert len(first.split(',')) == 4
    assert (tmp_path / 'run' / 'progress.csv').exists()
    assert ended.returncode == 1
    assert ended.stderr.count('ValueError: a mistake in a script') == 1


# What TensorFlow's destructors do under threads that still run.
CRASHING = """
import ctypes, sys
from agents.tools import world

ranks = world.connect()
library = ctypes.CDLL(None)
library.__cxa_atexit(library.abort, None, None)
if ranks.rank == 1:
    print('error: It failed.', file=sys.stderr)
    ranks.abort(3)
ranks.gather(None)  # Waits for the other one.
"""


def test_rank_that_fails_runs_no_exit_handlers():
    mpiexec = str(pathlib.Path(sys.executable).with_name('mpiexec'))
    ended = subprocess.run(
        [mpiexec, '-n', '2', sys.executable, '-c', CRASHING],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (ended.returncode, ended.stderr) == (3, 'error: It failed.\n')


def test_different_checkpoints_are_refused(whole, home):
    directory, _ = whole
    other = home / 'other'
    checkpoints = other / directory.name / 'checkpoints' / '000000999999'
    checkpoints.mkdir(parents=True)
    (checkpoints / 'manifest.json').write_text('{}')
    command = [sys.executable, '-m', 'agents.scripts.train']
    command += ['--config=cartpole_native', '--timestamp=whole', '--logdir']
    first, second = [
        [*command, str(x.parent)]
        for x in (directory, checkpoints.parent.parent)
    ]
    mpiexec = str(pathlib.Path(sys.executable).with_name('mpiexec'))
    ended = subprocess.run(
        [mpiexec, '-n', '1', *first, ':', '-n', '1', *second],
        capture_output=True,
        text=True,
        cwd=home,
    )
    assert ended.returncode == 1
    assert 'Rank 1 finds the checkpoint 999999' in ended.stderr
    assert ended.stderr.count('error') == 1


@pytest.mark.parametrize(
    'ranks, settings, message',
    [
        (3, {}, 'num_agents=8 cannot be divided among 3 ranks. Choose 6 or 9'),
        (0, {}, '--nprocs has to be 1 or more, not 0'),
        (2, {'lerning_rate': 1}, "did you mean 'learning_rate'?"),
    ],
)
def test_mistakes_are_told_once(start, ranks, settings, message):
    ended = start('mistake', ranks, **settings).end()
    assert (ended.code, ended.output) == (1, '')
    assert ended.problems.count(message) == 1
    assert len(ended.problems.splitlines()) == 1
