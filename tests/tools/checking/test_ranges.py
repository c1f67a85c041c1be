"""Ranges against NumPy, whatever is added in which order."""

import numpy as np
import pytest

from agents.tools.checking.ranges import Range


@pytest.mark.parametrize('offset', [0, 1e6])
def test_range_is_that_of_all_numbers(offset):
    values = np.random.default_rng(0).normal(size=(50, 2, 3)) + offset
    seen = Range((2, 3))
    for value in values:
        seen.add(value.tolist())
    assert seen.count == 300
    assert (seen.least, seen.most) == (values.min(), values.max())
    np.testing.assert_allclose(seen.mean, values.mean())
    np.testing.assert_allclose(seen.deviation, values.std())


def test_what_never_changes_is_told():
    seen = Range((2, 2))
    for time in range(3):
        seen.add([[0, time], [time, 5]])
    assert seen.constant == [0, 3]
    assert seen.zeros == 5


def test_what_is_not_finite_is_left_out():
    seen = Range((2,))
    for value in ([1, np.nan], [np.inf, 3], [-1, 3]):
        seen.add(value)
    assert seen.not_finite == 2
    # There remain 1 and −1, 3 and 3: the mean is 6 / 4, the square 20 / 4.
    assert (seen.least, seen.most, seen.mean) == (-1, 3, 1.5)
    np.testing.assert_allclose(seen.deviation, np.sqrt(5 - 1.5**2))
