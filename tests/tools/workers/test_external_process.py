"""Environments in other processes, well-behaved and hostile ones."""

import contextlib
import ctypes
import functools
import gc
import os
import pathlib
import resource
import signal
import subprocess
import sys
import threading
import time

import cloudpickle
import gymnasium as gym
import numpy as np
import psutil
import pytest

from agents.tools import errors
from agents.tools.batch.batch_env import BatchEnv
from agents.tools.workers import channel, launch
from agents.tools.workers.external_process import ExternalProcess

# Workers cannot import this file, so what it defines is sent to them whole.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

OBSERV = np.zeros(2, np.float32)


class Scripted(gym.Env):
    """Calls a given function when it is constructed, reset, stepped, closed."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, name='', **script):
        self.name = name
        self.script = script
        self.play('construct')

    def reset(self, *, seed=None, options=None):
        self.play('reset')
        return OBSERV, {}

    def step(self, action):
        self.play('step')
        return OBSERV, float(action), False, False, {}

    def close(self):
        self.play('close')

    def play(self, moment):
        self.script.get(moment, bool)()

    def combine(self, *args, **kwargs):
        return {'name': self.name, 'args': args, 'kwargs': kwargs}

    def large(self):
        return np.zeros(1_000_000)

    def itself(self):
        return self


class ManyArgumentsError(Exception):
    def __init__(self, first, second):
        super().__init__(f'{first} and {second}')
        self.lock = threading.Lock()  # Which cannot be pickled either.


class SpeechlessError(Exception):
    def __str__(self):
        raise RuntimeError('no words')


def raise_plain():
    raise ValueError('a plain mistake')


def raise_many():
    raise ManyArgumentsError('one', 'two')


def raise_speechless():
    raise SpeechlessError


def raise_interrupt():
    raise KeyboardInterrupt


def raise_undecodable():
    raise OSError(f'no file {os.fsdecode(bytes([255]))}')


def sleep():
    time.sleep(1000)


def wait_for(path):
    while not path.exists():
        time.sleep(0.001)


@pytest.fixture
def start(nothing_left):
    """Starts processes that are closed at the end, and leave nothing."""
    started = []

    def start(constructor, timeout=20.0, **kwargs):
        process = ExternalProcess(constructor, timeout=timeout, **kwargs)
        started.append(process)
        return started[-1]

    yield start
    for process in started:
        process.close()


def test_serves_as_the_environment(start):
    process = start(functools.partial(gym.make, 'CartPole-v1'))
    env = gym.make('CartPole-v1')
    assert process.observation_space == env.observation_space
    assert process.action_space == env.action_space
    observ, info = process.reset(seed=3)
    np.testing.assert_array_equal(observ, env.reset(seed=3)[0])
    assert info == {}
    for action in (0, 1, 1):
        observ, *mine = process.step(action)
        expected, *others = env.step(action)
        np.testing.assert_array_equal(observ, expected)
        assert mine == others


def test_promise_is_returned_while_the_environment_works(start, tmp_path):
    go_on = tmp_path / 'go_on'
    process = start(functools.partial(Scripted, step=lambda: wait_for(go_on)))
    promise = process.step(2, blocking=False)
    go_on.touch()  # A call that waited for the step would not get here.
    observ, reward, terminated, truncated, _ = promise()
    assert (observ.tolist(), reward) == ([0.0, 0.0], 2.0)
    assert (terminated, truncated) == (False, False)


def test_promise_of_a_reset(start):
    promise = start(Scripted).reset(blocking=False, seed=1)
    assert promise()[0].tolist() == [0.0, 0.0]


def test_one_outstanding_request(start):
    process = start(Scripted)
    promise = process.step(1, blocking=False)
    with pytest.raises(RuntimeError, match='one outstanding request'):
        process.step(2)
    with pytest.raises(RuntimeError, match='one outstanding request'):
        process.attach()
    assert promise()[1] == 1.0
    assert process.step(2)[1] == 2.0


def test_promise_is_kept_once_and_only_with_its_own_reply(start):
    process = start(Scripted)
    first = process.step(1, blocking=False)
    first()
    with pytest.raises(RuntimeError, match='has been taken'):
        first()
    second = process.step(2, blocking=False)
    with pytest.raises(RuntimeError, match='has been taken'):
        first()
    assert second()[1] == 2.0


def test_attributes_are_those_of_the_environment(start):
    process = start(functools.partial(gym.make, 'CartPole-v1'))
    assert process.gravity == 9.8  # Of the environment within the wrappers.
    assert process.call('has_wrapper_attr', 'gravity') is True
    assert not hasattr(process, 'levity')
    assert process.gravity == 9.8  # The process is still fine.


def test_private_attributes_are_not_asked_for(start):
    with pytest.raises(AttributeError, match='ExternalProcess'):
        start(Scripted)._hidden  # noqa: B018


def test_calls_reach_one_environment_of_several(start):
    constructors = [functools.partial(Scripted, name) for name in 'abc']
    process = start(constructors)
    assert len(process) == 3
    found = process.call('combine', 1, (2.5, None), index=1, key=[True])
    assert found == {
        'name': 'b', 'args': (1, (2.5, None)), 'kwargs': {'key': [True]}
    }  # fmt: skip
    assert process.call('name', index=2) == 'c'


def test_values_that_cannot_leave_the_process(start):
    process = start(Scripted)
    with pytest.raises(AttributeError, match='cannot leave its process'):
        process.call('itself')
    assert process.step(1)[1] == 1.0


@pytest.mark.parametrize('moment', ['construct', 'reset', 'step'])
def test_errors_are_raised_with_their_traceback(start, moment):
    harmful = functools.partial(Scripted, **{moment: raise_plain})
    process = start(harmful, first=7)
    with pytest.raises(errors.EnvError) as caught:
        process.reset()
        process.step(0)
    message = str(caught.value)
    assert 'Environment 7' in message and moment in message
    assert 'in raise_plain' in message
    assert 'ValueError: a plain mistake' in message


@pytest.mark.parametrize(
    'harm, told',
    [
        (raise_many, 'ManyArgumentsError: one and two'),
        (raise_speechless, 'SpeechlessError'),
        (raise_undecodable, r'OSError: no file \\udcff'),
        (lambda: sys.exit(3), 'Environment 0 raised(.|\n)*SystemExit: 3'),
        (raise_interrupt, 'Environment 0 raised(.|\n)*KeyboardInterrupt'),
    ],
)
def test_errors_of_any_kind_are_told(start, harm, told):
    process = start(functools.partial(Scripted, step=harm))
    with pytest.raises(errors.EnvError, match=told):
        process.step(0)


def test_process_is_over_after_an_error(start):
    process = start(functools.partial(Scripted, reset=raise_plain))
    with pytest.raises(errors.EnvError, match='plain mistake'):
        process.reset()
    with pytest.raises(errors.EnvError, match='exited with code 0'):
        process.reset()
    with pytest.raises(errors.EnvError, match='has been closed'):
        process.reset()


def test_failed_constructor_is_told_once_and_then_closed(start):
    process = start(functools.partial(Scripted, construct=raise_plain))
    with pytest.raises(errors.EnvError, match='plain mistake'):
        process.observation_space  # noqa: B018
    with pytest.raises(errors.EnvError, match='has been closed'):
        process.action_space  # noqa: B018


@pytest.mark.parametrize(
    'harm, told',
    [
        (lambda: os._exit(0), 'exited with code 0'),
        (lambda: ctypes.string_at(0), 'was killed by SIGSEGV'),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), 'killed by SIGKILL'),
    ],
    ids=['exit', 'segmentation fault', 'kill'],
)
@pytest.mark.parametrize('moment', ['construct', 'step'])
def test_death_is_told_with_the_code_or_signal(start, moment, harm, told):
    good = Scripted
    bad = functools.partial(Scripted, **{moment: harm})
    process = start([good, bad], first=4)
    with pytest.raises(errors.EnvError, match=told) as caught:
        process.call('step', 0, index=1)
    assert 'environment 5 was at work' in str(caught.value)


def test_killed_while_idle(start):
    process = start(Scripted)
    process.reset()
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(errors.EnvError, match='was killed by SIGKILL'):
        process.step(0)


def test_killed_while_in_a_step(start):
    process = start(functools.partial(Scripted, step=sleep))
    promise = process.step(0, blocking=False)
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(errors.EnvError, match='was killed by SIGKILL'):
        promise()


def test_death_is_noticed_though_a_fork_holds_the_connection(start):
    def fork_and_die():
        if os.fork():
            os._exit(9)
        sleep()

    process = start(functools.partial(Scripted, step=fork_and_die))
    with pytest.raises(errors.EnvError, match='exited with code 9'):
        process.step(0)


def test_program_that_does_not_start(nothing_left, monkeypatch):
    monkeypatch.setattr(sys, 'executable', '/bin/false')
    large = np.zeros(1_000_000)  # The process is gone before it is all sent.
    process = ExternalProcess(lambda: Scripted(str(large)))
    with pytest.raises(errors.EnvError, match='exited with code 1'):
        process.reset()


def test_constructor_that_cannot_be_sent(nothing_left):
    lock = threading.Lock()
    with pytest.raises(errors.ConfigError, match='cannot be sent'):
        ExternalProcess(lambda: Scripted(str(lock)))


@pytest.mark.parametrize('moment', ['construct', 'reset', 'step'])
def test_sleep_without_end_runs_into_the_timeout(start, moment):
    process = start(functools.partial(Scripted, **{moment: sleep}), first=2, timeout=0.5)
    with pytest.raises(errors.EnvError) as caught:
        process.reset()
        process.step(0)
    assert 'Environment 2 did not answer within 0.5 s' in str(caught.value)
    assert not psutil.pid_exists(process.pid)


def test_timeout_before_the_process_is_up(start):
    with pytest.raises(errors.EnvError, match='did not answer'):
        start(Scripted, timeout=0.001).reset()


LARGE = np.zeros(1_000_000)  # More than fits into the connection.


def stop_while_sending(process):
    """Stop a worker that has more to send than fits into the connection."""
    while not channel.is_readable(process.descriptors()[0]):
        time.sleep(0.01)
    time.sleep(0.1)
    os.kill(process.pid, signal.SIGSTOP)


def test_stopped_while_it_sends_a_large_value(start):
    process = start(Scripted, first=2, timeout=1.0)
    promise = process.call('large', blocking=False)
    stop_while_sending(process)
    with pytest.raises(errors.EnvError, match='Environment 2 did not answer'):
        promise()
    assert not psutil.pid_exists(process.pid)


def test_stopped_while_it_sends_its_spaces(start):
    class Wide(Scripted):
        observation_space = gym.spaces.Box(-1.0, 1.0, LARGE.shape)

    process = start(Wide, first=2, timeout=1.0)
    stop_while_sending(process)
    with pytest.raises(errors.EnvError, match='Environment 2 did not answer'):
        process.observation_space  # noqa: B018
    assert not psutil.pid_exists(process.pid)


def test_stopped_while_it_is_sent_a_large_constructor(nothing_left, monkeypatch):
    def stopped(first):
        worker = start(first)
        os.kill(worker.process.pid, signal.SIGSTOP)
        return worker

    start = launch.start
    monkeypatch.setattr(launch, 'start', stopped)
    make = functools.partial(Scripted, str(list(LARGE)))
    with pytest.raises(errors.EnvError, match='Environment 2 did not answer'):
        ExternalProcess(make, first=2, timeout=0.5)


def test_stopped_while_it_is_sent_a_large_argument(start):
    process = start(Scripted, first=2, timeout=1.0)
    process.reset()
    os.kill(process.pid, signal.SIGSTOP)
    with pytest.raises(errors.EnvError, match='Environment 2 did not answer'):
        process.call('combine', LARGE)
    assert not psutil.pid_exists(process.pid)


@pytest.fixture
def allow_files():
    """A function that sets how many descriptors there may be."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)

    def allow(count):
        if before[1] not in (-1, resource.RLIM_INFINITY) and count > before[1]:
            pytest.skip(f'No more than {before[1]} descriptors are allowed.')
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, before[1]))

    yield allow
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_descriptors_of_any_number(start, allow_files):
    allow_files(2000)
    with contextlib.ExitStack() as stack:
        for _ in range(1100):
            stack.enter_context(open(os.devnull))
        process = start([Scripted] * 2)
        assert min(process.descriptors()) > 1024
        batch = BatchEnv([process])
        batch.reset()
        batch.step([0, 1])
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(errors.EnvError, match='was killed by SIGKILL'):
            batch.step([0, 1])


