"""Something takes no more than its share of the time."""

import contextlib

import pytest

from agents.tools.runs import budget


class Clock:
    """Tells a time that tests set."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def spend(allowance, clock, seconds):
    assert allowance.allows()
    with allowance.spend():
        clock.now += seconds


def test_first_time_is_not_counted(clock):
    allowance = budget.Budget(0.1, clock)
    spend(allowance, clock, 5.0)
    assert allowance.allows()


def test_pause_makes_it_the_share(clock):
    # Of ten seconds one is spent:
    # time      100   101           110
    #           spend | pause         | allowed
    allowance = budget.Budget(0.1, clock)
    spend(allowance, clock, 0.0)
    spend(allowance, clock, 1.0)
    clock.now = 109.99
    assert not allowance.allows()
    clock.now = 110.01
    spend(allowance, clock, 0.1)
    clock.now += 0.89
    assert not allowance.allows()
    clock.now += 0.02
    assert allowance.allows()


def test_total_is_at_most_the_share(clock):
    allowance, spent = budget.Budget(0.02, clock), 0.0
    spend(allowance, clock, 0.0)
    for seconds in [0.01, 0.03, 0.002] * 100:
        while not allowance.allows():
            clock.now += 0.001
        spend(allowance, clock, seconds)
        spent += seconds
    assert 0.018 < spent / (clock.now - 100) <= 0.0201


def test_pause_is_not_longer_than_a_minute(clock):
    allowance = budget.Budget(0.001, clock)
    spend(allowance, clock, 0.0)
    spend(allowance, clock, 10.0)
    clock.now += budget.LONGEST_PAUSE - 0.01
    assert not allowance.allows()
    clock.now += 0.02
    assert allowance.allows()


def test_whole_share_is_no_limit(clock):
    allowance = budget.Budget(1.0, clock)
    for _ in range(3):
        spend(allowance, clock, 3.0)


def test_what_fails_is_tried_again(clock):
    allowance = budget.Budget(0.1, clock)
    spend(allowance, clock, 0.0)
    with contextlib.suppress(ArithmeticError), allowance.spend():
        clock.now += 1.0
        raise ArithmeticError
    assert allowance.allows()
