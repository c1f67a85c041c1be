"""Masks of actions that vectors tell."""

import functools

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
THREE, MULTI = gym.spaces.Discrete(3), gym.spaces.MultiDiscrete([2, 3])


class Masked(gym.Env):
    """Episodes of given lengths, of whose states it tells a mask.

    It has a choice by the time; at the end there is none.
    """

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, length, actions=THREE, is_dict=False, method=False):
        if method:  # As sb3-contrib has it.
            self.action_masks = lambda: self._mask().get('action_mask')
            self._tell = dict
        self.action_space = actions
        if is_dict:
            self.observation_space = gym.spaces.Dict(x=self.observation_space)
        self._length, self._is_dict = length, is_dict

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return self._observe(), self._tell()

    def step(self, action):
        self._time += 1
        over = self._time == self._length
        return self._observe(), 1.0, over, False, self._tell()

    def _observe(self):
        observ = np.full(1, self._time / 10, np.float32)
        return {'x': observ} if self._is_dict else observ

    def _mask(self):
        if self._time == self._length:
            return {}
        mask = expected_mask(self._time)
        if self.action_space == MULTI:
            mask = np.int8([1, 0]), mask
        return {'action_mask': mask}

    def _tell(self):
        return self._mask()


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


@pytest.mark.parametrize('method', [False, True])
@pytest.mark.parametrize('is_dict', [False, True])
@pytest.mark.parametrize('actions', [THREE, MULTI], ids=['one', 'two'])
@pytest.mark.parametrize('mode', [SAME, NEXT, DISABLED])
def test_masks_are_those_of_the_state_to_act_on(mode, actions, is_dict, method):
    parts = [functools.partial(Masked, length, actions, is_dict, method) for length in (2, 3, 3)]
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
        if actions is MULTI:
            assert (masks[:, :2] == [1, 0]).all()


FIRST = {'action_mask': np.ones((2, 5), np.int8)}


@pytest.mark.parametrize(
    'told', [(np.ones((2, 2)), np.eye(3)[:2]), np.float32([[1, 1, 1, 0, 0]] * 2)]
)
def test_masks_of_several_parts(told):
    info = {'action_mask': told}
    batch = batch_of(lambda: FixedVector({}, info, FIRST, actions=MULTI), action_masks=True)
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
    make = functools.partial(FixedVector, {}, info, FIRST, actions=MULTI)
    batch = batch_of(make, action_masks=True, first=3)
    with pytest.raises(errors.EnvError, match=message) as raised:
        step(batch)
    assert '\n' not in str(raised.value)


def test_stuck_state_at_the_beginning_is_refused():
    first = {'action_mask': np.int8([[1, 0, 0], [0, 0, 0]])}
    with pytest.raises(errors.EnvError, match='Environment 1 is in a state'):
        batch_of(lambda: FixedVector(first_info=first, actions=THREE), action_masks=True)


@pytest.mark.parametrize('lost', [False, True])
def test_nothing_need_be_possible_where_steps_are_lost(lost):
    mask = np.int8([[1, 0, 0], [0, 0, 0]])
    info = {'action_mask': mask, LOST: np.array([False, lost])}
    first = {'action_mask': np.ones((2, 3))}
    make = functools.partial(FixedVector, {}, info, first, actions=THREE)
    batch = batch_of(make, action_masks=True)
    if lost:
        assert step(batch)['lost'].tolist() == [False, True]
    else:
        with pytest.raises(errors.EnvError, match='Environment 1 is in a stat'):
            step(batch)


class WithMethod(FixedVector):
    """Has a method of the whole vector."""

    resets = 0

    def reset(self, **kwargs):
        self.resets += 1
        return super().reset(**kwargs)

    def action_masks(self):
        return self.told


def test_no_mask_is_needed_where_steps_are_lost():
    info = {
        'action_mask': np.ones((2, 5), np.int8),
        '_action_mask': np.array([True, False]),
        LOST: np.array([False, True]),
    }
    batch = batch_of(lambda: FixedVector({}, info, FIRST, actions=MULTI), action_masks=True)
    masks = step(batch)['observ']['action_mask']
    assert masks.tolist() == [[1] * 5, [0] * 5]


def test_masks_by_a_method_of_the_vector():
    vector = WithMethod(actions=MULTI)
    vector.told = [[1, 0, 1, 1, 0], [0, 1, 0, 0, 1]]
    batch = batch_of(lambda: vector, action_masks=True)
    assert vector.resets == 1  # It need not be looked for.
    vector.told = np.roll(vector.told, 1, 0)
    assert step(batch)['observ']['action_mask'].tolist() == vector.told.tolist()
    vector.told = None
    with pytest.raises(errors.EnvError, match=r'0: action_masks\(\) told .*step'):
        step(batch)


def test_masks_that_the_first_reset_did_not_tell_are_refused():
    info = {'action_mask': np.ones((2, 3), np.int8)}
    make = functools.partial(FixedVector, {}, info, actions=THREE)
    for ignored in (
        batch_of(make, action_masks=False),
        batch_of(lambda: FixedVector(info=info, actions=gym.spaces.Box(0, 1)), action_masks=True),
    ):
        step(ignored)
    batch = batch_of(make, action_masks=True, first=3)
    with pytest.raises(errors.EnvError, match=r'^The vector.*3 to 4: info.*after step, but the'):
        step(batch)


def test_looking_for_masks_changes_no_episode():
    make = functools.partial(gym.make_vec, 'CartPole-v1', 2)
    found = [BatchEnv([VectorSlice(make, seed=3, action_masks=masks)]) for masks in (True, False)]
    for _ in range(2):
        np.testing.assert_array_equal(*[batch.reset() for batch in found])


def test_vector_is_closed_if_it_cannot_be_looked_at():
    vector = FixedVector(first_info={'action_mask': np.ones((2, 4))})
    with pytest.raises(errors.EnvError, match='Environment 0: After reset, '):
        VectorSlice(lambda: vector, action_masks=True)
    assert vector.closed
