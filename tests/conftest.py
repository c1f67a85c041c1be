"""Settings of the tests, and what several of them look at."""

import contextlib
import fcntl
import gc
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import psutil
import pytest

import agents
from agents.tools import cpu

# Before anything imports MuJoCo.
os.environ.setdefault('MUJOCO_GL', 'egl')

# Keys, compiled programs and others stay out of the home of the user.
if 'PYTEST_XDIST_WORKER' not in os.environ:
    home = tempfile.TemporaryDirectory(prefix='agents-tests-')
    for place in ('AGENTS_CACHE', 'IPYTHONDIR', 'KERAS_HOME', 'XDG_STATE_HOME'):
        os.environ[place] = os.path.join(home.name, place.lower())

# Settings of a training of a moment.
TINY = {
    'max_length': 10,
    'num_agents': 2,
    'update_every': 5,
    'steps': 40,
    'batch_size': 5,
    'update_epochs': 1,
    'eval_every': 20,
    'log_every': 1000,  # So that train and eval take turns.
    'eval_episodes': 2,
    'policy_layers': [4],
    'value_layers': [4],
}

# Who is started in the background or by nohup ignores these, and so would the
# commands that tests send them to.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_xdist_auto_num_workers() -> int:
    """Return one more process than cores, as tests wait for their workers an eighth of the time.

    More than a few would need much memory.
    """
    return min(4, len(cpu.cores()) + 1)


