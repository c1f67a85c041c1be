"""Loop of training and evaluation."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from agents.tools.graph.backend import tf
from agents.tools.runs.budget import Budget
from agents.tools.runs.tally import Tally


class Training(NamedTuple):
    """Training operation, and the schedule of the training phase.

    Attributes:
        operation: Function of a number of rollouts that collects them, learns from each, and
            returns metrics by name, including those of `EpisodeScores.clear`.
        rollout: Environment steps of a rollout.
        steps: Environment steps of the training; the last rollout may exceed them.
        rollouts_at_once: Maximum number of rollouts per call.
        report_every: Steps between two reports; there is another report before each evaluation.
        summarize_every: Steps between two summaries.
        summary: Returns tensors by name for histograms.
        counts: Returns numbers by name to add to a report.
    """

    operation: Callable[[int], Mapping[str, Any]]
    rollout: int
    steps: int
    rollouts_at_once: int = 1
    report_every: int | None = None
    summarize_every: int | None = None
    summary: Callable[[], Mapping[str, Any]] | None = None
    counts: Callable[[], Mapping[str, float]] = dict


class Evaluation(NamedTuple):
    """Evaluation operation, and its schedule.

    Attributes:
        operation: Plays episodes and returns metrics by name, including those of
            `EpisodeScores.clear`.
        every: Training steps between two evaluations.
        checkpoint_every: Evaluations between two checkpoints.
        counts: Returns numbers by name to add to a report.
    """

    operation: Callable[[], Mapping[str, Any]]
    every: int
    checkpoint_every: int = 1
    counts: Callable[[], Mapping[str, float]] = dict


class Report(NamedTuple):
    """Results of a phase since its last report.

    Attributes:
        phase: Name of the phase.
        step: Training steps so far.
        score: Mean score of the episodes that ended, NaN if none did.
        score_std: Standard deviation of their scores.
        score_min: Lowest score.
        score_max: Highest score.
        length: Mean number of steps.
        episodes: Number of episodes.
        seconds: Time since the run began.
        steps_per_second: Steps of the phase per second, without the first call of its operation,
            which is traced and compiled.
        metrics: Means of the other metrics over the calls, and counts.
    """

    phase: str
    step: int
    score: float
    score_std: float
    score_min: float
    score_max: float
    length: float
    episodes: int
    seconds: float
    steps_per_second: float
    metrics: dict[str, float]


class Score(float):
    """Mean score with the report that it comes from."""

    report: Report

    def __new__(cls, report: Report) -> 'Score':
        score = super().__new__(cls, report.score)
        score.report = report
        return score


class Loop:
    """Trains for a number of steps, and evaluates from time to time.

    Steps are environment steps of all agents together. Events with a period happen after the first
    rollout that reaches a multiple of the period. The training ends with an evaluation. For
    example, with rollouts of 4 steps, an evaluation every 6 steps and 15 steps in all:

        step          0   4   8   12  16
        rollout       --- --- --- ---
        evaluation            ^   ^   ^

    All of this follows from the step alone, so that a loop whose step was restored from a
    checkpoint continues in the right place, even if sizes have changed.

    Where summaries or checkpoints would exceed their share of the time, some are skipped. Reports
    are never skipped. An evaluation with a new highest score makes a checkpoint due, which is held
    in memory if it is skipped.

    Attributes:
        step: Variable with twice the number of training steps, plus one after the evaluation at
            that step. One number in checkpoints.
        records: Receives reports and summaries, see `runs.records`; may be set until the loop runs.

    Args:
        training: Training operation and schedule.
        evaluation: Evaluation operation and schedule.
        step: Variable, by default a new one.
        records: Receives reports and summaries.
        progress: Called after every call of an operation with the name of the phase, the number of
            training steps so far, and the results since the last report.
        during: Called with the name of a phase, 'summary' or 'checkpoint'; returns a context to do
            it in.
        began: Start of the run, by `time.perf_counter`.
        share: Share of the time that summaries may take, and that checkpoints may take; by default
            unlimited.
        decide: Returns the decision of all ranks, given that of this rank.
        complete: Called with every report; returns the one to record.
    """

    def __init__(
        self,
        training: Training,
        evaluation: Evaluation,
        step: tf.Variable | None = None,
        records: Any = None,
        progress: Callable[[str, int, Tally], None] | None = None,
        during: Callable[[str], AbstractContextManager] = nullcontext,
        began: float | None = None,
        share: float = 1.0,
        decide: Callable[[bool], bool] = bool,
        complete: Callable[[Report], Report] | None = None,
    ):
        if step is None:
            step = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.step = step
        self.records = records
        self._training, self._evaluation = training, evaluation
        self._progress = progress
        self._during = during
        self._decide = decide
        self._complete = complete
        self._began = time.perf_counter() if began is None else began
        self._tallies = {'train': Tally(), 'eval': Tally()}
        self._summaries, self._checkpoints = Budget(share), Budget(share)
        # The last score of an evaluation, and the training step then.
        self._scored: tuple[int, float] | None = None

    def run(self, saver: Any = None) -> Iterator[Score]:
        """Train to the end.

        Args:
            saver: Saves checkpoints, see `agents.tools.runs.saver`.

        Yields:
            Mean score of the episodes that ended, for every report.
        """
        while not self.is_complete():
            if self._needs_evaluation():
                yield self._evaluate()
                if saver:
                    self._save_if_due(saver)
            else:
                score = self._train()
                if score is not None:
                    yield score

    def save(self, saver: Any) -> None:
        """Save a checkpoint now, with its score if it was just evaluated."""
        saver.save(self.clock(), self._find_score())

    def clock(self) -> int:
        """Return the number of training steps."""
        return int(self.step) // 2

    def set_clock(self, steps: int) -> None:
        """Continue after a number of training steps and their evaluation."""
        self.step.assign(2 * steps + 1)

    def is_complete(self) -> bool:
        """Return whether the training and its last evaluation are over."""
        is_over = self.clock() >= self._training.steps
        return is_over and not self._needs_evaluation()

    def _train(self) -> Score | None:
        training, before = self._training, self.clock()
        count = self._count_rollouts(before)
        started = time.perf_counter()
        with self._during('train'):
            results = training.operation(count)
            clock = before + count * training.rollout
            self.step.assign(2 * clock)
        if self._is_due(training.summarize_every, clock):
            self._summarize()
        seconds = time.perf_counter() - started
        self._add('train', results, clock - before, seconds, count)
        if not (self._is_due(training.report_every, clock) or self._needs_evaluation()):
            return None
        return self._report('train', training.counts())

    def _evaluate(self) -> Score:
        started = time.perf_counter()
        with self._during('eval'):
            results = self._evaluation.operation()
            self.set_clock(self.clock())
        steps = float(results['episodes']) * float(results['length'])
        self._add('eval', results, round(steps), time.perf_counter() - started)
        score = self._report('eval', self._evaluation.counts())
        self._scored = int(self.step), float(score)
        return score

    def _count_rollouts(self, clock: int) -> int:
        """Return the number of rollouts until the next event, within the limit."""
        rollout, left = self._training.rollout, self._training.steps - clock
        periods = (
            self._training.report_every,
            self._training.summarize_every,
            self._evaluation.every,
        )
        waits = [every - clock % every for every in periods if every]
        return min(self._training.rollouts_at_once, math.ceil(min(left, *waits) / rollout))

    def _needs_evaluation(self) -> bool:
        clock, is_evaluated = divmod(int(self.step), 2)
        is_over = clock >= self._training.steps
        due = is_over or self._is_due(self._evaluation.every, clock)
        return due and not is_evaluated

    def _is_due(self, every: int | None, clock: int) -> bool:
        """Return whether the last rollout reached a multiple of a period."""
        if every is None or not clock:
            return False
        return clock // every > (clock - self._training.rollout) // every

    def _add(
        self, phase: str, results: Mapping[str, Any], steps: int, seconds: float, rollouts: int = 1
    ) -> None:
        tally = self._tallies[phase]
        tally.add(results, steps, seconds, rollouts)
        if self._progress:
            self._progress(phase, self.clock(), tally)

    def _report(self, phase: str, counts: Mapping[str, float]) -> Score:
        tally = self._tallies[phase]
        self._tallies[phase] = Tally(compiled=True)
        scores = tally.scores
        report = Report(
            phase=phase,
            step=self.clock(),
            score=scores.score,
            score_std=scores.score_std,
            score_min=scores.score_min,
            score_max=scores.score_max,
            length=scores.length,
            episodes=int(scores.episodes),
            seconds=time.perf_counter() - self._began,
            steps_per_second=tally.rate(),
            metrics={**tally.means(), **counts},
        )
        if self._complete:
            report = self._complete(report)
        if self.records:
            self.records.report(report)
        return Score(report)

    def _summarize(self) -> None:
        summary = self._training.summary
        if self.records and summary and self._summaries.allows():
            with self._during('summary'), self._summaries.spend():
                self.records.summarize(self.clock(), summary())

    def _save_if_due(self, saver: Any) -> None:
        every = max(self._evaluation.every, self._training.rollout)
        every *= self._evaluation.checkpoint_every
        due = self._is_due(every, self.clock())
        score = self._find_score()
        better = score is not None and self._decide(saver.is_better(score))
        if not (due or better):
            return
        if self._decide(self._checkpoints.allows()):
            with self._during('checkpoint'), self._checkpoints.spend():
                self.save(saver)
        elif better:
            saver.hold(self.clock(), score)

    def _find_score(self) -> float | None:
        """Return the score of an evaluation at the current step, if any."""
        if self._scored is None or self._scored[0] != int(self.step):
            return None
        return self._scored[1]
