"""Numbers that vectors tell in their infos."""

import functools
import math

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from agents.tools import errors
from agents.tools.batch.batch_env import BatchEnv
from agents.tools.batch.infos import LOST
from agents.tools.vector.mock_vector import FixedVector
from agents.tools.vector.vector_slice import VectorSlice

SAME, NEXT, DISABLED = (AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED)
NAN = math.nan
ENDED = {'terminated': np.array([False, True])}


class Telling(gym.Env):
    """Episodes of given lengths, of which it tells in its infos.

    What resets tell would be taken for numbers of steps.
    """

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, length):
        self._length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return np.zeros(1, np.float32), {'time': 1000}

    def step(self, action):
        self._time += 1
        info = {'time': self._time, 'parts': {'ten': 10}}
        over = self._time == self._length
        if over:
            info['good'] = np.bool_(True)  # Which becomes an object.
        return np.zeros(1, np.float32), 1.0, over, False, info


def vector_of(mode, *environments):
    return gym.vector.SyncVectorEnv(environments, autoreset_mode=mode)


def batch_of(make, **settings):
    batch = BatchEnv([VectorSlice(make, **settings)])
    batch.reset()
    return batch


def step(batch):
    shape = batch._actions_shape
    return batch._unpack(batch.step_packed(np.zeros(shape, np.int32)))


def test_names_may_be_anything():
    info = {0: np.zeros(2), '_0': np.ones(2, bool), 'x': np.zeros(2)}
    batch = batch_of(lambda: FixedVector(info=info), log_info=['y'])
    step(batch)
    assert {'0', 'x'} <= {*batch.info_names()}


class AsObjects(gym.vector.VectorWrapper):
    """Has the last infos as Gymnasium had them before 1.0."""

    def step(self, actions):
        *values, info = self.env.step(actions)
        if 'final_info' in info:
            last = np.full(self.num_envs, None, object)
            for row in np.flatnonzero(info['_final_info']):
                part = info['final_info']
                last[row] = {'time': part['time'][row], 'good': True}
            info = {**info, 'final_info': last}
        return *values, info


# The infos of two environments with episodes of two and of three steps: the
# time, ten, and whether the episode was good, which is known at its end.
WITHIN = [[[1, 10, NAN], [1, 10, NAN]], [[2, 10, 1], [2, 10, NAN]], [[1, 10, NAN], [3, 10, 1]]]
AFTER = [*WITHIN[:2], [[NAN, NAN, NAN], [3, 10, 1]]]


@pytest.mark.parametrize(
    'mode, wrap, expected',
    [
        (SAME, None, WITHIN),
        (SAME, AsObjects, WITHIN),
        (DISABLED, None, WITHIN),
        (NEXT, None, AFTER),
    ],
)
def test_numbers_are_those_of_the_step(mode, wrap, expected):
    def make():
        parts = [functools.partial(Telling, length) for length in (2, 3)]
        vector = vector_of(mode, *parts)
        return wrap(vector) if wrap else vector

    names = ['time', 'parts/ten', 'good', 'tim']
    batch = batch_of(make, log_info=names)
    rows = np.array(expected, float)
    if wrap:  # It leaves out the part of ten.
        rows[..., 1][~np.isnan(rows[..., 2])] = NAN
    for line in rows:
        step(batch)
        (found,) = batch._infos
        np.testing.assert_array_equal(found[:, :3], line)
    sums, counts = batch.infos.take()
    assert sums == [*np.nansum(rows, (0, 1)), 0]
    assert counts == [*(~np.isnan(rows)).sum((0, 1)), 0]
    seen = batch.info_names()
    assert {'time', 'parts/ten', 'good'} <= {*seen}
    assert not any(name.startswith(('_', 'final')) for name in seen)


LAST = {'final_obs': np.zeros((2, 1), np.float32)}


@pytest.mark.parametrize(
    'info, over, expected',
    [
        ({'x': np.int32([3, 4])}, False, [3, 4]),
        ({'a': {'x': np.float64([3, 1e99])}}, False, [3, math.inf]),
        ({'x': np.int32([3, 4]), '_x': np.array([True, False])}, False, [3, NAN]),
        ({'a': {'x': [3, 4]}, '_a': np.array([False, True])}, False, [NAN, 4]),
        ({'a': np.zeros(2)}, False, [NAN, NAN]),
        # Without a last info, that of the next episode is not taken for it.
        ({'x': np.int32([3, 4]), **LAST}, True, [3, NAN]),
        ({'x': np.int32([3, 4]), LOST: np.array([0, 1], bool)}, False, [3, NAN]),
    ],
)
def test_numbers_of_whole_arrays(info, over, expected):
    name = 'a/x' if 'a' in info else 'x'
    batch = batch_of(lambda: FixedVector(ENDED if over else {}, info), log_info=[name])
    step(batch)
    np.testing.assert_array_equal(batch._infos[0][:, 0], expected)


@pytest.mark.parametrize(
    'value, message',
    [
        (np.array([1, 'noon'], object), r"info\['x'\]\[1\] is 'noon', where"),
        (np.zeros(3), r'where log_info asks for a number of each of 2'),
        (1.5, r'is 1.5, where log_info asks for a number of each of 2'),
    ],
)
def test_what_is_no_number_is_refused(value, message):
    batch = batch_of(lambda: FixedVector(info={'x': value}), log_info=['x'], first=4)
    with pytest.raises(errors.EnvError, match=f'^The v.*4 to 5: .*{message}'):
        step(batch)
