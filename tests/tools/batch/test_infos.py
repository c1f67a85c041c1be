"""Numbers of infos: found, carried beside replies, and averaged."""

import functools
import math
import os
import signal

import gymnasium as gym
import numpy as np
import pytest

from agents.tools import BatchEnv, EnvError, ExternalProcess
from agents.tools.batch import env_slice, infos
from agents.tools.workers import block
from agents.tools.workers.restarts import Restarts

NAN = math.nan


def written(info, *names):
    writer, rows = infos.Writer(names), np.zeros((2, len(names)), np.float32)
    writer.attach(rows)
    writer.write(1, info)
    assert np.isnan(rows[0]).all()
    return rows[1].tolist(), sorted(writer.seen)


@pytest.mark.parametrize(
    'value, expected',
    [
        (0.5, 0.5),
        (3, 3.0),
        (True, 1.0),
        (np.bool_(False), 0.0),
        (np.float64(-0.25), -0.25),
        (np.array(7, np.uint8), 7.0),
        (math.inf, math.inf),
    ],
)
def test_numbers_of_every_type(value, expected):
    assert written({'x': value}, 'x') == ([expected], [])


@pytest.mark.parametrize('value', [NAN, None])
def test_what_is_not_known_counts_as_absent(value):
    (number,), seen = written({'x': value, 'y': 1}, 'x')
    assert math.isnan(number) and seen == ['x', 'y']


@pytest.mark.parametrize('value', ['1', [1.0], np.zeros(1), 1j, {'y': 1}], ids=repr)
def test_what_is_no_number_is_named(value):
    with pytest.raises(TypeError, match=r"info\['x'\] is .* asks for a number"):
        written({'x': value}, 'x')


def test_numbers_within_other_parts():
    info = {'a': {'b': {'c': 1}, 'd': 2}, 'a/d': 3, 'e': 4}
    numbers, seen = written(info, 'a/b/c', 'a/d', 'e/f', 'a/x')
    assert numbers[:2] == [1, 3] and np.isnan(numbers[2:]).all()
    assert seen == ['a/b/c', 'a/d', 'e']


def test_means_are_over_the_steps_that_had_a_number():
    means = infos.Means(['x', 'late'], 2)
    over = np.zeros(2, bool)
    means.add(np.float32([[1, NAN], [3, NAN]]), over)
    means.add(np.float32([[NAN, NAN], [5, 7]]), over)
    assert means.take() == ([9.0, 7.0], [3.0, 1.0])
    assert means.take() == ([0.0, 0.0], [0.0, 0.0])


def test_episodes_beyond_those_that_count_are_left_out():
    means = infos.Means(['x'], 3)
    means.restart(episodes=1)
    for number, over in (
        ([1, 10, 100], [False, True, False]),
        ([2, 20, 200], [True, True, False]),
        ([4, 40, 400], [False, False, False]),
    ):
        means.add(np.float32(number)[:, None], np.array(over))
    # The second ends with its first step, the first with its second.
    assert means.take() == ([1 + 10 + 2 + 100 + 200 + 400], [6.0])
    means.restart()
    means.add(np.ones((3, 1), np.float32), np.ones(3, bool))
    means.add(np.ones((3, 1), np.float32), np.ones(3, bool))
    assert means.take() == ([6.0], [6.0])


def test_block_has_them_beside_the_reply():
    spaces = gym.spaces.Box(-1, 1, (3,)), gym.spaces.Discrete(2)
    plain, more = block.Block(*spaces, 4), block.Block(*spaces, 4, infos=2)
    assert plain.infos.shape == (4, 0) and more.infos.shape == (4, 2)
    assert block.Block.size(*spaces, 4) < block.Block.size(*spaces, 4, 2)
    shapes = [[m.shape for m in each.matrices] for each in (plain, more)]
    assert shapes[0] == shapes[1]
    more.infos[:] = 9
    assert not any(matrix.any() for matrix in more.matrices)


class Telling(gym.Env):
    """Tells the time at each step, and at the end of an episode its length."""

    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, length, odd=None):
        self._length, self._odd = length, odd

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return np.zeros(1, np.float32), {'time': 1000}

    def step(self, action):
        self._time += 1
        info = {'time': self._time, 'pid': os.getpid()}
        if self._odd is not None:
            info = self._odd
        over = self._time == self._length
        if over:
            info['length'] = self._length
        return np.zeros(1, np.float32), 0.0, over, False, info


NAMES = ['time', 'length', 'pace']


@pytest.fixture
def combine():
    """A function that makes a batch of telling ones, which is closed."""
    batches = []

    def make(workers, *constructors, restarts=None):
        if workers:
            members = [
                ExternalProcess([each], first=index, log_info=NAMES)
                for index, each in enumerate(constructors)
            ]
        else:
            members = [env_slice.EnvSlice(constructors, log_info=NAMES)]
        batches.append(BatchEnv(members, restarts=restarts))
        batches[-1].reset()
        return batches[-1]

    yield make
    for batch in batches:
        batch.close()


@pytest.mark.parametrize('workers', [False, True])
def test_from_environments_to_means(combine, workers):
    make = [functools.partial(Telling, length) for length in (2, 3)]
    batch = combine(workers, *make)
    for _ in range(4):
        batch.step([0, 0])
    # The times are 1 2 1 2 and 1 2 3 1. What resets tell does not count.
    assert batch.infos.take() == ([13.0, 7.0, 0.0], [8.0, 3.0, 0.0])
    assert batch.info_names() == ['length', 'pid', 'time']


@pytest.mark.parametrize('workers', [False, True])
@pytest.mark.parametrize(
    'odd, message',
    [
        ({'time': 'noon'}, r"Environment 1: info\['time'\] is 'noon', where"),
        ('nothing', "Environment 1: the info should be a dict, not 'nothing'"),
    ],
)
def test_what_is_no_number_names_the_environment(combine, workers, odd, message):
    make = [functools.partial(Telling, 2, odd) for odd in (None, odd)]
    batch = combine(workers, *make)
    with pytest.raises(EnvError, match=f'^{message}'):
        batch.step([0, 0])


def test_step_that_is_lost_tells_nothing(combine):
    make = [functools.partial(Telling, 9)] * 2
    batch = combine(True, *make, restarts=Restarts(1))
    batch.infos.restart(episodes=1)
    batch.step([0, 0])
    os.kill(batch._members[1].pid, signal.SIGKILL)
    batch.step([0, 0])
    batch.step([0, 0])
    # The times are 1 2 3 and 1 - 1; the episode after it counts instead.
    assert batch.infos.take() == ([8.0, 0.0, 0.0], [5.0, 0.0, 0.0])
