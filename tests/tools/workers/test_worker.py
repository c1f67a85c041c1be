"""What becomes of a worker process, and what it knows of its parent."""

import json
import os
import pathlib
import signal
import sys
import textwrap
import threading
import time

import cloudpickle
import gymnasium as gym
import numpy as np
import psutil
import pytest

from agents.tools.workers.external_process import ExternalProcess

# Workers cannot import this file, so what it defines is sent to them whole.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Witness(gym.Env):
    """Tells about the process that it lives in."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def modules(self):
        return list(sys.modules)

    def libraries(self):
        return pathlib.Path('/proc/self/maps').read_text()

    def environ(self):
        return dict(os.environ)

    def cores(self):
        return sorted(os.sched_getaffinity(0))

    def group(self):
        return os.getpgrp()

    def session(self):
        return os.getsid(0)

    def blocked_signals(self):
        return [int(s) for s in signal.pthread_sigmask(signal.SIG_BLOCK, [])]

    def input(self):
        return sys.stdin.read()


@pytest.fixture
def start(nothing_left):
    """Starts processes that are closed at the end, and leave nothing."""
    started = []

    def start(**kwargs):
        started.append(ExternalProcess(Witness, timeout=20.0, **kwargs))
        return started[-1]

    yield start
    for process in started:
        process.close()


def test_tensorflow_is_neither_imported_nor_inherited(start):
    from agents.tools.graph.backend import tf  # noqa: F401

    assert 'libtensorflow' in pathlib.Path('/proc/self/maps').read_text()
    process = start()
    names = {name.partition('.')[0] for name in process.call('modules')}
    assert 'gymnasium' in names
    assert not names & {'tensorflow', 'keras', 'mpi4py'}
    assert 'libtensorflow' not in process.call('libraries')


def test_variables_of_the_parent_but_those_of_mpi(start, monkeypatch):
    mpi = (
        'OMPI_COMM_WORLD_RANK', 'PMIX_RANK', 'PMI_RANK', 'MPI_LOCALNRANKS',
        'MPICH_HOME', 'HYDRA_HOST_FILE', 'HYDI_CONTROL_FD',
    )  # fmt: skip
    for name in (*mpi, 'NOT_OF_MPI_'):
        monkeypatch.setenv(name, '1')
    environ = start().call('environ')
    assert not set(mpi) & set(environ)
    assert environ['NOT_OF_MPI_'] == '1'


def test_one_thread_unless_the_user_wants_more(start, monkeypatch):
    monkeypatch.delenv('OMP_NUM_THREADS', raising=False)
    monkeypatch.setenv('MKL_NUM_THREADS', '3')
    environ = start().call('environ')
    assert environ['OMP_NUM_THREADS'] == '1'
    assert environ['MKL_NUM_THREADS'] == '3'


def test_same_modules_can_be_imported(start, monkeypatch, tmp_path):
    (tmp_path / 'only_of_the_user.py').write_text('')
    monkeypatch.syspath_prepend(tmp_path)
    import only_of_the_user  # type: ignore[import-not-found]

    def make():
        assert only_of_the_user
        return Witness()

    process = ExternalProcess(make)
    assert 'only_of_the_user' in process.call('modules')
    process.close()


def test_modules_are_found_where_the_parent_finds_them(tmp_path, run_python):
    # In the directory that one is in, a module lies about in place of another.
    (tmp_path / 'cloudpickle.py').write_text('raise ValueError("A trap.")')
    (tmp_path / 'json.py').write_text('raise ValueError("A trap.")')
    (tmp_path / 'bin').mkdir()
    program = tmp_path / 'bin' / 'program.py'
    program.write_text(
        textwrap.dedent("""
            import sys
            from agents.tools.workers.external_process import ExternalProcess
            from agents.tools.batch.mock_environment import MockEnvironment

            class Env(MockEnvironment):
                def path(self):
                    return sys.path

            sys.path.append('/nowhere/Pfäde')
            process = ExternalProcess(Env)
            assert process.call('path') == sys.path, process.call('path')
        """)
    )
    result = run_python(program, cwd=tmp_path)
    assert (result.code, result.problems) == (0, '')


def test_stays_on_its_core(start):
    core = max(os.sched_getaffinity(0))
    assert start(core=core).call('cores') == [core]
    assert start().call('cores') == sorted(os.sched_getaffinity(0))


def test_group_of_its_own_within_the_session(start):
    process = start()
    assert process.call('group') == process.pid
    assert process.call('session') == os.getsid(0)


def test_standard_input_is_left_to_the_parent(start, typed):
    assert start().call('input') == ''
    assert os.read(0, 100) == b'typed'


@pytest.fixture
def typed():
    """Something on the standard input."""
    read, write = os.pipe()
    os.write(write, b'typed')
    os.close(write)
    before = os.dup(0)
    os.dup2(read, 0)
    yield
    os.dup2(before, 0)
    os.close(before)
    os.close(read)


@pytest.mark.parametrize('when', ['at once', 'when up'])
def test_interrupts_are_left_to_the_parent(start, when, capfd):
    process = start()
    if when == 'when up':
        process.call('group')
    os.kill(process.pid, signal.SIGINT)
    assert process.call('group') == process.pid
    assert process.call('blocked_signals') == []
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert capfd.readouterr().err == ''


PROGRAM = """
    import ctypes, json, subprocess, sys, time
    import gymnasium as gym
    import numpy as np
    from agents.tools.workers.external_process import ExternalProcess

    class Env(gym.Env):
        observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        action_space = gym.spaces.Discrete(4)

        def step(self, action):
            [lambda: None, self.sleep, self.spin, self.start][action]()
            return np.zeros(2, np.float32), 0.0, False, False, {}

        def sleep(self):
            time.sleep(1000)

        def spin(self):
            ctypes.PyDLL(None).sleep(1000)  # Never lets other threads run.

        def start(self):
            self.child = subprocess.Popen(['sleep', '1000']).pid

    workers = [ExternalProcess(Env) for _ in range(4)]
    blocks = [worker.attach() for worker in workers]
    promises = [
        worker.step(action, blocking=False)
        for action, worker in enumerate(workers)
    ]
    promises[0]()
    promises[3]()
    late = [ExternalProcess(lambda: time.sleep(1000))]  # Yet to be up.
    pids = [worker.pid for worker in workers + late]
    print(json.dumps([*pids, workers[3].child]), flush=True)
    if 'stay' in sys.argv:
        time.sleep(1000)
