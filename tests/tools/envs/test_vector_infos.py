"""What vectors tell in their infos: numbers, and masks of actions."""

import functools
import math

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from agents.tools import errors
from agents.tools.envs.batch_env import BatchEnv
from agents.tools.envs.vector_slice import LOST, VectorSlice

SAME, NEXT, DISABLED = (
    AutoresetMode.SAME_STEP,
    AutoresetMode.NEXT_STEP,
    AutoresetMode.DISABLED,
)
NAN = math.nan
MULTI = gym.spaces.MultiDiscrete([2, 3])


class Telling(gym.Env):
    """Episodes of given lengths, of which it tells in its infos.

    What resets tell would be taken for numbers of steps. The mask of a state
    has a choice by the time; at the end there is none.
    """

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, length, actions=None, is_dict=False, masks=True):
        self.action_space = actions or gym.spaces.Discrete(3)
        if is_dict:
            self.observation_space = gym.spaces.Dict(x=self.observation_space)
        self._length, self._is_dict, self._masks = length, is_dict, masks

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return self._observe(), {'time': 1000, **self._mask()}

    def step(self, action):
        self._time += 1
        info = {'time': self._time, 'parts': {'ten': 10}}
        over = self._time == self._length
        if over:
            info['good'] = np.bool_(True)  # Which becomes an object.
        elif self._masks:
            info.update(self._mask())
        return self._observe(), 1.0, over, False, info

    def _observe(self):
        observ = np.full(1, self._time / 10, np.float32)
        return {'x': observ} if self._is_dict else observ

    def _mask(self):
        mask = expected_mask(self._time)
        if isinstance(self.action_space, gym.spaces.MultiDiscrete):
            mask = np.int8([1, 0]), mask
        return {'action_mask': mask}


def expected_mask(time):
    return np.eye(3, dtype=np.int8)[time % 3]


def vector_of(mode, *environments):
    return gym.vector.SyncVectorEnv(environments, autoreset_mode=mode)


def batch_of(make, **settings):
    batch = BatchEnv([VectorSlice(make, **settings)])
    batch.reset()
    return batch


def step(batch):
    shape = batch._actions_shape
    return batch._unpack(batch.step_packed(np.zeros(shape, np.int32)))


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
WITHIN = [
    [[1, 10, NAN], [1, 10, NAN]],
    [[2, 10, 1], [2, 10, NAN]],
    [[1, 10, NAN], [3, 10, 1]],
]
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


class Fixed(gym.vector.VectorEnv):
    """Returns an info that it is given, as vectors do that have no masks."""

    metadata = {'autoreset_mode': SAME}  # noqa: RUF012
    num_envs = 2
    single_observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, info, over=False, first=None, actions=None):
        self.single_action_space = actions or gym.spaces.Discrete(3)
        self._info, self._first = info, first or {}
        self._over = np.array([False, over])

    def reset(self, *, seed=None, options=None):
        return np.zeros((2, 1), np.float32), self._first

    def step(self, actions):
        observ, no = np.zeros((2, 1), np.float32), np.zeros(2, bool)
        return observ, np.zeros(2), self._over, no, self._info


LAST = {'final_obs': np.zeros((2, 1), np.float32)}


@pytest.mark.parametrize(
    'info, over, expected',
    [
        ({'x': np.int32([3, 4])}, False, [3, 4]),
        ({'a': {'x': np.float64([3, 1e99])}}, False, [3, math.inf]),
        (
            {'x': np.int32([3, 4]), '_x': np.array([True, False])},
            False,
            [3, NAN],
        ),
        ({'a': {'x': [3, 4]}, '_a': np.array([False, True])}, False, [NAN, 4]),
        ({'a': np.zeros(2)}, False, [NAN, NAN]),
        # Without a last info, that of the next episode is not taken for it.
        ({'x': np.int32([3, 4]), **LAST}, True, [3, NAN]),
        (
            {'x': np.int32([3, 4]), LOST: np.array([0, 1], bool)},
            False,
            [3, NAN],
        ),
    ],
)
def test_numbers_of_whole_arrays(info, over, expected):
    name = 'a/x' if 'a' in info else 'x'
    batch = batch_of(lambda: Fixed(info, over), log_info=[name])
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
    batch = batch_of(lambda: Fixed({'x': value}), log_info=['x'], first=4)
    with pytest.raises(errors.EnvError, match=f'^The v.*4 to 5: .*{message}'):
        step(batch)


