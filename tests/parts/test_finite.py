"""Numbers that can be learnt from, and what is found where they cannot."""

import numpy as np
import pytest

from agents.parts.record import first_nonfinite, is_finite
from agents.tools.graph.backend import compiled, tf

BAD = [np.nan, -np.nan, np.inf, -np.inf, 1e20, -1e20]
GOOD = [0.0, -0.0, 1e-45, 1e18, -1e18]


def in_the_middle(value):
    numbers = np.ones((4, 3, 2), np.float32)
    numbers[2, 1, 0] = value
    return numbers


@pytest.mark.parametrize('value', BAD)
def test_bad_numbers_are_found(value):
    numbers = in_the_middle(value)
    for function in (is_finite, compiled(is_finite)):
        assert not function([tf.constant(numbers)])
        assert not function([tf.ones((2, 2)), tf.constant(numbers)])
    assert first_nonfinite([numbers]) == (2, 0, 1)


@pytest.mark.parametrize('value', GOOD)
def test_good_numbers_are_sound(value):
    numbers = tf.constant(in_the_middle(value))
    for function in (is_finite, compiled(is_finite)):
        assert function([numbers])


def test_whole_numbers_are_sound():
    assert is_finite([tf.constant([2**31 - 1, -(2**31)])])


def test_first_is_by_time_and_then_by_order():
    good, late, early = np.ones((4, 3)), np.ones((4, 3)), np.ones((4, 3))
    late[3, 0] = early[1, 2] = np.nan
    assert first_nonfinite([good, late, early]) == (1, 2, 2)
    late[1, 1] = np.inf
    assert first_nonfinite([good, late, early]) == (1, 1, 1)
