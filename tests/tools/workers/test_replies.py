"""Replies of workers that are wrong, late or never come."""

import functools
import os
import signal
import sys
import threading
import time

import cloudpickle
import numpy as np
import psutil
import pytest

from agents.tools import errors
from agents.tools.batch.batch_env import BatchEnv
from agents.tools.batch.mock_counting import Acting, Replying

# Workers cannot import this file, so what it defines is sent to them whole.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def sleep():
    time.sleep(1000)


def raise_plain():
    raise ValueError('a plain mistake')


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def is_alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_broken_contract_in_a_worker(combine, in_workers):
    bad = functools.partial(Replying, step=(np.zeros(1), 0.0, False, False, {}))
    batch = combine(in_workers([Replying, Replying, bad], 2))
    batch.reset()
    with pytest.raises(errors.EnvError, match='Environment 2 broke the'):
        batch.step([0, 0, 0])


@pytest.mark.parametrize(
    'act, told',
    [
        (raise_plain, r'(?s)Environment 3 .*in raise_plain.*a plain mistake'),
        (die, 'was killed by SIGKILL while environment 3 was at work'),
        (lambda: os._exit(0), 'exited with code 0 while environment 3'),
        (sleep, 'Environment 3 did not answer within 0.4 seconds'),
    ],
    ids=['raise', 'kill', 'exit', 'sleep'],
)
def test_fault_of_one_ends_all(combine, in_workers, act, told):
    good, bad = Acting, functools.partial(Acting, act=act)
    # The one before it in its worker has written its part of the reply.
    timeout = 0.4 if act is sleep else 20.0
    batch = combine(in_workers([good, good, good, bad], 2), timeout)
    pids = [env.call('pid') for env in batch]
    with pytest.raises(errors.EnvError, match=told):
        batch.step([0, 0, 0, 0])
    assert not any(is_alive(pid) for pid in pids)
    with pytest.raises(errors.EnvError, match='has been closed'):
        batch.step([0, 0, 0, 0])


def test_stopped_worker_runs_into_the_timeout(combine, in_workers):
    batch = combine(in_workers([Acting] * 2, 2), timeout=0.4)
    os.kill(batch[1].call('pid'), signal.SIGSTOP)
    with pytest.raises(errors.EnvError, match='Environment 1 did not answer'):
        batch.step([0, 0])


def test_late_reply_is_never_taken_for_a_newer_one(combine, in_workers, tmp_path):
    done = tmp_path / 'done'

    def act():
        time.sleep(0.5)
        done.touch()

    make = functools.partial(Acting, act=act)
    batch = combine(in_workers([make], 1), timeout=0.3)
    with pytest.raises(errors.EnvError, match='did not answer'):
        batch.step([0])
    time.sleep(0.4)
    assert not done.exists()  # The reply will never come.
    with pytest.raises(errors.EnvError, match='has been closed'):
        batch.step([0])


@pytest.mark.parametrize('forks', [False, True])
def test_killed_while_idle_is_seen_at_once_when_used(combine, in_workers, forks):
    def fork():  # A child that holds the connection open.
        if not os.fork():
            time.sleep(5)
            os._exit(0)

    act = fork if forks else bool
    make = functools.partial(Acting, act=act)
    batch = combine(in_workers([Acting, make], 2))
    batch.reset()
    batch.step([0, 0])
    os.kill(batch[1].call('pid'), signal.SIGKILL)
    time.sleep(0.1)
    used = time.monotonic()
    with pytest.raises(errors.EnvError, match='SIGKILL while environment 1'):
        batch.step([0, 0])
    assert time.monotonic() < used + 1


class Forking(Acting):
    """Forks itself in a step; the child goes on as if it were the parent."""

    def step(self, action):
        if self.time == 1:
            os.fork()
        return super().step(action)


def test_environment_that_returns_from_a_fork_twice(combine, in_workers):
    batch = combine(in_workers([Forking, Acting], 2))
    batch.reset()
    with pytest.raises(errors.EnvError, match='called os.fork, and both'):
        for _ in range(100):
            batch.step([0, 0])
            time.sleep(1e-3)
    assert batch._members[0]._number < 20


class Talkative(Acting):
    """Sends replies to the parent that nobody has asked for, now or later."""

    def step(self, action):
        reply = functools.partial(os.write, int(sys.argv[1]), b'd')
        if action:
            threading.Timer(0.05, reply).start()
        else:
            reply()
        return super().step(action)


@pytest.mark.parametrize(
    'late, others',
    [(False, bool), (True, bool), (True, functools.partial(time.sleep, 0.5))],
    ids=['before its own', 'between requests', 'after its own'],
)
def test_reply_to_another_request_is_told(combine, in_workers, late, others):
    envs = [functools.partial(Acting, act=others), Talkative]
    batch = combine(in_workers(envs, 2))
    batch.reset()
    with pytest.raises(errors.EnvError, match=r'of environment 1 replied to request \d when'):
        for _ in range(3):
            batch.step([late, late])
            time.sleep(0.1)
    with pytest.raises(errors.EnvError, match='has been closed'):
        batch.step([late, late])


class Unwilling:
    """Cannot be made an array."""

    def __array__(self, dtype=None, copy=None):
        raise MemoryError('hostile')


def test_unreadable_result_in_a_worker_names_the_environment(combine, in_workers):
    bad = functools.partial(Replying, step=(Unwilling(), 0.0, False, False, {}))
    batch = combine(in_workers([Replying, Replying, bad], 2))
    batch.reset()
    with pytest.raises(errors.EnvError, match='(?s)Environment 2 .*step.*MemoryError: hostile'):
        batch.step([0, 0, 0])


def test_fault_within_this_process(combine, in_workers):
    envs = [*in_workers([Acting] * 2, 1), Acting(), Acting(act=raise_plain)]
    batch = combine(envs)
    batch.reset()
    with pytest.raises(errors.EnvError, match=r'(?s)Environment 3.*a plain mis'):
        batch.step([0] * 4)


def test_failed_constructor_ends_the_others(nothing_left, in_workers):
    constructors = [Acting, raise_plain, Acting]
    with pytest.raises(errors.EnvError, match=r'(?s)Environment 1.*constructed'):
        BatchEnv(in_workers(constructors, 3))


def test_cancel_calls_off_a_step_that_sleeps(combine, when_exists, in_workers, tmp_path):
    begun = tmp_path / 'begun'

    def act():
        begun.touch()
        sleep()

    batch = combine(in_workers([functools.partial(Acting, act=act)], 1))
    batch.reset()
    when_exists(begun, batch.cancel)
    with pytest.raises(errors.Cancelled):
        batch.step([0])  # Does not take until the timeout, another error.
    with pytest.raises(errors.Cancelled):
        batch.step([0])
