"""Settings of the tests, and what several of them look at."""

import contextlib
import gc
import os
import pathlib
import signal
import subprocess
import sys
import time

import psutil
import pytest

from agents.tools import cpu

# Before anything imports MuJoCo.
os.environ.setdefault('MUJOCO_GL', 'egl')

# Who is started in the background or by nohup ignores these, and so would the
# commands that tests send them to.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_xdist_auto_num_workers() -> int:
    """As many processes as there are cores, which tests fill with their own.

    More than a few would need much memory.
    """
    return min(4, len(cpu.cores()))


def pytest_collection_finish() -> None:
    """What has been imported and collected is never garbage.

    Looking for some in it took a quarter of a second before each training.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope='session', autouse=True)
def own_state(tmp_path_factory):
    """Keeps the key for signatures out of the directory of the user."""
    state = str(tmp_path_factory.mktemp('state'))
    os.environ['XDG_STATE_HOME'] = state


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


@pytest.fixture(scope='session')
def run_ranks():
    """A function that runs Python on ranks of MPI; returns what each wrote.

    Into a file `<rank>` of its working directory, in order; the launcher mixes
    the lines of their output.
    """
    mpiexec = pathlib.Path(sys.executable).with_name('mpiexec')

    def run(directory, size, *arguments):
        launcher = [mpiexec, '-n', str(size)] if size > 1 else []
        result = subprocess.run(
            [*launcher, sys.executable, *arguments],
            capture_output=True,
            text=True,
            timeout=300,
            cwd=directory,
        )
        assert result.returncode == 0, result.stderr
        return [(directory / str(rank)).read_text() for rank in range(size)]

    return run


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
