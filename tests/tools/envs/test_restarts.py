"""How many workers may be started anew."""

import pytest

from agents.tools import errors
from agents.tools.envs.restarts import Restarts


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
        'a worker is started anew, 1 of 3: Environment 1 raised: '
        'ValueError: no',
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