"""


@pytest.fixture
def parent(tmp_path):
    """A program that starts workers and tells their numbers."""
    path = tmp_path / 'parent.py'
    path.write_text(textwrap.dedent(PROGRAM))
    return path


def test_nothing_survives_a_killed_parent(nothing_left, parent, start_python):
    process = start_python(parent, 'stay')
    pids = json.loads(process.read_until('['))
    assert len(pids) == 6 and all(is_alive(pid) for pid in pids)
    process.kill()
    process.wait()
    assert_over_soon(pids)


@pytest.fixture
def lacking(tmp_path, monkeypatch):
    """Lets programs lack what other systems do."""
    (tmp_path / 'sitecustomize.py').write_text(
        'import ctypes, fcntl, os\n'
        'del fcntl.F_SETSIG, os.sched_setaffinity\n'
        'ctypes.CDLL = lambda *args: object()\n'
    )
    monkeypatch.setenv('PYTHONPATH', str(tmp_path))


def test_functions_that_a_system_may_lack(start, lacking):
    process = start(core=0)
    assert 'sitecustomize' in process.call('modules')
    assert process.call('group') == process.pid


CLOSING = """
    import os, sys, time
    import gymnasium as gym
    import numpy as np
    from agents.tools.workers.external_process import ExternalProcess

    class Env(gym.Env):
        observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        action_space = gym.spaces.Discrete(4)

        def step(self, action):
            print(os.getpid(), flush=True)
            os.closerange(0, 1000)
            time.sleep(1000)

    process = ExternalProcess(Env)
    process.step(0)
"""


def test_worker_that_closed_its_descriptors_ends_with_its_parent(
    nothing_left, tmp_path, start_python
):
    path = tmp_path / 'parent.py'
    path.write_text(textwrap.dedent(CLOSING))
    process = start_python(path)
    pid = int(process.stdout.readline())
    time.sleep(0.2)
    assert is_alive(pid)
    process.kill()
    process.wait()
    assert_over_soon([pid])


def test_parent_that_is_gone_before_its_worker_is_up(nothing_left, tmp_path, run_python):
    path = tmp_path / 'parent.py'
    path.write_text(
        'import os\n'
        'from agents.tools.workers.external_process import ExternalProcess\n'
        'pids = [ExternalProcess(dict)._process.pid for _ in range(5)]\n'
        'print(pids, flush=True)\n'
        'os.kill(os.getpid(), 9)\n'
    )
    assert_over_soon(json.loads(run_python(path).output))


def test_worker_that_a_thread_started_outlives_the_thread(nothing_left):
    started = []

    def run():
        started.append(ExternalProcess(Witness))
        started[0].call('group')  # It is up, and knows its parent.

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    time.sleep(0.1)
    assert started[0].call('group') == started[0].pid
    started[0].close()


def test_nothing_survives_a_parent_that_forgets_to_close(nothing_left, parent, run_python):
    result = run_python(parent, timeout=60)
    assert (result.code, result.problems) == (0, '')
    assert_over_soon(json.loads(result.output))


def assert_over_soon(pids):
    """Asserts that they end, also those that are yet to be up."""
    give_up = time.monotonic() + 20
    while alive := [pid for pid in pids if is_alive(pid)]:
        assert time.monotonic() < give_up, alive
        time.sleep(0.01)


def is_alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
