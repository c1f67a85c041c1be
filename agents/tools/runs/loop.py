"""The loop that cycles through phases such as training and evaluation."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from agents.tools import errors
from agents.tools.graph.backend import tf
from agents.tools.runs.budget import Budget

# Parts of a call, by the number that tells how long they took.
PARTS = {'environment': 'env_seconds', 'update': 'update_seconds'}


class Phase(NamedTuple):
    """A part of the cycle; see `Loop.add_phase` for the fields."""

    name: str
    operation: Callable[[], Mapping[str, Any]]
    batch_size: int
    steps: int
    report_every: int | None
    log_every: int | None
    checkpoint_every: int | None
    summary: Callable[[], Mapping[str, Any]] | None
    counts: Callable[[], Mapping[str, float]] | None


class Report(NamedTuple):
    """What happened in a phase since its last report.

    Attributes:
        phase: Name of the phase.
        step: Steps of the first phase so far, which is training.
        score: Mean score of the episodes that ended, NaN if none did.
        score_std: Standard deviation of their scores.
        score_min: The lowest of their scores.
        score_max: The highest of their scores.
        length: Their mean number of steps.
        episodes: How many there were.
        seconds: Time since the run began.
        steps_per_second: Steps of the phase over the time they took, the
            first call of its operation left out, which is traced and compiled.
        metrics: Means of the other numbers over the calls, and counts.
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
    """A mean score that knows the report it is from."""

    report: Report

    def __new__(cls, report: Report) -> 'Score':
        score = super().__new__(cls, report.score)
        score.report = report
        return score


