"""Workers that are started anew, and how many may be."""

import functools
import gc
import os
import re
import signal
import sys
import time

import cloudpickle
import numpy as np
import pytest

from agents.tools import errors
from agents.tools.batch.mock_counting import Acting, Counting
from agents.tools.batch.mock_environment import MockEnvironment
from agents.tools.workers import block
from agents.tools.workers.restarts import Restarts

# Workers cannot import this file, so what it defines is sent to them whole.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

FIELDS = 'observ', 'reward', 'terminated', 'truncated', 'next_observ'


def spend(restarts, text='Environment 1 raised:\nTraceback\nValueError: no'):
    restarts.spend(errors.EnvError(text))


def test_none_by_default():
    with pytest.raises(errors.EnvError, match=r'^Environment 1 died\.$'):
        spend(Restarts(), 'Environment 1 died.')


def test_each_is_counted_and_told_in_a_line():
    told = []
    restarts = Restarts(3, told.append)
    spend(restarts)
    spend(restarts, 'Environment 2 died.')
    assert restarts.count == 2
    assert told == [
        'a worker is started anew, 1 of 3: Environment 1 raised: ValueError: no',
        'a worker is started anew, 2 of 3: Environment 2 died.',
    ]


def test_error_is_raised_when_none_is_left():
    restarts = Restarts(2)
    spend(restarts)
    spend(restarts)
    with pytest.raises(errors.EnvError) as caught:
        spend(restarts)
    assert str(caught.value) == (
        'Environment 1 raised:\nTraceback\nValueError: no\nIts worker was not '
        'started anew, since that has happened worker_restarts=2 times already.'
    )
    assert restarts.count == 2


def sleep():
    time.sleep(1000)


def raise_plain():
    raise ValueError('a plain mistake')


def die():
    os.kill(os.getpid(), signal.SIGKILL)


class Failing(Counting):
    """Fails in the second step, unless it has done so before.

    It leaves a file, so that the one in its place knows.
    """

    def __init__(self, path, fail, length=100):
        super().__init__(length)
        self.path, self.fail = path, fail

    def step(self, action):
        observ, *others = super().step(action)
        if self.time == 2 and not self.path.exists():
            self.path.touch()
            result = self.fail()
            observ = observ if result is None else result
        return observ, *others


def wrong_shape():
    return np.zeros(7, np.float32)


FAULTS = {
    'raise': (raise_plain, 'raised an error in step.*: ValueError: a plain'),
    'kill': (die, 'was killed by SIGKILL while environment 3 was at work'),
    'exit': (lambda: os._exit(5), 'exited with code 5 while environment 3'),
    'sleep': (sleep, 'Environment 3 did not answer within 3 seconds'),
    'contract': (wrong_shape, r'Environment 3 broke the contract.*\(7,\)'),
}


@pytest.mark.parametrize('fault', FAULTS)
@pytest.mark.parametrize('blocking', [False, pytest.param(True, marks=pytest.mark.slow)])
def test_step_is_lost_where_a_worker_is_started_anew(
    combine, in_workers, tmp_path, fault, blocking
):
    # The second of two workers fails in its second step. Of each environment
    # that it has, a new episode begins, and the others go on.
    #
    #   step             1      2      3
    #   next_observ      1,1    1,2    1,3      the first worker's
    #                    1,1    1,1    1,1      the second's
    #   observ           1,1    1,2    1,3
    #                    1,1    1,0    1,1
    act, reason = FAULTS[fault]
    good = functools.partial(Counting, 100)
    bad = functools.partial(Failing, tmp_path / 'failed', act)
    told = []
    restarts = Restarts(5, told.append)
    timeout = 3.0 if act is sleep else 20.0
    envs = in_workers([good, good, good, bad], 2)
    batch = combine(envs, timeout, blocking=blocking, restarts=restarts)
    batch.reset()
    steps = [packed(batch, batch.step_packed(ZEROS)) for _ in range(3)]
    table = {name: [step[name].tolist() for step in steps] for name in ALL}
    no, lost = [0.0] * 4, [0.0, 0.0, 1.0, 1.0]
    assert table == {
        'next_observ': [[[1, 1]] * 4, [[1, 2]] * 2 + [[1, 1]] * 2, [[1, 3]] * 2 + [[1, 1]] * 2],
        'observ': [[[1, 1]] * 4, [[1, 2]] * 2 + [[1, 0]] * 2, [[1, 3]] * 2 + [[1, 1]] * 2],
        'begins': [no, lost, no],
        'reward': [[10] * 4, [20, 20, 0, 0], [30, 30, 10, 10]],
        'terminated': [no, no, no],
        'truncated': [no, lost, no],
        'lost': [no, lost, no],
    }
    assert restarts.count == 1
    (line,) = told
    assert re.fullmatch(f'a worker is started anew, 1 of 5: .*{reason}.*', line)


ALL = (*FIELDS, 'begins', 'lost')
ZEROS = np.zeros(4, np.int32)


def packed(batch, matrices):
    return block.reply_layout(batch.observation_space).views(matrices)


def test_several_workers_are_started_anew_in_one_step(combine, in_workers):
    restarts = Restarts(5)
    envs = in_workers([functools.partial(Counting, 100)] * 4, 4)
    batch = combine(envs, restarts=restarts)
    batch.reset()
    for index in (0, 2, 3):
        os.kill(batch[index].call('pid'), signal.SIGKILL)
    reply = packed(batch, batch.step_packed(ZEROS))
    assert reply['lost'].tolist() == [1, 0, 1, 1]
    assert batch.call('time') == [0, 1, 0, 0]
    assert restarts.count == 3
    reply = packed(batch, batch.step_packed(ZEROS))
    assert reply['lost'].tolist() == [0, 0, 0, 0]
    assert reply['observ'].tolist() == [[1, 1], [1, 2], [1, 1], [1, 1]]