@pytest.mark.parametrize('is_dict', [False, True])
@pytest.mark.parametrize('actions', [None, MULTI], ids=['one', 'two'])
@pytest.mark.parametrize('mode', [SAME, NEXT, DISABLED])
def test_masks_are_those_of_the_state_to_act_on(mode, actions, is_dict):
    parts = [
        functools.partial(Telling, length, actions, is_dict)
        for length in (2, 3, 3)
    ]
    make = functools.partial(vector_of, mode, *parts)
    batch = batch_of(make, action_masks=True)
    plain = batch_of(make)
    name = 'x' if is_dict else 'observation'
    assert [*batch.observation_space] == sorted([name, 'action_mask'])
    for _ in range(7):
        reply, other = step(batch), step(plain)
        for where in ('observ', 'next_observ'):
            observ = other[where]['x'] if is_dict else other[where]
            np.testing.assert_array_equal(reply[where][name], observ)
        over = reply['terminated'] & ~reply['lost']
        assert not reply['next_observ']['action_mask'][over].any()
        # The end of an episode is acted on if the step after is ignored.
        acting = ~over if mode is NEXT else np.ones(3, bool)
        masks = reply['observ']['action_mask'][acting]
        times = np.rint(reply['observ'][name][acting, 0] * 10).astype(int)
        expected = [expected_mask(time).tolist() for time in times]
        assert masks[:, -3:].tolist() == expected
        if actions is not None:
            assert (masks[:, :2] == [1, 0]).all()


FIRST = {'action_mask': np.ones((2, 5), np.int8)}


@pytest.mark.parametrize(
    'told',
    [(np.ones((2, 2)), np.eye(3)[:2]), np.float32([[1, 1, 1, 0, 0]] * 2)],
)
def test_masks_of_several_parts(told):
    info = {'action_mask': told}
    batch = batch_of(
        lambda: Fixed(info, False, FIRST, MULTI), action_masks=True
    )
    masks = step(batch)['observ']['action_mask']
    assert masks[0].tolist() == [1, 1, 1, 0, 0] and masks.sum() == 6


@pytest.mark.parametrize(
    'info, message',
    [
        ({}, r"Environment 3: info\['action_mask'\] told .* after step"),
        (
            {**FIRST, '_action_mask': np.array([True, False])},
            'Environment 4: .* nothing in it after step',
        ),
        (
            {'action_mask': np.ones((2, 4))},
            'Environment 3: After step, the action_mask should have 5 numbers',
        ),
        (
            {'action_mask': np.float32([[1] * 5, [1, 0, np.nan, 0, 1]])},
            'Environment 4: After step, the action_mask has NaN',
        ),
        (
            {'action_mask': np.int8([[0, 1, 1, 0, 0], [1, 0, 0, 0, 0]])},
            'Environment 4 is in a state in which no choice.* for part 1, as',
        ),
    ],
)
def test_masks_that_are_none(info, message):
    make = functools.partial(Fixed, info, False, FIRST, MULTI)
    batch = batch_of(make, action_masks=True, first=3)
    with pytest.raises(errors.EnvError, match=message) as raised:
        step(batch)
    assert '\n' not in str(raised.value)


def test_stuck_state_at_the_beginning_is_refused():
    first = {'action_mask': np.int8([[1, 0, 0], [0, 0, 0]])}
    with pytest.raises(errors.EnvError, match='Environment 1 is in a state'):
        batch_of(lambda: Fixed({}, first=first), action_masks=True)


@pytest.mark.parametrize('lost', [False, True])
def test_nothing_need_be_possible_where_steps_are_lost(lost):
    mask = np.int8([[1, 0, 0], [0, 0, 0]])
    info = {'action_mask': mask, LOST: np.array([False, lost])}
    first = {'action_mask': np.ones((2, 3))}
    make = functools.partial(Fixed, info, first=first)
    batch = batch_of(make, action_masks=True)
    if lost:
        assert step(batch)['lost'].tolist() == [False, True]
    else:
        with pytest.raises(errors.EnvError, match='Environment 1 is in a stat'):
            step(batch)


def test_looking_for_masks_changes_no_episode():
    make = functools.partial(gym.make_vec, 'CartPole-v1', 2)
    found = [
        BatchEnv([VectorSlice(make, seed=3, action_masks=masks)])
        for masks in (True, False)
    ]
    for _ in range(2):
        np.testing.assert_array_equal(*[batch.reset() for batch in found])


def test_vector_is_closed_if_it_cannot_be_looked_at():
    vector = Fixed({}, first={'action_mask': np.ones((2, 4))})
    with pytest.raises(errors.EnvError, match='Environment 0: After reset, '):
        VectorSlice(lambda: vector, action_masks=True)
    assert vector.closed
