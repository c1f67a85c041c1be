"""Errors are told apart from faults of the program, and name the nearest."""

import pytest

from agents.tools import errors


def test_nearest_ends_a_sentence():
    assert errors.nearest('lamda', ['lambda', 'x']) == (
        "; did you mean 'lambda'?"
    )
    assert errors.nearest('q', ['lambda', 'x']) == '.'
    assert errors.nearest('q', []) == '.'


def test_nearest_takes_any_iterable():
    assert "'cheetah'" in errors.nearest('cheeta', iter({'cheetah': 1}))


def test_line_of_an_error_leaves_the_traceback_out():
    error = errors.EnvError('It raised:\nTraceback\n  a line\nValueError: no')
    assert errors.in_a_line(error) == 'It raised: ValueError: no'
    assert errors.in_a_line(errors.EnvError('It died.')) == 'It died.'


@pytest.mark.parametrize(
    'error, also',
    [
        (errors.ConfigError, ValueError),
        (errors.EnvError, RuntimeError),
        (errors.Cancelled, Exception),
    ],
)
def test_all_can_be_mended_by_a_user(error, also):
    assert issubclass(error, errors.UserError)
    assert issubclass(error, also)
