"""The loop trains and evaluates, and does everything when it is due.

A timeline shows a call of an operation as t or e, with a number if it covers
several rollouts, followed by what came of it: l for a summary, r for a report,
c for a checkpoint and h for one that is held.
"""

import contextlib
import itertools
import math
import time

import numpy as np
import pytest

from agents.tools import Loop
from agents.tools.graph.backend import tf
from agents.tools.runs.loop import Evaluation, Training


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

    def __init__(
        self,
        rollout=2,
        steps=12,
        every=6,
        train=None,
        evaluate=None,
        checkpoint_every=10**6,
        best=math.inf,
        options=(),
        **training,
    ):
        self.calls = []
        self.reports = []
        self.saved = []
        self.held = []
        self.best = best
        self.logged = []
        results = [iter(r or itertools.repeat({})) for r in (train, evaluate)]

        def operation(name, results, count=1):
            self.calls.append(name if count == 1 else f'{name}{count}')
            return {**NOTHING, **next(results)}

        self.loop = Loop(
            Training(
                lambda count: operation('t', results[0], count),
                rollout,
                steps,
                summary=lambda: {'histogram': tf.zeros(3)},
                **training,
            ),
            Evaluation(lambda: operation('e', results[1]), every, checkpoint_every),
            records=self,
            **dict(options),
        )

    def report(self, report):
        self.calls[-1] += 'r'
        self.reports.append(report)

    def summarize(self, step, tensors):
        assert list(tensors) == ['histogram']
        self.calls[-1] += 'l'
        self.logged.append(step)

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

    def run(self, calls=None):
        """The timeline until the end, or of so many reports."""
        scores = itertools.islice(self.loop.run(self), calls)
        self.scores = list(scores)
        return ' '.join(self.calls)

    def steps(self, phase):
        return [r.step for r in self.reports if r.phase == phase]


def test_evaluation_is_due_after_the_rollout_that_reaches_it():
    # step        0   4   8   12  16
    # rollout     --- --- --- ---
    # due               6     12  15 (the end)
    timeline = Timeline(rollout=4, steps=15, every=6)
    assert timeline.run() == 't tr er tr er tr er'
    assert timeline.steps('train') == timeline.steps('eval') == [8, 12, 16]
    assert timeline.loop.clock() == 16 and timeline.loop.is_complete()
    assert timeline.run() == 't tr er tr er tr er'  # Nothing is left to do.


# For 4 agents × 1024 steps.
@pytest.mark.parametrize(
    'steps, every, trained, evaluations',
    [
        (100_000, 4_096, 102_400, 25),
        (100_000, 8_000, 102_400, 13),
        (100_000, 5_000, 102_400, 20),
        (100_000, 6_100, 102_400, 17),
        (82_000, 10_240, 86_016, 9),
        (40_000, 6_100, 40_960, 7),
        (40_960, 1_000_000, 40_960, 1),
        (1, 1, 4_096, 1),
    ],
)
@pytest.mark.parametrize('at_once', [1, 8])
def test_steps_are_those_asked_for(steps, every, trained, evaluations, at_once):
    timeline = Timeline(4096, steps, every, rollouts_at_once=at_once)
    timeline.run()
    assert timeline.reports[-1].step == trained
    assert timeline.reports[-1].phase == 'eval'
    assert len(timeline.steps('eval')) == evaluations


def test_call_comprises_rollouts_until_something_is_due():
    # step        0 2 4 6 8 10 12 14 16 18 20
    # due               e     r       e     e
    timeline = Timeline(2, 20, 8, rollouts_at_once=3, report_every=12, summarize_every=100)
    assert timeline.run() == 't3 tr er t2r t2r er t2r er'
    assert timeline.steps('train') == [8, 12, 16, 20]


def test_report_and_summary_are_due_at_multiples_of_their_periods():
    timeline = Timeline(3, 15, 100, report_every=4, summarize_every=2)
    assert timeline.run() == 'tl tlr tlr tlr tlr er'
    assert timeline.logged == [3, 6, 9, 12, 15]


def test_checkpoint_is_due_after_some_evaluations():
    timeline = Timeline(2, 13, 2, checkpoint_every=3)
    assert timeline.run() == ('tr er tr er tr erc tr er tr er tr erc tr er')
    assert timeline.saved == [6, 12]


