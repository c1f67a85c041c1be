"""The loop is in the right phase and does everything when it is due.

A timeline shows a call of an operation as the letter of its phase, followed by
what came of it: l for log, r for report and c for checkpoint.
"""

import contextlib
import itertools
import math
import time

import numpy as np
import pytest

from agents.tools import ConfigError, Loop
from agents.tools.graph.backend import tf


def told(scores, lengths=None):
    """What an operation says of episodes with these scores."""
    lengths = scores if lengths is None else lengths
    scores, lengths = scores or [0], lengths or [0]
    return {
        'episodes': len(scores),
        'score': np.mean(scores),
        'score_std': np.std(scores),
        'score_min': np.min(scores),
        'score_max': np.max(scores),
        'length': np.mean(lengths),
    }


# What it says where no episode has ended.
NOTHING = {**told([]), 'episodes': 0}


class Timeline:
    """A loop that writes down what happens; it receives reports and saves."""

    def __init__(self, step=0):
        self.calls = []
        self.reports = []
        self.saved = []
        self.held = []
        self.best = math.inf
        self.logged = []
        self.step = tf.Variable(step, dtype=tf.int64)
        self.loop = Loop(self.step, records=self)

    def add(self, name, batch_size, steps, results=None, **periods):
        results = iter(results or itertools.repeat({}))

        def operation():
            self.calls.append(name[0])
            result = {**NOTHING, **next(results)}
            return {key: tf.constant(float(v)) for key, v in result.items()}

        self.loop.add_phase(
            name,
            operation,
            batch_size,
            steps,
            summary=lambda: {'histogram': tf.zeros(3)},
            **periods,
        )
        return self

    def report(self, report):
        self.calls[-1] += 'r'
        self.reports.append(report)

    def summarize(self, phase, step, tensors):
        assert list(tensors) == ['histogram']
        self.calls[-1] += 'l'
        self.logged.append((phase, step))

    def is_better(self, score):
        return score > self.best

    def hold(self, step, score):
        self.calls[-1] += 'h'
        self.held.append((step, score))
        self.best = score

    def save(self, step, score=None):
        self.calls[-1] += 'c'
        self.saved.append(step)
        if score is not None:
            self.best = max(self.best, score)

    def run(self, max_step):
        """The timeline until a step over all phases."""
        self.scores = list(self.loop.run(self, max_step))
        return ' '.join(self.calls)


def test_report_is_due_after_the_call_that_covers_it():
    # step      0 1 2 3 4 5 6 7 8 9 10 11
    # call      --- --- --- --- --- -----
    # report          ^   ^       ^     ^
    timeline = Timeline().add('train', 2, 6, report_every=3)
    assert timeline.run(12) == 't tr tr t tr tr'
    assert [report.step for report in timeline.reports] == [4, 6, 10, 12]


def test_periods_that_the_batch_does_not_divide():
    # step         0 1 2 3 4 5 6 7 8 9 10 11 12 13 14
    # call         ----- ----- ----- ------- --------
    # log every 2      ^     ^     ^       ^        ^
    # report 4               ^     ^       ^
    # save 7                       ^                ^
    timeline = Timeline().add(
        'train', 3, 15, report_every=4, log_every=2, checkpoint_every=7
    )
    assert timeline.run(15) == 'tl tlr tlrc tlr tlc'
    assert timeline.logged == [('train', step) for step in (3, 6, 9, 12, 15)]
    assert timeline.saved == [9, 15]


def test_periods_count_on_over_the_cycles():
    # step of the phase   0 1 2 3 | 4 5 6 7 | 8 9 10 11
    # call                --- ---   --- ---   --- -----
    # report every 6                  ^               ^
    timeline = Timeline().add('train', 2, 4, report_every=6).add('eval', 5, 5)
    assert timeline.run(27) == 't t e tr t e t tr e'
    assert [report.step for report in timeline.reports] == [6, 12]


def test_several_periods_within_one_call_are_one():
    # step      0 1 2 3 4 5 6 7
    # call      ------- -------
    # report    ^ ^ ^ ^ ^ ^ ^ ^   of which the last of each call
    timeline = Timeline().add('train', 4, 8, report_every=1, log_every=3)
    assert timeline.run(8) == 'tlr tlr'


