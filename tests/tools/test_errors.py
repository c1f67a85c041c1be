"""Messages to users: lines that nobody can forge, and the nearest name."""

import pickle

import pytest

from agents.tools import errors

ONE_LINE = errors.UserError, errors.ConfigError, errors.WriteError


@pytest.mark.parametrize('kind', [*ONE_LINE, errors.Cancelled])
def test_message_is_one_line_that_moves_no_cursor(kind):
    error = kind('a\nerror: b\r\x1b[2K\x9b\u202e\u2028\x00\u2066\x7f')
    told = r'a\nerror: b\r\x1b[2K\x9b\u202e\u2028\x00\u2066\x7f'
    assert str(error) == told
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy)) == (kind, told)


@pytest.mark.parametrize('kind', ONE_LINE)
@pytest.mark.parametrize(
    'text', ['größer → 4 × 50', '環境', 'среда', 'سياسة', 'नीति', '😀', 'a\\nb']
)
def test_letters_of_all_languages_stay(kind, text):
    assert str(kind(text)) == text


def test_long_message_lacks_its_middle():
    text = 'begin' + 'x' * 10_000 + 'end'
    message = str(errors.ConfigError(text))
    assert len(message) <= errors.MOST_CHARACTERS
    assert message.startswith('beginx') and message.endswith('xend')
    assert ' … ' in message
    exact = 'x' * errors.MOST_CHARACTERS
    assert str(errors.ConfigError(exact)) == exact


@pytest.mark.parametrize('kind', [errors.EnvError, errors.WorkerDied])
def test_traceback_of_an_environment_keeps_its_lines(kind):
    error = kind('It raised:\n\tFile "env.py"\n\x1b[31mValueError: ü\r\n')
    told = 'It raised:\n        File "env.py"\n\\x1b[31mValueError: ü\\r\n'
    assert str(error) == told


def test_nearest_ends_a_sentence():
    assert errors.nearest('lamda', ['lambda', 'x']) == ("; did you mean 'lambda'?")
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


@pytest.mark.parametrize(
    'message',
    [
        '{{function_node __wrapped__SaveV2_device_/job:x}} /a/b; No space left'
        ' on device [Op:SaveV2] name: ',
        '{{node A/{B}}} /a/b; No space left on device\n\t[[{{node C}}]]',
        '/a/b; No space left on device',
    ],
)
def test_error_of_an_operation_is_told_without_the_graph(message):
    told = errors.in_an_operation(message)
    assert told == '/a/b; No space left on device'