def test_everything_is_dated_by_the_training_step():
    seen = []

    def progress(phase, step, _):
        seen.append((phase, step))

    timeline = Timeline(2, 8, 4, checkpoint_every=1, options={'progress': progress})
    timeline.run()
    assert [(r.phase, r.step) for r in timeline.reports] == [
        ('train', 4), ('eval', 4), ('train', 8), ('eval', 8)
    ]  # fmt: skip
    assert timeline.saved == [4, 8]
    assert seen == [
        ('train', 2), ('train', 4), ('eval', 4),
        ('train', 6), ('train', 8), ('eval', 8),
    ]  # fmt: skip


def test_what_comes_next_follows_from_the_step_alone():
    sizes = {'rollout': 4, 'steps': 27, 'every': 10, 'report_every': 8}
    whole = Timeline(**sizes)
    timeline = whole.run().split()
    assert ' '.join(timeline) == 't tr tr er tr tr er tr tr er'
    steps = []
    for position in range(1, len(timeline)):
        first = Timeline(**sizes)
        with contextlib.suppress(StopIteration):
            run = first.loop.run()
            while len(first.calls) < position:
                next(run)
        steps.append(int(first.loop.step))
        second = Timeline(**sizes)
        second.loop.step.assign(steps[-1])
        assert second.run().split() == timeline[len(first.calls) :]
    assert steps[-1] == 2 * 28


def test_resumed_with_more_steps_it_goes_on():
    timeline = Timeline(4, 10, 6)
    assert timeline.run() == 't tr er tr er'
    longer = Timeline(4, 22, 6)
    longer.loop.step.assign(timeline.loop.step)
    longer.run()
    assert longer.steps('eval') == [20, 24]


def test_resumed_with_other_rollouts_it_ends_where_it_was_asked_to():
    timeline = Timeline(rollout=3, steps=20, every=6)
    timeline.loop.set_clock(8)
    timeline.run()
    assert timeline.steps('eval') == [14, 20]


def test_scores_are_those_of_all_episodes():
    # Of calls in which 1, 0, 3 and 2 episodes ended.
    episodes = [10.0], [], [1.0, 2.0, 3.0], [-7.0, 2.5]
    lengths = [100], [], [10, 20, 30], [1, 2]
    results = [told(*call) if call[0] else NOTHING for call in zip(episodes, lengths, strict=True)]
    timeline = Timeline(1, 4, 4, train=results)
    timeline.run()
    report, _ = timeline.reports
    scores = np.concatenate(episodes)
    assert report.score == pytest.approx(scores.mean())
    assert report.score_std == pytest.approx(scores.std())
    assert (report.score_min, report.score_max) == (-7, 10)
    assert report.length == pytest.approx((100 + 60 + 3) / 6)
    assert report.episodes == 6
    assert timeline.scores[0] == report.score
    assert timeline.scores[0].report is report


def test_spread_of_scores_far_from_zero():
    episodes = [1e9 + 1, 1e9 - 1], [1e9 + 3], [1e9, 1e9, 1e9 - 5]
    timeline = Timeline(1, 3, 3, train=map(told, episodes))
    timeline.run()
    expected = np.std(np.concatenate(episodes) - 1e9)
    assert timeline.reports[0].score_std == pytest.approx(expected, rel=1e-6)


def test_scores_begin_anew_after_a_report():
    train = [told([score]) for score in (1, 3, 10, 20)]
    evaluate = [told([score]) for score in (100, 300)]
    timeline = Timeline(1, 4, 2, train=train, evaluate=evaluate)
    timeline.run()
    assert timeline.scores == [2, 100, 15, 300]
    assert [r.episodes for r in timeline.reports] == [2, 1, 2, 1]
    assert [r.score_std for r in timeline.reports] == [1, 0, 5, 0]
    assert [r.score_min for r in timeline.reports] == [1, 100, 10, 300]
    assert [r.score_max for r in timeline.reports] == [3, 100, 20, 300]


def test_score_without_episodes_is_not_a_number():
    timeline = Timeline(1, 1, 1)
    timeline.run()
    assert math.isnan(timeline.scores[0])
    report, _ = timeline.reports
    spread = report.score_std, report.score_min, report.score_max
    assert all(map(math.isnan, [*spread, report.length]))
    assert report.episodes == 0


