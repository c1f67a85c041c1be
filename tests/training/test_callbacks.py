"""Callbacks: what they are told, what they can do, and how they fail."""

import csv
import math
import types

import numpy as np
import pytest
from tensorboard.backend.event_processing import event_accumulator

import agents
from agents.config import store
from agents.tools import errors
from agents.tools.graph.backend import tf
from agents.tools.runs.loop import Report
from agents.tools.world import World
from agents.training import calling, storage
from agents.training.callbacks import stop_at, stop_without_improvement
from agents.training.session import Session
from agents.training.train import train
from tests.training.test_session import listener

pytestmark = pytest.mark.usefixtures('eagerly')

REPORT = Report('eval', 1, 1, 0, 1, 1, 1, 1, 1, 1, {'kl': 2.0})


def rows(directory):
    with open(directory / 'progress.csv', newline='') as file:
        return list(csv.DictReader(file))


def test_callbacks_are_told_what_scores_say(tiny):
    told = []
    scores = train(tiny(), env_processes=False, callbacks=[told.append])
    assert [score.report for score in scores] == told
    assert [report[:2] for report in told] == [
        ('train', 20), ('eval', 20), ('train', 40), ('eval', 40),
    ]  # fmt: skip


def test_numbers_become_columns_and_curves(tiny, tmp_path):
    def first(report):
        if report.phase == 'eval':
            return {'double': 2 * report.score}
        return None

    def second(report):
        if report.step == 40:
            return {'late': np.float32(0.5), 'tensor': tf.constant(3)}
        return {'none': math.inf}

    training = train(tiny(), tmp_path, False, callbacks=[first, second])
    reports = [score.report for score in training]
    table = rows(tmp_path)
    assert [*table[0]][-4:] == ['none', 'double', 'late', 'tensor']
    assert [row['late'] for row in table] == ['', '', '0.5', '0.5']
    assert [row['tensor'] for row in table] == ['', '', '3', '3']
    assert {row['none'] for row in table} == {''}
    for row, report in zip(table, reports, strict=True):
        expected = 2 * report.score if report.phase == 'eval' else None
        assert report.metrics.get('double') == expected
        found = float(row['double']) if row['double'] else None
        assert found == (expected and pytest.approx(expected, rel=1e-5))
        # What was there before is still in its place.
        assert float(row['score']) == pytest.approx(report.score, rel=1e-5)
    found = event_accumulator.EventAccumulator(str(tmp_path / 'train'))
    found.Reload()
    values = [event.value for event in found.Scalars('eval/double')]
    assert values == [pytest.approx(2 * r.score) for r in reports[1::2]]
    # A run that is gone on with keeps the columns that nobody fills any more.
    train(tiny(steps=60), tmp_path, False).run()
    assert [*rows(tmp_path)[0]] == [*table[0]]
    assert rows(tmp_path)[:4] == table


@pytest.mark.slow
def test_false_ends_a_training_that_can_be_gone_on_with(tiny, tmp_path):
    reporter, told = listener()

    def enough(report):
        return np.bool_(report.step < 40)

    config = tiny(steps=80)
    training = Session(config, tmp_path, False, [enough], reporter).scores()
    assert [score.report[:2] for score in training][-1] == ('train', 40)
    assert 'train ended at step 40 by enough; resumed, it goes on' in told
    assert storage.last_checkpoint(tmp_path) == 40
    rest = [s.report[:2] for s in train(config, tmp_path, False)]
    assert rest[0] == ('eval', 40) and rest[-1] == ('eval', 80)


@pytest.mark.parametrize(
    'env, error',
    [
        ('CartPole-v1', ZeroDivisionError),
        pytest.param('native:CartPole-v1', ZeroDivisionError, marks=pytest.mark.slow),
        # Of sys.exit().
        pytest.param('native:CartPole-v1', SystemExit, marks=pytest.mark.slow),
    ],
)
def test_error_is_the_users_own_and_the_run_is_saved(tiny, tmp_path, env, error):
    def broken(report):
        if report.phase == 'eval':
            raise error('mine')

    training = train(tiny(env=env), tmp_path, False, callbacks=[broken])
    with pytest.raises(error, match='mine'):
        training.run()
    assert storage.last_checkpoint(tmp_path) == 20
    assert [row['phase'] for row in rows(tmp_path)] == ['train', 'eval']


