"""The loop that cycles through phases such as training and evaluation."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from agents.tools import errors
from agents.tools.graph.backend import tf


class Phase(NamedTuple):
    """A part of the cycle; see `Loop.add_phase` for the fields."""

    name: str
    operation: Callable[[bool], Mapping[str, Any]]
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
        length: Their mean number of steps.
        episodes: How many there were.
        seconds: Time since the loop began to run.
        steps_per_second: Steps of the phase over the time they took, the
            first call of its operation left out, which is traced and compiled.
        metrics: Means of the other numbers, and counts.
    """

    phase: str
    step: int
    score: float
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

    Which phase it is follows from the step alone, so that a loop whose step
    has been restored from a checkpoint goes on in the right place.

    Steps are environment steps of all agents together. An operation covers
    `batch_size` of them at once, and whatever happens periodically happens
    after a call that covered the step at which it was due. For example, a
    phase of 6 steps with `batch_size=2` and `report_every=3`:

        step      0 1 2 3 4 5
        call      --- --- ---
        report          ^   ^

    Args:
        step: The step over all phases, by default a new variable.
        records: Receives reports and summaries, see `runs.records`.
        progress: Called after every call of an operation with the name of the
            phase and the number of steps of the first phase so far.
        during: Called with what is about to be done, the name of a phase,
            'summary' or 'checkpoint'; returns a context to do it in.
        began: Time at which the run began, by `time.perf_counter`.
    """

    def __init__(
        self,
        step: tf.Variable | None = None,
        records: Any = None,
        progress: Callable[[str, int], None] | None = None,
        during: Callable[[str], AbstractContextManager] = nullcontext,
        began: float | None = None,
    ):
        if step is None:
            step = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.step = step
        self.records = records  # May be set until the loop runs.
        self._progress = progress
        self._during = during
        self._began = time.perf_counter() if began is None else began
        self._phases: list[Phase] = []
        self._tallies: dict[str, _Tally] = {}

    def add_phase(
        self,
        name: str,
        operation: Callable[[bool], Mapping[str, Any]],
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
            operation: Called with whether the phase begins; returns numbers by
                name, among them `episodes`, how many ended in this call, and
                `score` and `length`, the means over these.
            batch_size: Steps that a call covers.
            steps: Steps of the phase within a cycle.
            report_every: Steps of this phase between two reports.
            log_every: Steps of this phase between two summaries.
            checkpoint_every: Steps of this phase between two checkpoints.
            summary: Returns tensors by name to be logged as histograms.
            counts: Returns numbers by name that a report has as they are then.
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
        self._tallies[name] = _Tally()

    def run(
        self, saver: Any = None, max_step: int | None = None
    ) -> Iterator[Score]:
        """Run phase after phase.

        Args:
            saver: Saves a checkpoint when its `save` is called with the
                steps of the first phase.
            max_step: Step over all phases at which to stop, by default never.

        Yields:
            The mean score of the episodes that ended, for every report.
        """
        while max_step is None or int(self.step) < max_step:
            phase, within, before = self._current(int(self.step))
            tally, after = self._tallies[phase.name], before + phase.batch_size
            started = time.perf_counter()
            with self._during(phase.name):
                results = phase.operation(within == 0)
                self.step.assign_add(phase.batch_size)
            if _is_due(phase.log_every, before, after):
                self._summarize(phase)
            tally.add(results, phase.batch_size, time.perf_counter() - started)
            if self._progress:
                self._progress(phase.name, self.clock())
            if _is_due(phase.report_every, before, after):
                report = self._report(phase, tally)
                self._tallies[phase.name] = _Tally(compiled=True)
                if self.records:
                    self.records.report(report)
                yield Score(report)
            if saver and _is_due(phase.checkpoint_every, before, after):
                with self._during('checkpoint'):
                    saver.save(self.clock())

    def clock(self) -> int:
        """The steps of the first phase so far, by which results are dated."""
        first = self._phases[0]
        cycle, within = divmod(int(self.step), self._cycle())
        return cycle * first.steps + min(within, first.steps)

    def _summarize(self, phase: Phase) -> None:
        if self.records and phase.summary:
            with self._during('summary'):
                summary = phase.summary()
                self.records.summarize(phase.name, self.clock(), summary)

    def _cycle(self) -> int:
        return sum(phase.steps for phase in self._phases)

    def _current(self, step: int) -> tuple[Phase, int, int]:
        """The phase at a step, its steps in this cycle, and in all."""
        if not self._phases:
            raise ValueError('Add a phase before running the loop.')
        cycle, within = divmod(step, self._cycle())
        for phase in self._phases:
            if within < phase.steps:
                return phase, within, cycle * phase.steps + within
            within -= phase.steps
        raise AssertionError('The step lies within one of the phases.')

    def _report(self, phase: Phase, tally: '_Tally') -> Report:
        return Report(
            phase=phase.name,
            step=self.clock(),
            score=tally.mean('score'),
            length=tally.mean('length'),
            episodes=int(tally.episodes),
            seconds=time.perf_counter() - self._began,
            steps_per_second=tally.rate(),
            metrics={
                **tally.metrics(),
                **(phase.counts() if phase.counts else {}),
            },
        )


class _Tally:
    """Adds up the results of the calls of an operation between two reports."""

    def __init__(self, compiled: bool = False):
        self.episodes = 0.0
        self._compiled = compiled  # Whether a call does not compile any more.
        self._calls = 0
        self._sums: dict[str, float] = {}
        self._steps = 0
        self._seconds = 0.0

    def add(
        self, results: Mapping[str, Any], steps: int, seconds: float
    ) -> None:
        numbers = {name: float(value) for name, value in results.items()}
        episodes = numbers.pop('episodes')
        for name in ('score', 'length'):
            numbers[name] = numbers[name] * episodes if episodes else 0.0
        for name, value in numbers.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
        self.episodes += episodes
        self._calls += 1
        if self._compiled:
            self._steps += steps
            self._seconds += seconds
        self._compiled = True

    def mean(self, name: str) -> float:
        """The mean over the episodes that ended."""
        return self._sums[name] / self.episodes if self.episodes else math.nan

    def rate(self) -> float:
        return self._steps / self._seconds if self._seconds else math.nan

    def metrics(self) -> dict[str, float]:
        """The means over the calls of all other numbers."""
        return {
            name: total / self._calls
            for name, total in self._sums.items()
            if name not in ('score', 'length')
        }


def _is_due(every: int | None, before: int, after: int) -> bool:
    """Whether one of the steps from `before` to `after` completes a period."""
    return every is not None and after // every > before // every