def pytest_collection_finish() -> None:
    """What has been imported and collected is never garbage.

    Looking for some in it took a quarter of a second before each training.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope='session')
def common_directory(tmp_path_factory, worker_id):
    """The temporary directory of all processes of the suite."""
    place = tmp_path_factory.getbasetemp()
    return place if worker_id == 'master' else place.parent


@contextlib.contextmanager
def step_by_step():
    """Run what would be compiled step by step, which saves compiling it."""
    from agents.tools.graph.backend import tf

    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)


@pytest.fixture
def eagerly():
    """Runs what would be compiled step by step, which saves compiling it."""
    with step_by_step():
        yield


@pytest.fixture
def nothing_left():
    """Fails a test that leaves a process or shared memory behind."""
    processes = descendants()
    with no_memory_left():
        yield
        assert not descendants() - processes


@pytest.fixture(scope='module')
def no_memory_left_by_file():
    """Fails a file of tests that leaves shared memory behind."""
    with no_memory_left():
        yield


class Trained(NamedTuple):
    """A run and what its command has printed."""

    directory: pathlib.Path
    code: int
    output: str
    problems: str


class Finished(NamedTuple):
    """What a program leaves: its exit status and what it printed."""

    code: int
    output: str
    problems: str


class Program(subprocess.Popen):
    """A running program with pipes to its input and from its output."""

    def __init__(self, *args, **settings):
        self._seen = set()
        super().__init__(*args, **settings)

    def read_until(self, start: str) -> str:
        """Return the next line of output that starts with a text."""
        for line in self.stdout:
            if line.startswith(start):
                return line
        pytest.fail(f'It ended before {start!r}: {self.stderr.read()}')

    def below(self) -> list[psutil.Process]:
        """The processes that it has started and those that these have."""
        try:
            found = psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            found = []
        self._seen.update(found)
        return found

    def finish(self, text: str | None = None, timeout: float = 120) -> Finished:
        """Wait for its end, after which no process seen below it may live."""
        self.below()
        output, problems = self.communicate(text, timeout=timeout)
        _, alive = psutil.wait_procs(self._seen, timeout=10)
        assert not alive
        return Finished(self.returncode, output, problems)


def start_program(*words, ranks: int = 0, before=(), **settings) -> Program:
    """Start Python with words of its command line, on ranks of MPI if given.

    `before` is what starts it, such as `env` with options. Others are settings
    of `subprocess.Popen`.
    """
    if ranks:
        mpiexec = pathlib.Path(sys.executable).with_name('mpiexec')
        before = [*before, mpiexec, '-n', str(ranks)]
    pipes = dict.fromkeys(('stdin', 'stdout', 'stderr'), subprocess.PIPE)
    command = [*before, sys.executable, *words]
    command = [str(word) for word in command]
    return Program(command, **{**pipes, 'text': True, **settings})


@pytest.fixture
def start_python():
    """The function `start_program`; what still runs at the end is killed."""
    started = []

    def run(*words, **settings):
        started.append(start_program(*words, **settings))
        return started[-1]

    yield run
    for program in started:
        with program:  # Closes its pipes and waits.
            program.kill()


@pytest.fixture(scope='session')
def run_python():
    """A function that runs Python to its end; returns a `Finished`."""

    def run(*words, timeout=300, **settings):
        with start_program(*words, **settings) as program:
            try:
                return program.finish(timeout=timeout)
            finally:
                program.kill()

    return run


@pytest.fixture(scope='session')
def run_ranks(run_python):
    """A function that runs Python on ranks of MPI; returns what each wrote.

    Into a file `<rank>` of its working directory, in order; the launcher mixes
    the lines of their output.
    """

    def on_ranks(directory, size, *words):
        ranks = size if size > 1 else 0
        finished = run_python(*words, ranks=ranks, cwd=directory)
        assert finished.code == 0, finished.problems
        return [(directory / str(rank)).read_text() for rank in range(size)]

    return on_ranks


@pytest.fixture(scope='session')
def once(common_directory):
    """A function that fills a directory once in all processes of the suite.

    For trainings whose results many tests read: `once('debug', train)` calls
    `train(directory)` unless another process has, and returns the directory.
    """

    def fill(name, make):
        directory = common_directory / f'once-{name}'
        with open(common_directory / f'once-{name}.lock', 'a+') as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.path.getsize(lock.name):
                shutil.rmtree(directory, ignore_errors=True)
                directory.mkdir()
                make(directory)
                print('done', file=lock, flush=True)
        return directory

    return fill


@pytest.fixture(scope='session')
def train_once(once):
    """A function that trains eagerly, once in all processes of the suite.

    It returns the directory of the run, which nobody may change.
    """

    def run(name, config):
        def train(directory):
            with step_by_step():
                agents.train(config, directory, env_processes=False).run()

        return once(name, train)

    return run


@pytest.fixture(scope='session')
def debug_run(once, run_python):
    """The debug config, trained on the command line in an empty directory."""

    def train(place):
        home = place / 'home'
        home.mkdir()
        words = '-m', 'agents.scripts.train', '--config=debug'
        words = *words, '--timestamp=now'
        finished = run_python(*words, cwd=home, timeout=900)
        assert not finished.code, finished.problems
        (place / 'finished').write_text(json.dumps(finished))

    place = once('debug', train)
    directory = place / 'home' / 'logdir' / 'now-debug'
    return Trained(directory, *json.loads((place / 'finished').read_text()))


@pytest.fixture(scope='session')
def native_run(train_once):
    """A native pendulum, trained for a moment."""
    config = agents.configs.pendulum_native().copy(
        num_agents=2, steps=64, update_every=16, eval_every=32, batch_size=32,
        max_length=20, update_epochs=1, log_every=32,
    )  # fmt: skip
    return train_once('native', config)


@pytest.fixture(scope='session')
def tiny_run(train_once):
    """A complete run of the settings of `tiny`."""
    return train_once('tiny', agents.configs.ppo(**TINY))


@pytest.fixture
def tiny():
    """A function that makes settings for a training of a moment."""

    def make(**changes):
        return agents.configs.ppo(**{**TINY, **changes})

    return make


@pytest.fixture
def checkpoint():
    """A function that reads all that a checkpoint of a run holds, by name."""
    from agents.tools.runs import checkpoints, tensors
    from agents.training import storage

    def read(directory, step=None):
        step = storage.last_checkpoint(directory) if step is None else step
        path = pathlib.Path(directory) / storage.CHECKPOINTS / f'{step:012d}'
        file = path / checkpoints.TENSORS
        return tensors.read(file, tensors.specs(file))

    return read


def descendants() -> set[int]:
    """The processes that this one has started and that are alive."""
    children = psutil.Process().children(recursive=True)
    return {c.pid for c in children if c.status() != psutil.STATUS_ZOMBIE}


@contextlib.contextmanager
def no_memory_left():
    """Fails if shared memory that was made meanwhile stays.

    That of ranks of MPI in a test beside this one is gone with them.
    """
    before = shared_memory()
    yield
    end = time.monotonic() + 60
    while (left := shared_memory() - before) and time.monotonic() < end:
        time.sleep(0.1)
    assert not left


def shared_memory() -> set[pathlib.Path]:
    directory = pathlib.Path('/dev/shm')
    return set(directory.iterdir()) if directory.exists() else set()