@pytest.mark.parametrize('spare', range(2, 8))
def test_too_few_descriptors_leave_nothing(nothing_left, allow_files, spare):
    gc.collect()
    before = len(os.listdir('/proc/self/fd')) - 1
    allow_files(before + spare)
    with pytest.raises(errors.EnvError) as caught:
        ExternalProcess(Scripted, first=3).attach()
    allow_files(1000)
    assert 'Too many open files' in str(caught.value)
    del caught  # Which has the frames.
    gc.collect()
    assert len(os.listdir('/proc/self/fd')) - 1 == before


def test_as_many_descriptors_as_are_said(start):
    gc.collect()
    before = len(os.listdir('/proc/self/fd'))
    process = start(Scripted)
    process.attach()
    memory = process.attach()
    assert memory is not None
    assert len(os.listdir('/proc/self/fd')) - before <= launch.DESCRIPTORS


@pytest.mark.parametrize('name', ['memfd_create', 'posix_fallocate', 'pidfd_open', 'waitid'])
def test_function_that_a_system_may_lack(start, monkeypatch, name):
    monkeypatch.delattr(os, name)
    process = start([Scripted] * 2)
    batch = BatchEnv([process])
    batch.reset()
    batch.step([0, 1])
    batch.close()
    assert not psutil.pid_exists(process.pid)
    process = start(functools.partial(Scripted, step=lambda: os._exit(9)))
    with pytest.raises(errors.EnvError, match='exited with code 9'):
        process.step(0)