def test_no_periods():
    assert Timeline().add('train', 2, 4).run(8) == 't t t t'


def test_phases_take_turns():
    # step over all    0 1 2 3 4 5 | 6 7 8 | 9 | 10 11 12 13 14 15
    # phase            train         eval    p   train
    # call             --- --- ---   -----   -   ----- ----- -----
    timeline = (
        Timeline()
        .add('train', 2, 6, report_every=6)
        .add('eval', 3, 3, report_every=3, checkpoint_every=6)
        .add('play', 1, 1, log_every=1)
    )
    assert timeline.run(20) == 't t tr er pl t t tr erc pl'
    phases = [report.phase for report in timeline.reports]
    assert phases == ['train', 'eval'] * 2


def test_clock_counts_the_first_phase_only():
    timeline = Timeline().add('train', 2, 6).add('eval', 5, 10)
    clocks = []
    for step in (0, 2, 6, 11, 16, 18, 22, 27, 32):
        timeline.step.assign(step)
        clocks.append(timeline.loop.clock())
    assert clocks == [0, 2, 6, 6, 6, 8, 12, 12, 12]


def test_everything_is_dated_by_the_clock():
    seen = []
    timeline = Timeline()
    timeline.loop = Loop(
        timeline.step,
        timeline,
        lambda phase, step, _: seen.append((phase, step)),
    )
    timeline.add('train', 2, 4, report_every=4, log_every=4)
    timeline.add('eval', 3, 3, report_every=3, log_every=3, checkpoint_every=3)
    timeline.run(14)
    assert [(r.phase, r.step) for r in timeline.reports] == [
        ('train', 4), ('eval', 4), ('train', 8), ('eval', 8)
    ]  # fmt: skip
    assert timeline.logged == [
        ('train', 4), ('eval', 4), ('train', 8), ('eval', 8)
    ]  # fmt: skip
    assert timeline.saved == [4, 8]
    assert seen == [
        ('train', 2), ('train', 4), ('eval', 4),
        ('train', 6), ('train', 8), ('eval', 8),
    ]  # fmt: skip


def cycle(step):
    timeline = Timeline(step)
    # step      0 1 2 3 4 5 | 6 7 8 9 10 11 | 12 13 14 15
    # phase     train         train again     eval
    timeline.add('train', 2, 6, report_every=4)
    timeline.add('train again', 2, 6, report_every=4)
    return timeline.add('eval', 2, 4, report_every=4)