class Loop:
    """Runs operations in phases, each for a number of steps, over and over.

    The step alone says which phase it is, so that a loop whose step has been
    restored from a checkpoint goes on in the right place.

    Steps are environment steps of all agents together. An operation covers
    `batch_size` of them at once, and whatever the loop does periodically it
    does after the call that covered the step at which it was due. For example,
    a phase of 6 steps with `batch_size=2` and `report_every=3`:

        step      0 1 2 3 4 5
        call      --- --- ---
        report          ^   ^

    Where steps are so fast that summaries, or checkpoints, would take more
    than their share of the time, the loop leaves some of them out. Reports are
    never left out. A phase that has checkpoints tells by its scores which of
    them is the best: a higher score than any before makes one due, and has it
    held in memory if it is left out.

    Args:
        step: The step over all phases, by default a new variable.
        records: Receives reports and summaries, see `runs.records`.
        progress: Called after every call of an operation with the name of the
            phase, the number of steps of the first phase so far, and what
            there was since the last report.
        during: Called with what is about to be done, the name of a phase,
            'summary' or 'checkpoint'; returns a context to do it in.
        began: Time at which the run began, by `time.perf_counter`.
        share: Share of the time that summaries may take, and that checkpoints
            may take; by default no limit.
        decide: Returns what all ranks do, given what this one would.
        complete: Called with every report; returns the one that is recorded.
    """

    def __init__(
        self,
        step: tf.Variable | None = None,
        records: Any = None,
        progress: 'Callable[[str, int, Tally], None] | None' = None,
        during: Callable[[str], AbstractContextManager] = nullcontext,
        began: float | None = None,
        share: float = 1.0,
        decide: Callable[[bool], bool] = bool,
        complete: Callable[[Report], Report] | None = None,
    ):
        if step is None:
            step = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.step = step
        self.records = records  # May be set until the loop runs.
        self._progress = progress
        self._during = during
        self._decide = decide
        self._complete = complete
        self._began = time.perf_counter() if began is None else began
        self._phases: list[Phase] = []
        self._tallies: dict[str, Tally] = {}
        self._summaries, self._checkpoints = Budget(share), Budget(share)
        # The last score of a phase that has checkpoints, and the step then.
        self._scored: tuple[int, float] | None = None

    def add_phase(
        self,
        name: str,
        operation: Callable[[], Mapping[str, Any]],
        batch_size: int,
        steps: int,
        report_every: int | None = None,
        log_every: int | None = None,
        checkpoint_every: int | None = None,
        summary: Callable[[], Mapping[str, Any]] | None = None,
        counts: Callable[[], Mapping[str, float]] | None = None,
    ) -> None:
        """Add a phase to the end of the cycle.

        Args:
            name: Name of the phase in reports.
            operation: Returns numbers by name, among them what
                `EpisodeScores.clear` says of the episodes that ended in this
                call.
            batch_size: Steps that a call covers.
            steps: Steps of the phase within a cycle.
            report_every: Steps of this phase between two reports.
            log_every: Steps of this phase between two summaries, at least.
            checkpoint_every: Steps of this phase between two checkpoints, at
                least.
            summary: Returns tensors by name to be logged as histograms.
            counts: Returns numbers by name when a report is made, of which
                they become part as they are.
        """
        if steps < 1 or steps % batch_size:
            raise errors.ConfigError(
                f'The phase {name!r} has {steps} steps, which is not a '
                f'multiple of the {batch_size} steps of one call.'
            )
        self._phases.append(
            Phase(
                name,
                operation,
                batch_size,
                steps,
                report_every,
                log_every,
                checkpoint_every,
                summary,
                counts,
            )
        )
        self._tallies[name] = Tally()

    def run(
        self, saver: Any = None, max_step: int | None = None
    ) -> Iterator[Score]:
        """Run phase after phase.

        Args:
            saver: Saves checkpoints, see `agents.tools.runs.saver`.
            max_step: Step over all phases at which to stop, by default never.

        Yields:
            The mean score of the episodes that ended, for every report.
        """
        while max_step is None or int(self.step) < max_step:
            phase, before = self._find_phase(int(self.step))
            tally, after = self._tallies[phase.name], before + phase.batch_size
            started = time.perf_counter()
            with self._during(phase.name):
                results = phase.operation()
                self.step.assign_add(phase.batch_size)
            if _is_due(phase.log_every, before, after):
                self._summarize(phase)
            tally.add(results, phase.batch_size, time.perf_counter() - started)
            if self._progress:
                self._progress(phase.name, self.clock(), tally)
            if _is_due(phase.report_every, before, after):
                report = self._make_report(phase, tally)
                if self._complete:
                    report = self._complete(report)
                self._tallies[phase.name] = Tally(compiled=True)
                if phase.checkpoint_every:
                    self._scored = int(self.step), report.score
                if self.records:
                    self.records.report(report)
                yield Score(report)
            if saver and phase.checkpoint_every:
                due = _is_due(phase.checkpoint_every, before, after)
                self._save_if_due(saver, due)

    def save(self, saver: Any) -> None:
        """Save what there is now, with its score if it has just been found."""
        saver.save(self.clock(), self._find_score())

    def clock(self) -> int:
        """Count the steps of the first phase, by which results are dated."""
        first = self._phases[0]
        cycle, within = divmod(int(self.step), self._count_steps())
        return cycle * first.steps + min(within, first.steps)

    def _summarize(self, phase: Phase) -> None:
        if self.records and phase.summary and self._summaries.allows():
            with self._during('summary'), self._summaries.spend():
                summary = phase.summary()
                self.records.summarize(phase.name, self.clock(), summary)

    def _save_if_due(self, saver: Any, due: bool) -> None:
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
        """The score at this very step, if it was found."""
        if self._scored is None or self._scored[0] != int(self.step):
            return None
        return self._scored[1]

    def _count_steps(self) -> int:
        """Count the steps of one cycle."""
        return sum(phase.steps for phase in self._phases)

    def _find_phase(self, step: int) -> tuple[Phase, int]:
        """Find the phase at a step, and how many steps of it came before."""
        if not self._phases:
            raise ValueError('Add a phase before running the loop.')
        cycle, within = divmod(step, self._count_steps())
        for phase in self._phases:
            if within < phase.steps:
                return phase, cycle * phase.steps + within
            within -= phase.steps
        raise AssertionError('The step lies within one of the phases.')

    def _make_report(self, phase: Phase, tally: 'Tally') -> Report:
        scores, counts = tally.scores, phase.counts() if phase.counts else {}
        return Report(
            phase=phase.name,
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


class _Scores(NamedTuple):
    """What is told of the episodes that have ended in some calls."""

    episodes: float = 0.0
    score: float = math.nan
    score_std: float = math.nan
    score_min: float = math.nan
    score_max: float = math.nan
    length: float = math.nan

    def merge(self, new: '_Scores') -> '_Scores':
        """Take in the episodes of another call.

        With a share p of the episodes in the new call, and d between the
        means, the variance is (1 − p)·σ² + p·σ′² + p·(1 − p)·d².
        """
        if not (self.episodes and new.episodes):
            return new if new.episodes else self
        episodes = self.episodes + new.episodes
        part, between = new.episodes / episodes, new.score - self.score
        variance = (
            (1 - part) * self.score_std**2
            + part * new.score_std**2
            + part * (1 - part) * between**2
        )
        return _Scores(
            episodes,
            self.score + part * between,
            math.sqrt(variance),
            min(self.score_min, new.score_min),
            max(self.score_max, new.score_max),
            self.length + part * (new.length - self.length),
        )


class Tally:
    """Adds up the results of the calls of an operation between two reports."""

    def __init__(self, compiled: bool = False):
        self.scores = _Scores()
        self._compiled = compiled  # Whether the first call is over.
        self._calls = 0
        self._sums: dict[str, float] = {}
        self._steps = 0
        self._seconds = 0.0
        # Of those calls only that are timed, by what took them.
        self._parts = dict.fromkeys(PARTS, 0.0)

    def add(
        self, results: Mapping[str, Any], steps: int, seconds: float
    ) -> None:
        """Take in the results of a call and the time it took."""
        numbers = {name: float(value) for name, value in results.items()}
        new = _Scores(*(numbers.pop(name) for name in _Scores._fields))
        self.scores = self.scores.merge(new)
        for name, value in numbers.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
        self._calls += 1
        if self._compiled:
            self._steps += steps
            self._seconds += seconds
            for part, name in PARTS.items():
                self._parts[part] += numbers.get(name, 0.0)
        self._compiled = True

    def rate(self) -> float:
        """Compute the steps per second."""
        return self._steps / self._seconds if self._seconds else math.nan

    def shares(self) -> dict[str, float]:
        """Compute which shares of the time known parts of the calls took."""
        return {
            part: seconds / self._seconds
            for part, seconds in self._parts.items()
            if seconds
        }

    def means(self) -> dict[str, float]:
        """Average what is not about episodes over the calls."""
        return {name: total / self._calls for name, total in self._sums.items()}


def _is_due(every: int | None, before: int, after: int) -> bool:
    """Tell whether a period ends within the steps from `before` to `after`."""
    return every is not None and after // every > before // every
