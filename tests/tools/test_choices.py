"""Masks of choices: their forms, and states that leave none."""

import gymnasium as gym
import numpy as np
import pytest

from agents.tools import choices

ONE = gym.spaces.Discrete(3, start=5)
TWO = gym.spaces.MultiDiscrete([2, 3])
GRID = gym.spaces.MultiDiscrete([[2, 1], [1, 3]])


@pytest.mark.parametrize(
    'space, mask, expected',
    [
        (ONE, np.int8([0, 1, 1]), [0, 1, 1]),
        (ONE, [False, True, False], [0, 1, 0]),
        (ONE, np.float64([0, -0.5, 2]), [0, 1, 1]),
        (TWO, np.int8([1, 0, 0, 1, 1]), [1, 0, 0, 1, 1]),
        (TWO, (np.int8([1, 0]), np.int8([0, 1, 1])), [1, 0, 0, 1, 1]),
        (TWO, [np.array([True, False]), np.int8([0, 0, 1])], [1, 0, 0, 0, 1]),
        (TWO, [1, 0, 0, 1, 1], [1, 0, 0, 1, 1]),
        (GRID, ((np.int8([0, 1]), np.int8([1])),
                (np.int8([1]), np.int8([0, 0, 1]))), [0, 1, 1, 1, 0, 0, 1]),
    ],
)  # fmt: skip
def test_masks_of_every_form_become_bytes(space, mask, expected):
    flat = choices.flatten(mask, space)
    assert flat.dtype == np.uint8
    assert flat.tolist() == expected


def test_mask_for_a_sample_means_the_same():
    mask = np.int8([0, 1]), np.int8([1, 0, 0])
    (allowed,) = {tuple(TWO.sample(mask=mask)) for _ in range(20)}
    flat = choices.flatten(mask, TWO)
    assert flat[[allowed[0], 2 + allowed[1]]].all() and flat.sum() == 2


@pytest.mark.parametrize(
    'space, mask',
    [
        (ONE, [1, 1]),
        (ONE, np.ones(4)),
        (ONE, None),
        (ONE, ['a', 'b', 'c']),
        (TWO, np.ones(6)),
        # Together they are five, but not of which part.
        (TWO, (np.ones(3), np.ones(2))),
        (TWO, (np.ones(2),)),
    ],
)
def test_masks_that_do_not_fit_are_refused(space, mask):
    with pytest.raises(ValueError, match=r'should have \d numbers.* for .*Dis'):
        choices.flatten(mask, space)


@pytest.mark.parametrize('space, count', [(ONE, 3), (TWO, 5)])
def test_mask_that_is_no_number_is_refused(space, count):
    mask = np.ones(count)
    mask[1] = np.nan
    with pytest.raises(ValueError, match='action_mask has NaN'):
        choices.flatten(mask, space)


def test_large_mask_that_does_not_fit_is_told_in_a_line():
    with pytest.raises(ValueError, match='numbers for') as info:
        choices.flatten(np.ones((10, 90)), ONE)
    assert '\n' not in str(info.value)
    assert len(str(info.value)) < 200


@pytest.mark.parametrize('kind', [np.uint8, np.int32, np.float32])
def test_rows_without_a_choice_are_found(kind):
    alone, several = choices.Watch(ONE), choices.Watch(TWO)
    assert alone.first_stuck(np.eye(3, dtype=kind)) is None
    assert alone.first_stuck(np.array([[0, 1, 0], [0, 0, 0]], kind)) == (1, 0)
    # Of the second part, nothing is possible in the third row.
    rows = [[1, 0, 0, 0, 1], [0, 1, 1, 1, 1], [1, 1, 0, 0, 0]]
    assert several.first_stuck(np.array(rows, kind)) == (2, 1)
    assert several.first_stuck(np.array(rows[:2], kind)) is None
    assert several.first_stuck(np.zeros((0, 5), kind)) is None