@pytest.mark.parametrize('start', range(0, 32, 2))
def test_phase_follows_from_the_step_alone(start):
    # A report is due by the steps of its phase, not by those since the start.
    whole = cycle(0).run(32)
    assert whole == 't tr t t tr t e er tr t tr tr t tr e er'
    assert cycle(start).run(32).split() == whole.split()[start // 2 :]


def test_resumed_within_a_phase():
    # step      0 1 2 3 4 5 | 6 7 8 9
    # phase     train         eval
    # resumed           ^
    timeline = Timeline(4).add('train', 2, 6, report_every=6).add('eval', 2, 4)
    assert timeline.run(12) == 'tr e e t'
    assert timeline.reports[0].step == 6
    timeline = Timeline(8).add('train', 2, 6).add('eval', 2, 4, log_every=4)
    assert timeline.run(12) == 'el t'


def test_run_goes_on_where_it_stopped():
    timeline = cycle(0)
    timeline.run(10)
    timeline.run(20)
    assert ' '.join(timeline.calls) == cycle(0).run(20)
    assert int(timeline.step) == 20


def test_run_stops_after_the_call_that_reaches_the_end():
    timeline = Timeline().add('train', 4, 8)
    assert timeline.run(5) == 't t'
    assert int(timeline.step) == 8
    assert timeline.run(8) == 't t'  # Nothing is left to do.


def test_run_without_end_goes_on():
    timeline = Timeline().add('train', 1, 1, report_every=1)
    scores = timeline.loop.run()
    assert len(list(itertools.islice(scores, 7))) == 7
    assert int(timeline.step) == 7


def test_scores_are_those_of_all_episodes():
    # Of calls in which 1, 0, 3 and 2 episodes ended.
    episodes = [10.0], [], [1.0, 2.0, 3.0], [-7.0, 2.5]
    lengths = [100], [], [10, 20, 30], [1, 2]
    results = [
        told(*call) if call[0] else NOTHING
        for call in zip(episodes, lengths, strict=True)
    ]
    timeline = Timeline().add('train', 1, 4, results, report_every=4)
    timeline.run(4)
    (report,) = timeline.reports
    scores = np.concatenate(episodes)
    assert report.score == pytest.approx(scores.mean())
    assert report.score_std == pytest.approx(scores.std())
    assert (report.score_min, report.score_max) == (-7, 10)
    assert report.length == pytest.approx((100 + 60 + 3) / 6)
    assert report.episodes == 6
    assert timeline.scores == [report.score]
    assert timeline.scores[0].report is report


def test_spread_of_scores_far_from_zero():
    episodes = [1e9 + 1, 1e9 - 1], [1e9 + 3], [1e9, 1e9, 1e9 - 5]
    loop, results = Loop(), iter(map(told, episodes))
    loop.add_phase('train', lambda: next(results), 1, 3, report_every=3)
    (score,) = loop.run(max_step=3)
    expected = np.std(np.concatenate(episodes) - 1e9)
    assert score.report.score_std == pytest.approx(expected, rel=1e-6)


def test_scores_begin_anew_after_a_report():
    results = [told([score]) for score in (1, 3, 10, 20)]
    timeline = Timeline().add('train', 1, 4, results, report_every=2)
    timeline.run(4)
    assert timeline.scores == [2, 15]
    assert [report.episodes for report in timeline.reports] == [2, 2]
    assert [report.score_std for report in timeline.reports] == [1, 5]
    assert [report.score_min for report in timeline.reports] == [1, 10]
    assert [report.score_max for report in timeline.reports] == [3, 20]


def test_scores_of_phases_are_kept_apart():
    train = [told([score]) for score in (1, 3)]
    evaluate = [told([score]) for score in (10, 30)]
    timeline = Timeline().add('train', 1, 1, train, report_every=2)
    timeline.add('eval', 1, 1, evaluate, report_every=2)
    assert timeline.run(4) == 't e tr er'
    assert timeline.scores == [2, 20]


def test_score_without_episodes_is_not_a_number():
    timeline = Timeline().add('train', 1, 1, report_every=1)
    timeline.run(1)
    assert math.isnan(timeline.scores[0])
    (report,) = timeline.reports
    spread = report.score_std, report.score_min, report.score_max
    assert all(map(math.isnan, [*spread, report.length]))
    assert report.episodes == 0


def test_other_numbers_are_means_over_calls():
    results = [
        {'episodes': 5, 'loss': 1.0, 'kl': 0.0},
        {'episodes': 0, 'loss': 2.0, 'kl': 0.5},
        {'episodes': 0, 'loss': 6.0, 'kl': 1.0},
    ]
    timeline = Timeline().add('train', 1, 3, results, report_every=3)
    timeline.run(3)
    assert timeline.reports[0].metrics == {'loss': 3, 'kl': 0.5}


def test_rate_leaves_the_first_call_out():
    timeline = Timeline().add('train', 1, 1, report_every=1)
    timeline.run(2)
    first, second = timeline.reports
    assert math.isnan(first.steps_per_second)
    assert second.steps_per_second > 0
    assert 0 < first.seconds <= second.seconds


def test_counts_are_those_at_the_report():
    loop, calls = Loop(), []

    def operation():
        calls.append('call')
        return {**told([2]), 'loss': len(calls)}

    loop.add_phase(
        'train',
        operation,
        batch_size=1,
        steps=4,
        report_every=4,
        counts=lambda: {'calls': len(calls)},
    )
    (score,) = loop.run(max_step=4)
    assert score.report.metrics == {'loss': 2.5, 'calls': 4}


def test_without_records_and_saver():
    loop = Loop()
    loop.add_phase(
        'train',
        lambda: told([2]),
        batch_size=1,
        steps=2,
        report_every=1,
        log_every=1,
        checkpoint_every=1,
        summary=lambda: pytest.fail('There is no one to receive it.'),
    )
    assert list(loop.run(max_step=4)) == [2] * 4
    assert loop.step.dtype == tf.int64 and not loop.step.trainable


def test_what_takes_long_is_left_out_where_steps_are_fast():
    timeline = Timeline()
    timeline.loop = Loop(timeline.step, records=timeline, share=0.01)
    periods = {'report_every': 1, 'log_every': 1, 'checkpoint_every': 1}
    timeline.add('train', 1, 1, **periods)
    summarize, save = timeline.summarize, timeline.save
    timeline.summarize = lambda *args: [time.sleep(0.1), summarize(*args)]
    timeline.save = lambda *args: [time.sleep(0.1), save(*args)]
    # The first time is not counted, the second is followed by ten seconds.
    assert timeline.run(5) == 'tlrc tlrc tr tr tr'


def test_better_score_than_any_before_is_saved_though_nothing_is_due():
    timeline = Timeline().add('train', 1, 2, report_every=2)
    results = [told([score]) for score in (3, 5, 5, 4, 6, 2)]
    periods = {'report_every': 1, 'checkpoint_every': 4}
    timeline.add('eval', 1, 1, results, **periods).best = -math.inf
    assert timeline.run(18) == (
        't tr erc t tr erc t tr er t tr erc t tr erc t tr er'
    )
    assert timeline.saved == [2, 4, 8, 10]


def test_better_score_is_held_where_saving_is_left_out():
    timeline = Timeline()
    timeline.loop = Loop(timeline.step, records=timeline, share=0.01)
    results = [told([score]) for score in (3, 2, 1, 3, 4)]
    periods = {'report_every': 1, 'checkpoint_every': 1}
    timeline.add('eval', 1, 1, results, **periods).best = -math.inf
    save = timeline.save
    timeline.save = lambda *args: [time.sleep(0.1), save(*args)]
    assert timeline.run(5) == 'erc erc er er erh'
    assert timeline.held == [(5, 4.0)]


def test_score_is_told_of_what_is_saved_right_after_it_alone():
    timeline, scores = Timeline(), []
    timeline.save = lambda step, score=None: scores.append(score)
    timeline.add('train', 1, 1, report_every=1)
    results = [told([3]), NOTHING]
    timeline.add('eval', 1, 1, results, report_every=1, checkpoint_every=1)
    for _ in timeline.loop.run(timeline, 4):
        timeline.loop.save(timeline)
    assert scores[:4] == [None, 3.0, 3.0, None]
    assert all(map(math.isnan, scores[4:])) and len(scores) == 6


@pytest.mark.parametrize('steps, batch_size', [(5, 2), (0, 2), (1, 2), (-2, 2)])
def test_steps_that_calls_do_not_fill_are_refused(steps, batch_size):
    match = f"'train' has {steps} steps, .* the {batch_size} steps"
    with pytest.raises(ConfigError, match=match):
        Timeline().add('train', batch_size, steps)


def test_loop_without_phases_is_refused():
    with pytest.raises(ValueError, match='Add a phase'):
        next(Loop().run())


def test_everything_is_done_within_a_context_that_is_told_what():
    timeline, done = Timeline(), []

    @contextlib.contextmanager
    def during(activity):
        step = int(timeline.step)
        yield
        done.append((activity, step, int(timeline.step)))

    timeline.loop = Loop(timeline.step, records=timeline, during=during)
    timeline.add('train', 2, 4, log_every=4).add(
        'eval', 3, 3, checkpoint_every=3
    )
    timeline.run(7)
    # The step is counted before an operation counts as done.
    assert done == [
        ('train', 0, 2),
        ('train', 2, 4),
        ('summary', 4, 4),
        ('eval', 4, 7),
        ('checkpoint', 7, 7),
    ]