@pytest.mark.parametrize(
    'answer, message',
    [
        (3, 'returned 3. A callback returns numbers by name, False to stop'),
        ({'a': 'b'}, "returned 'b' as 'a'"),
        ({'a': np.zeros(2)}, "as 'a'"),
        ({'a,b': 1}, "named a number 'a,b'"),
        ({'score': 1}, "'score', which is there already"),
        ({'kl': 1}, "'kl', which is there already"),
    ],
)
def test_other_answers_are_refused(answer, message):
    def odd(report):
        return answer

    called = calling.Calling([odd])
    assert called.complete(REPORT) == REPORT
    assert isinstance(called.failure, errors.ConfigError)
    assert str(called.failure).startswith('The callback odd ')
    assert message in str(called.failure)


@pytest.mark.slow
def test_callbacks_of_a_run_are_those_of_who_goes_on(tiny, tmp_path):
    file = tmp_path / 'mine.py'
    file.write_text('def five(report):\n    return {"five": 5}\n')
    config = tiny(callbacks=[stop_at(-1, 'train'), f'{file}:five'])
    run = tmp_path / 'run'
    train(config, run, env_processes=False).run()
    assert [row['five'] for row in rows(run)] == ['5']
    assert store.load_config(run).callbacks == [
        '<function agents.training.callbacks.stop_at(-1)>', f'{file}:five'
    ]  # fmt: skip
    # Neither is run by who only looks at the run.
    file.write_text('raise AssertionError')
    assert agents.load(run).checkpoint == 20
    assert agents.evaluate(run, 1, env_processes=False).episodes == 1
    restored = store.restore_config(None, run, unused=())
    assert restored.callbacks == config.callbacks
    restored = store.restore_config(tiny(), run, unused=())
    assert restored.callbacks == []
    train(restored, run, env_processes=False).run()
    assert [row['five'] for row in rows(run)] == ['5', '', '', '']


@pytest.mark.parametrize(
    'callbacks, message',
    [
        ([3], 'functions, or of their names as file.py:function'),
        (['five'], 'file.py:function'),
        (['nowhere.py:five'], "There is no file 'nowhere.py'"),
    ],
)
def test_what_is_no_callback_is_refused_at_once(tiny, callbacks, message):
    with pytest.raises(errors.ConfigError, match=message):
        train(tiny(), callbacks=callbacks)
    with pytest.raises(errors.ConfigError, match=message):
        train(tiny(callbacks=callbacks))


def reports(*scores, phase='eval'):
    return [types.SimpleNamespace(phase=phase, score=score) for score in scores]


def test_stopping_at_a_score():
    stop = stop_at(3)
    assert [stop(r) for r in reports(1, math.nan, 2.9, 3, 4)] == [
        True, True, True, False, False,
    ]  # fmt: skip
    assert all(stop(r) for r in reports(5, phase='train'))
    assert not any(stop_at(3, 'train')(r) for r in reports(5, phase='train'))
    with pytest.raises(errors.ConfigError, match="no phase 'evl'"):
        stop_at(3, phase='evl')


def test_stopping_without_improvement():
    def first_stop(stop, *scores):
        return [stop(r) for r in reports(*scores)].index(False)

    assert first_stop(stop_without_improvement(2), 1, 2, 2, 1, 0) == 3
    assert first_stop(stop_without_improvement(2), 1, 0, 2, math.nan, 1, 2) == 5
    assert first_stop(stop_without_improvement(1, by=1), 0, 0.5, 2) == 1
    assert all(stop_without_improvement(1)(r) for r in reports(1, 2, 3, 4))
    with pytest.raises(errors.ConfigError, match='reports must be at least 1'):
        stop_without_improvement(0)


class Second(World):
    """A rank that is told what the first has said."""

    rank, size = 1, 2

    def __init__(self, heard):
        self._heard = heard

    def share(self, value):
        return self._heard


def test_other_ranks_do_as_the_first_is_told():
    def never(report):
        raise AssertionError('Only the first calls it.')

    second = calling.Calling([never], Second([{'a': 1.0}, 'x', False]))
    assert second.complete(REPORT).metrics == {'kl': 2.0, 'a': 1.0}
    assert second.stopped_by == 'x' and second.failure is None
    second = calling.Calling([never], Second([{}, None, True]))
    second.complete(REPORT)
    assert isinstance(second.failure, errors.ElsewhereError)