def test_error_in_close_is_told_in_a_line(start, capfd):
    process = start([Scripted, functools.partial(Scripted, close=raise_plain)])
    process.reset()
    process.close()
    assert capfd.readouterr().err == (
        'Environment 1 raised an error in close: ValueError: a plain mistake\n'
    )


def test_close_closes_the_environment(start, tmp_path):
    closed = tmp_path / 'closed'
    process = start(functools.partial(Scripted, close=closed.touch))
    process.reset()
    process.close()
    assert closed.exists()
    process.close()  # Once more does no harm.
    with pytest.raises(errors.EnvError, match='has been closed'):
        process.step(0)


def test_close_that_hangs_and_ignores_signals(start):
    def hang():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sleep()

    process = start(functools.partial(Scripted, close=hang))
    process.reset()
    process.close()
    assert not psutil.pid_exists(process.pid)


def test_busy_process_is_closed_at_once(start, tmp_path):
    closed = tmp_path / 'closed'
    process = start(functools.partial(Scripted, step=sleep, close=closed.touch))
    promise = process.step(0, blocking=False)
    process.begin_close()
    assert not psutil.pid_exists(process.pid)  # There was nothing to wait for.
    process.close()
    assert not closed.exists()
    with pytest.raises(errors.EnvError, match='has been closed'):
        promise()


