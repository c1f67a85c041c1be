"""What is shown of a training while it goes on, and the lines that stay."""

import io
import math

import pytest

from agents.scripts import configs
from agents.terminal import console
from agents.tools.runs.loop import Report, Tally
from agents.training import plan, reporter

PHASES = plan.make(configs.debug())


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on as it is told to."""
    now = [100.0]
    monkeypatch.setattr(reporter.time, 'perf_counter', lambda: now[0])
    return now


@pytest.fixture
def made(clock):
    """A reporter, what it shows now and the lines it has printed."""
    stream = io.StringIO()
    shown = console.Console(stream)
    made = reporter.Reporter(shown)
    made.plan = PHASES
    return made, lambda: shown._view(), stream


def tally(score, seconds):
    found = Tally(compiled=True)
    results = {
        'episodes': 2, 'score': score, 'score_std': 0, 'score_min': 0,
        'score_max': 0, 'length': 5, 'env_seconds': seconds / 2,
        'update_seconds': seconds / 4,
    }  # fmt: skip
    found.add(results, 200, seconds)
    return found


def report(phase, step, score):
    numbers = dict.fromkeys(Report._fields, 0.0)
    numbers |= {'phase': phase, 'step': step, 'score': score}
    return Report(**{**numbers, 'steps_per_second': 50.0})


def test_start_is_shown_with_its_seconds(made, clock):
    made, shown, _ = made
    assert shown() == console.View('starting')
    with made.busy('starting', lambda: 'workers 1 of 2'):
        assert shown().text == 'workers 1 of 2'
        clock[0] += 3
        assert shown() == console.View('starting', 'workers 1 of 2, 3 s')
    assert shown() == console.View('starting')


def test_training_is_shown(made, clock):
    made, shown, _ = made
    made.begin(0)
    with made.during('train'):
        clock[0] += 7
        view = shown()
        assert (view.topic, view.text) == ('compiling', '7 s  0%')
        assert view.facts == ('step 0 of 2,000',)
    made.progress('train', 200, tally(math.nan, 4.0))
    clock[0] += 4
    made.progress('train', 400, tally(12.0, 4.0))
    with made.during('train'):
        view = shown()
    assert (view.topic, view.done) == ('learning', 0.2)
    # 200 steps took 4 seconds, and 1,600 are left.
    assert view.text == '20%  0:32 left'
    assert view.facts == (
        'step 400 of 2,000', 'train 12.0', '50 steps/s',
        'environment 50%, update 25%',
    )  # fmt: skip
    with made.during('checkpoint'):
        assert shown().topic == 'saving'


def test_best_is_the_highest_of_all_evaluations(made):
    made, shown, stream = made
    made.best = 5.0  # Of a run that is resumed.
    made.begin(1000)
    for score, best in ((math.nan, 5), (3, 5), (8, 8), (math.nan, 8), (7, 8)):
        made.report(report('train', 1200, 6.0))
        made.report(report('eval', 1200, score))
        assert made.best == best
    assert shown().facts[1:4] == ('train 6.00', 'eval 7.00', 'best 8.00')
    *_, last = stream.getvalue().splitlines()
    assert last.startswith('train      step 1,200 (60%)')
    assert last.endswith('  train 6.00  eval 7.00  50 steps/s')


def test_line_has_the_mean_over_all_episodes_since_the_last(made):
    made, _, stream = made
    made.begin(0)
    for episodes, score in ((3, 1.0), (0, math.nan), (1, 5.0)):
        made.report(report('train', 600, score)._replace(episodes=episodes))
    made.report(report('eval', 600, 9.0))
    assert stream.getvalue().endswith('train 2.00  eval 9.00  50 steps/s\n')
    made.report(report('eval', 1200, 9.0))
    assert stream.getvalue().endswith('train -  eval 9.00  50 steps/s\n')


@pytest.mark.parametrize('is_live', [False, True])
def test_lines_leave_to_the_terminal_what_changes(clock, monkeypatch, is_live):
    stream = io.StringIO()
    if is_live:
        monkeypatch.setenv(console.TERMINAL, '80')
        monkeypatch.setenv('TERM', 'xterm')
    shown = console.Console(stream)
    made = reporter.Reporter(shown)
    made.plan = PHASES
    made.begin(0)
    clock[0] += 5
    made.report(report('eval', 1000, 3.0))
    assert (' 0:05 left' in stream.getvalue()) is not is_live