def test_other_numbers_are_means_over_rollouts():
    # Calls of 1, 2 and 2 rollouts.
    results = [
        {'episodes': 5, 'loss': 1.0, 'kl': 0.0},
        {'episodes': 0, 'loss': 2.0, 'kl': 0.5},
        {'episodes': 0, 'loss': 6.0, 'kl': 1.0},
    ]
    timeline = Timeline(1, 5, 5, train=results, rollouts_at_once=2, summarize_every=3)
    assert timeline.run() == 't2 tl t2r er'
    loss = (2 * 1.0 + 2.0 + 2 * 6.0) / 5
    assert timeline.reports[0].metrics == {
        'loss': pytest.approx(loss), 'kl': pytest.approx(0.5)
    }  # fmt: skip


def test_rate_leaves_the_first_call_out():
    evaluate = [told([1], [7])] * 2
    timeline = Timeline(1, 2, 1, evaluate=evaluate)
    timeline.run()
    rates = [report.steps_per_second for report in timeline.reports]
    assert all(map(math.isnan, rates[:2]))
    assert rates[2] > 0 and rates[3] > 0
    seconds = [report.seconds for report in timeline.reports]
    assert seconds[0] > 0 and seconds == sorted(seconds)


def test_counts_are_those_at_the_report():
    timeline = Timeline(1, 4, 4, counts=lambda: {'calls': len(timeline.calls)})
    timeline.run()
    assert timeline.reports[0].metrics == {'calls': 4}


def test_without_records_and_saver():
    loop = Loop(
        Training(
            lambda _: told([2]),
            2,
            4,
            summarize_every=1,
            summary=lambda: pytest.fail('There is no one to receive it.'),
        ),
        Evaluation(lambda: told([2]), 2),
    )
    assert list(loop.run()) == [2] * 4
    assert loop.step.dtype == tf.int64 and not loop.step.trainable


def test_what_takes_long_is_left_out_where_steps_are_fast():
    timeline = Timeline(1, 5, 1, checkpoint_every=1, summarize_every=1, options={'share': 0.01})
    summarize, save = timeline.summarize, timeline.save
    timeline.summarize = lambda *args: [time.sleep(0.1), summarize(*args)]
    timeline.save = lambda *args: [time.sleep(0.1), save(*args)]
    # The first time is not counted, the second is followed by ten seconds.
    assert timeline.run() == 'tlr erc tlr erc tr er tr er tr er'


def test_better_score_than_any_before_is_saved_though_nothing_is_due():
    results = [told([score]) for score in (3, 5, 5, 4, 6, 2)]
    timeline = Timeline(1, 6, 1, evaluate=results, checkpoint_every=4, best=-math.inf)
    assert timeline.run() == ('tr erc tr erc tr er tr erc tr erc tr er')
    assert timeline.saved == [1, 2, 4, 5]


def test_better_score_is_held_where_saving_is_left_out():
    results = [told([score]) for score in (3, 2, 1, 3, 4)]
    timeline = Timeline(
        1, 5, 1, evaluate=results, checkpoint_every=1, best=-math.inf,
        options={'share': 0.01},
    )  # fmt: skip
    save = timeline.save
    timeline.save = lambda *args: [time.sleep(0.1), save(*args)]
    assert timeline.run() == 'tr erc tr erc tr er tr er tr erh'
    assert timeline.held == [(5, 4.0)]


def test_score_is_told_of_what_is_saved_right_after_it_alone():
    results = [told([3]), NOTHING]
    timeline = Timeline(1, 2, 1, evaluate=results, checkpoint_every=1)
    scores = []
    timeline.save = lambda step, score=None: scores.append(score)
    for _ in timeline.loop.run(timeline):
        timeline.loop.save(timeline)
    assert scores[:4] == [None, 3.0, 3.0, None]
    assert all(map(math.isnan, scores[4:])) and len(scores) == 6


def test_everything_is_done_within_a_context_that_is_told_what():
    done = []

    @contextlib.contextmanager
    def during(activity):
        step = int(timeline.loop.step)
        yield
        done.append((activity, step, int(timeline.loop.step)))

    timeline = Timeline(
        2, 4, 4, checkpoint_every=1, summarize_every=4,
        options={'during': during},
    )  # fmt: skip
    timeline.run()
    # The step is counted before an operation counts as done.
    assert done == [
        ('train', 0, 4),
        ('train', 4, 8),
        ('summary', 8, 8),
        ('eval', 8, 9),
        ('checkpoint', 9, 9),
    ]