def test_forgotten_process_ends(nothing_left):
    process = ExternalProcess(Scripted)
    process.reset()
    pid = process.pid
    del process
    gc.collect()
    assert not psutil.pid_exists(pid)


def test_file_descriptors_are_closed():
    def count():
        gc.collect()
        return len(list(pathlib.Path('/proc/self/fd').iterdir()))

    before = count()
    for harm in ({}, {'step': raise_plain}, {'step': lambda: os._exit(0)}):
        process = ExternalProcess(functools.partial(Scripted, **harm))
        process.attach()
        with contextlib.suppress(errors.EnvError):
            process.step(0)
        process.close()
        del process
    assert count() == before


@pytest.mark.parametrize('close', [True, False])
def test_what_an_environment_has_started_ends_with_it(start, close):
    class Starting(Scripted):
        def step(self, action):
            self.child = subprocess.Popen(['sleep', '1000']).pid
            return super().step(action)

    process = start(Starting)
    process.step(0)
    child = psutil.Process(process.child)
    if not close:
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(errors.EnvError, match='SIGKILL'):
            process.step(0)
    process.close()
    assert is_over(child)


DAEMON = """
import os, subprocess, sys
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
with open(sys.argv[1] + '.tmp', 'w') as file:
    file.write(str(os.getpid()))
os.rename(sys.argv[1] + '.tmp', sys.argv[1])
os.execlp('sleep', 'sleep', '1000')
"""


class Detaching(Scripted):
    """Starts a process that detaches itself from everything."""

    def __init__(self, path, **script):
        super().__init__(**script)
        subprocess.run([sys.executable, '-c', DAEMON, str(path)], check=True)
        wait_for(path)


@pytest.mark.parametrize(
    'how', ['close', 'raise', 'exit', 'hang', pytest.param('timeout', marks=pytest.mark.slow)]
)
def test_detached_processes_end_with_the_worker(start, tmp_path, how):
    path = tmp_path / 'daemon'
    act = {'raise': raise_plain, 'exit': lambda: sys.exit(3)}.get(how, sleep)
    close = sleep if how == 'hang' else bool
    process = start(
        functools.partial(Detaching, path, step=act, close=close),
        timeout=2.0 if how == 'timeout' else 20.0,
    )
    process.reset()
    daemon = psutil.Process(int(path.read_text()))
    assert os.getsid(daemon.pid) not in (os.getsid(0), process.pid)
    if how not in ('close', 'hang'):
        with pytest.raises(errors.EnvError):
            process.step(0)
    process.close()
    assert is_over(daemon)


def is_over(process):
    """Whether it ended, though it may still wait to be taken note of."""
    give_up = time.monotonic() + 2
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > give_up:
            return False
        time.sleep(0.01)
    return True