def test_worker_that_is_started_anew_for_a_reset_loses_no_step(combine, in_workers):
    envs = in_workers([functools.partial(Counting, 100)] * 4, 2)
    batch = combine(envs, restarts=Restarts(1))
    batch.reset()
    batch.step(ZEROS)
    os.kill(batch[3].call('pid'), signal.SIGKILL)
    mask = np.array([True, False, True, False])
    reply = packed(batch, batch.reset_packed(mask))
    # But for the environment that was not to be reset.
    assert reply['lost'].tolist() == reply['truncated'].tolist() == [0, 0, 0, 1]
    assert reply['begins'].tolist() == [1, 0, 1, 1]
    assert reply['observ'].tolist() == [[2, 0], [1, 1], [1, 0], [1, 0]]
    assert reply['next_observ'].tolist()[3] == [1, 1]


def first_observs(combine, in_workers, faults):
    """The first observations of a worker, and of those in its place."""
    batch = combine(in_workers([MockEnvironment] * 2, 1, [7, 8]), restarts=Restarts(9))
    found = [batch.reset()]
    for _ in range(faults):
        batch._members[0]._process.kill()
        found.append(batch.step(np.zeros((2, 2)))[0])
    return np.concatenate(found)


def test_episodes_of_a_worker_started_anew_are_others_and_repeatable(combine, in_workers):
    found = first_observs(combine, in_workers, 2)
    assert len(np.unique(found, axis=0)) == 6
    np.testing.assert_array_equal(found, first_observs(combine, in_workers, 2))


def test_storm_of_crashes_ends_with_the_error(combine, in_workers):
    envs = in_workers([Acting, functools.partial(Acting, act=die)], 2)
    told = []
    batch = combine(envs, restarts=Restarts(3, told.append))
    batch.reset()
    with pytest.raises(errors.EnvError) as caught:
        for _ in range(100):
            batch.step([0, 0])
    first, second = str(caught.value).splitlines()
    assert 'was killed by SIGKILL while environment 1 was at work' in first
    assert 'worker_restarts=3 times already' in second
    assert len(told) == 3
    with pytest.raises(errors.EnvError, match='has been closed'):
        batch.step([0, 0])


class Brittle(Acting):
    """Can be constructed, or reset, only once."""

    def __init__(self, path, moment, act):
        super().__init__(act=act)
        self.path, self.moment = path, moment
        self.play('construct')

    def reset(self, **kwargs):
        self.play('reset')
        return super().reset(**kwargs)

    def play(self, moment):
        if moment == self.moment:
            if self.path.exists():
                raise_plain()
            self.path.touch()


@pytest.mark.parametrize('moment', ['construct', 'reset'])
def test_errors_while_starting_anew_use_the_budget(combine, in_workers, tmp_path, moment):
    brittle = functools.partial(Brittle, tmp_path / 'once', moment, die)
    restarts = Restarts(4)
    batch = combine(in_workers([Acting, brittle], 2), restarts=restarts)
    batch.reset()
    with pytest.raises(errors.EnvError, match='(?s)a plain mistake.*worker_restarts=4 times'):
        batch.step([0, 0])
    assert restarts.count == 4


def test_worker_that_dies_while_it_starts_is_started_anew(combine, in_workers):
    processes = in_workers([Acting] * 2, 2)
    os.kill(processes[1].pid, signal.SIGKILL)
    restarts = Restarts(1)
    batch = combine(processes, restarts=restarts)
    batch.reset()
    batch.step([0, 0])
    assert restarts.count == 1


def test_mistake_at_the_start_is_not_tried_again(combine, in_workers):
    processes = in_workers([raise_plain], 1)
    restarts = Restarts(9)
    with pytest.raises(errors.EnvError, match='a plain mistake'):
        combine(processes, restarts=restarts)
    assert restarts.count == 0


def test_environments_of_this_process_are_not_started_anew(combine):
    restarts = Restarts(4)
    batch = combine([Acting(act=raise_plain)], restarts=restarts)
    batch.reset()
    with pytest.raises(errors.EnvError, match='a plain mistake'):
        batch.step([0])
    assert restarts.count == 0


def test_closed_batch_starts_nothing_anew(combine, in_workers):
    batch = combine(in_workers([Acting] * 2, 2), restarts=Restarts(4))
    batch.close()
    with pytest.raises(errors.EnvError, match='has been closed'):
        batch.step([0, 0])


def test_cancel_calls_off_a_start_that_hangs(combine, when_exists, in_workers, tmp_path):
    def make():
        if (tmp_path / 'once').exists():
            (tmp_path / 'again').touch()
            sleep()
        (tmp_path / 'once').touch()
        return Acting()

    batch = combine(in_workers([make], 1), restarts=Restarts(4))
    batch.reset()
    batch._members[0]._process.kill()
    when_exists(tmp_path / 'again', batch.cancel)
    with pytest.raises(errors.Cancelled):
        batch.step([0])  # Does not take until the timeout, another error.


def test_what_is_started_anew_leaves_no_descriptors(combine, in_workers):
    batch = combine(in_workers([Acting] * 2, 2), restarts=Restarts(9))
    batch.reset()
    gc.collect()  # What other tests have left would go at any time.
    counts = []
    for _ in range(3):
        os.kill(batch[1].call('pid'), signal.SIGKILL)
        batch.step([0, 0])
        counts.append(len(os.listdir('/proc/self/fd')))
    assert counts[0] == counts[2]
