"""Random actions with and without masks."""

import gymnasium as gym
import numpy as np
import pytest

from agents.tools import errors
from agents.tools.checking.random_actions import RandomActions, as_given

spaces = gym.spaces
DISCRETE = spaces.Discrete(4, start=7)
MANY = spaces.MultiDiscrete([2, 3], start=[5, 0])


class Acting(gym.Env):
    """Has a space of actions, and a method for masks if one is given."""

    observation_space = spaces.Discrete(2)

    def __init__(self, space, mask=None):
        self.action_space = space
        if mask is not None:
            self.action_masks = lambda: mask


def sample(space, observ=None, info=None, count=60, method=None):
    actions = RandomActions(Acting(space, method), seed=0)
    return actions, [actions.sample(observ, info) for _ in range(count)]


@pytest.mark.parametrize('space', [DISCRETE, MANY, spaces.MultiBinary(3), spaces.Box(-1, 1, (2,))])
def test_actions_are_of_their_space_and_repeat(space):
    actions, sampled = sample(space, {}, {})
    assert all(action in space for action in sampled)
    assert not actions.masked
    np.testing.assert_array_equal(sampled, sample(space)[1])


MASK = {'action_mask': np.int8([0, 1, 0, 1])}
OTHER = {'action_mask': np.int8([1, 0, 0, 0])}


@pytest.mark.parametrize(
    'place, given',
    [
        ('observation', {'observ': MASK, 'info': OTHER}),
        ('info', {'observ': np.zeros(2), 'info': MASK}),
        ('method action_masks()', {'method': MASK['action_mask']}),
    ],
)
def test_mask_is_kept_to(place, given):
    actions, sampled = sample(DISCRETE, **given)
    assert set(map(int, sampled)) == {8, 10}
    assert all(action in DISCRETE for action in sampled)
    assert actions.masked == place
    assert np.mean(actions.possible) == 0.5


@pytest.mark.parametrize('mask', [[1, 0, 0, 1, 1], (np.array([1, 0]), np.array([0, 1, 1]))])
def test_mask_of_several_choices(mask):
    _, sampled = sample(MANY, None, {'action_mask': mask})
    assert {tuple(map(int, action)) for action in sampled} == {(5, 1), (5, 2)}
    assert all(action in MANY for action in sampled)


@pytest.mark.parametrize(
    'mask, message',
    [
        ([1, 1, 1], 'in the info the action_mask should have 4 numbers for Discr'),
        ([0, 0, 0, 0], 'action_mask of the info allows no action at all'),
    ],
)
def test_impossible_mask(mask, message):
    with pytest.raises(errors.EnvError, match=message):
        sample(DISCRETE, None, {'action_mask': mask})


def test_box_has_no_mask():
    actions, _ = sample(spaces.Box(-1, 1, (2,)), {'action_mask': [0, 0]})
    assert not actions.masked


def test_actions_are_given_as_a_training_gives_them():
    assert type(as_given(DISCRETE, np.int64(8))) is int
    action = np.float32([1, 2])
    assert as_given(spaces.Box(-1, 1, (2,)), action) is action
