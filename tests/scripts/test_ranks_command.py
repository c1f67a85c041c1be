"""Several ranks on the command line: what is printed, saved, and lost."""

import json
import pathlib
import shutil
import signal
import sys
import time

import numpy as np
import pytest

from agents.tools.runs import progress
from agents.training import storage

# Trains in some seconds once it is compiled. Episodes differ in length.
SETTINGS = {
    'steps': 150_000,
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
    from agents.training import networks
    return networks.feed_forward(*arguments)

def buggy():
    return configs.pendulum().copy(network=broken)

def eager():
    # The same program in the end, without the seconds of compiling it.
    import tensorflow
    tensorflow.config.run_functions_eagerly(True)
    return configs.debug().copy(
        update_epochs=1, steps=150_000, eval_every=200, distribute='gather'
    )
"""


def words(config, ranks, name, settings):
    """The command line of a training on some ranks."""
    sets = [f'--set={key}={value}' for key, value in settings.items()]
    command = ['-m', 'agents.scripts.train', f'--config={config}', *sets]
    return [*command, f'--nprocs={ranks}', f'--timestamp={name}']


def ranks_of(program):
    """The processes of the ranks, in the order of their start."""
    found = [
        each
        for each in program.below()
        if any('agents.scripts.train' in part for part in each.cmdline())
        and 'mpiexec' not in each.cmdline()[0]
    ]
    return sorted(found, key=lambda each: each.pid)


def await_checkpoint(program, directory):
    """Wait until there is one, and some steps after."""
    deadline = time.monotonic() + 300
    while not storage.last_checkpoint(directory):
        assert program.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.3)
    program.below()  # Its end is that of these, too.


@pytest.fixture
def home(tmp_path, no_memory_left_by_file):
    """The directory of commands, with configs of its own."""
    (tmp_path / 'mine.py').write_text(CONFIGS)
    return tmp_path


@pytest.fixture
def start(home, start_python):
    """A function that starts a training on some ranks.

    It returns the program and the directory of the run.
    """

    def run(name, ranks=2, config='cartpole_native', **settings):
        settings = {**SETTINGS, **settings}
        program = start_python(*words(config, ranks, name, settings), cwd=home)
        return program, home / 'logdir' / f'{name}-{config.split(":")[-1]}'

    return run


@pytest.fixture(scope='module')
def whole(once, run_python, no_memory_left_by_file):
    """How a run of two ranks ends that nothing disturbs, and its directory."""

    def train(home):
        command = words('cartpole_native', 2, 'whole', SETTINGS)
        finished = run_python(*command, cwd=home)
        (home / 'finished').write_text(json.dumps(finished))

    home = once('ranks', train)
    finished = json.loads((home / 'finished').read_text())
    return finished, home / 'logdir' / 'whole-cartpole_native'


@pytest.fixture
def copied(whole, home):
    """A copy of the whole run, to be changed."""
    _, directory = whole
    return shutil.copytree(directory, home / 'logdir' / directory.name)


@pytest.mark.slow
def test_first_rank_alone_prints_and_writes(whole):
    (code, output, problems), directory = whole
    assert (code, problems) == (0, '')
    lines = output.splitlines()
    assert [line.split()[0] for line in lines].count('plan') == 1
    assert '2 ranks × 4 agents × 128 steps' in output
    assert lines[-1].startswith('done')
    rows = list(progress.read(directory))
    evaluations = [row for row in rows if row.phase == 'eval']
    # Ten of each rank.
    assert {row.cells['episodes'] for row in evaluations} == {'20'}
    assert len({row.step for row in evaluations}) == len(evaluations)
    trained = [row for row in rows if row.phase == 'train']
    assert all(float(row.cells['rank_seconds']) > 0 for row in trained)
    assert evaluations[-1].score > 100


@pytest.mark.slow
def test_rank_that_is_killed_ends_all_and_nothing_is_lost(whole, start, checkpoint):
    program, directory = start('killed')
    await_checkpoint(program, directory)
    ranks_of(program)[1].kill()
    code, _, problems = program.finish(timeout=300)
    assert code == 137
    assert 'A rank was killed: Killed (signal 9).' in problems
    assert 'Traceback' not in problems
    program, _ = start('killed')
    code, output, problems = program.finish(timeout=300)
    assert (code, problems) == (0, '')
    assert 'resumed at step' in output
    expected, found = checkpoint(whole[1]), checkpoint(directory)
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(value, found[name], name)


@pytest.mark.slow
def test_another_number_of_ranks_goes_on(copied, start):
    for ranks, steps, agents in ((1, 160_000, 8), (2, 180_000, 16)):
        step = storage.last_checkpoint(copied)
        settings = {'steps': steps, 'eval_every': 10_000, 'num_agents': agents}
        program, _ = start('whole', ranks, **settings)
        code, output, problems = program.finish(timeout=300)
        assert code == 0, problems
        assert f'resumed at step {step:,}' in output
        evaluations = [r for r in progress.read(copied) if r.phase == 'eval']
        assert evaluations[-1].step >= steps
        assert evaluations[-1].cells['episodes'] == '20'
        assert evaluations[-1].score > 100


@pytest.mark.slow
@pytest.mark.parametrize('number', [0, 1])
def test_rank_that_is_stopped_is_waited_for_in_vain(start, number):
    # More than one has to wait for the other where much else is compiled.
    program, directory = start('stopped', rank_timeout=6, steps=50_000_000)
    await_checkpoint(program, directory)
    ranks_of(program)[number].suspend()
    code, _, problems = program.finish(timeout=300)
    assert code == 1
    other = 1 - number
    assert f'Rank {other} has waited for the others for 6 s' in problems
    assert problems.count('error') == 1


@pytest.mark.slow
def test_signal_saves_once(home, start_python):
    directory = home / 'logdir' / 'run-eager'
    program = start_python(*words('mine.py:eager', 2, 'run', {}), cwd=home)
    await_checkpoint(program, directory)
    before = storage.last_checkpoint(directory)
    program.send_signal(signal.SIGINT)
    code, output, problems = program.finish(timeout=300)
    assert (code, problems) == (130, '')
    assert output.count('saving') == 1
    assert output.count('is saved') == 1
    assert storage.last_checkpoint(directory) >= before


@pytest.mark.slow
@pytest.mark.parametrize(
    'config, message',
    [
        ('torn', 'Rank 1 has learning_rate=0.001, where the first has 0.0001'),
        ('buggy', "KeyError: 'a bug in a network'"),
        ('breaking', 'Environment 8 raised an error in step'),
    ],
)
def test_what_is_wrong_with_one_rank_ends_all(start, config, message):
    program, directory = start(config, config=f'mine.py:{config}')
    code, output, problems = program.finish(timeout=300)
    assert code == 1
    assert problems.count(message) == 1
    assert 'BAD TERMINATION' not in output + problems
    if config != 'breaking':
        assert not directory.exists()


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
def test_from_python_all_ranks_have_all_scores_and_errors_end_all(tmp_path, run_python):
    ended = run_python('-c', FROM_PYTHON, ranks=2, cwd=tmp_path)
    first, second = [(tmp_path / str(rank)).read_text() for rank in range(2)]
    assert first == second
    assert len(first.split(',')) == 4
    assert (tmp_path / 'run' / 'progress.csv').exists()
    assert ended.code == 1
    assert ended.problems.count('ValueError: a mistake in a script') == 1


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


def test_rank_that_fails_runs_no_exit_handlers(run_python):
    ended = run_python('-c', CRASHING, ranks=2)
    assert (ended.code, ended.problems) == (3, 'error: It failed.\n')


def test_different_checkpoints_are_refused(tmp_path, run_python, debug_run):
    run = shutil.copytree(debug_run.directory, tmp_path / 'one' / 'now-debug')
    other = tmp_path / 'other'
    checkpoints = other / run.name / 'checkpoints' / '000000999999'
    checkpoints.mkdir(parents=True)
    (checkpoints / 'manifest.json').write_text('{}')
    command = ['-m', 'agents.scripts.train', '--config=debug']
    command += ['--timestamp=now', '--logdir']
    one = [pathlib.Path(sys.executable).with_name('mpiexec'), '-n', '1']
    beside = [':', '-n', '1', sys.executable, *command, other]
    ended = run_python(*command, run.parent, *beside, before=one, cwd=tmp_path)
    assert ended.code == 1
    assert 'Rank 1 finds the checkpoint 999999' in ended.problems
    assert ended.problems.count('error') == 1


@pytest.mark.parametrize(
    'ranks, settings, message',
    [
        (3, {}, 'num_agents=8 cannot be divided among 3 ranks. Choose 6 or 9'),
        (0, {}, '--nprocs must be at least 1, got 0'),
        (2, {'lerning_rate': 1}, "did you mean 'learning_rate'?"),
    ],
)
def test_mistakes_are_told_once(start, ranks, settings, message):
    program, _ = start('mistake', ranks, **settings)
    code, output, problems = program.finish(timeout=300)
    assert (code, output) == (1, '')
    assert problems.count(message) == 1
    assert len(problems.splitlines()) == 1
