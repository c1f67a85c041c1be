"""Progress of a training on the terminal."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from agents.terminal import console, interrupts
from agents.terminal.console import View

if TYPE_CHECKING:  # These import TensorFlow, or this module.
    from agents.tools.runs.loop import Report, Tally
    from agents.training.plan import Plan

# Words for what the loop does: for the user who waits for its end after a
# signal, and for who looks on.
WAITED_FOR = {'train': 'finishing the update', 'eval': 'finishing the evaluation'}
SHOWN = {'train': 'learning', 'eval': 'evaluating', 'checkpoint': 'saving'}

# Seconds after which is shown how long something has been going on.
LONG = 2.0


class Reporter:
    """Prints the progress of a training, and what delays a signal.

    Args:
        terminal: Console to print on, by default none.
        began: Start of the run, by `time.perf_counter`.
    """

    def __init__(self, terminal: console.Console | None = None, began: float | None = None):
        terminal = terminal or console.silent()
        self.say = terminal.say
        self._is_live = terminal.is_live
        self.signals = interrupts.current()
        self.began = time.perf_counter() if began is None else began
        self.plan: Plan | None = None  # Known once the session begins.
        self.best = math.nan  # The highest score of an evaluation.
        self._begun: set[str] = set()
        self._compiled = False
        self._step = 0
        self._trained = self._evaluated = math.nan
        # Number and mean score of the episodes since the last evaluation.
        self._episodes, self._mean = 0, math.nan
        self._rate = math.nan
        self._shares: dict[str, float] = {}
        self._renewed = 0.0
        # What is being done, in a word and how far that is, and since when.
        self._doing: tuple[str, Callable[[], str], float] | None = None
        self._running = False
        terminal.show(self._view)

    @contextlib.contextmanager
    def busy(self, topic: str, describe: Callable[[], str] = str) -> Iterator[None]:
        """Show an activity within this context.

        Args:
            topic: Name of the activity, one word.
            describe: Returns its progress; called from another thread.
        """
        self._doing = topic, describe, time.perf_counter()
        try:
            yield
        finally:
            self._doing = None

    @property
    def _total(self) -> int:
        assert self.plan is not None
        return self.plan.steps

    def begin(self, step: int) -> None:
        """Print that the loop starts at a training step."""
        where = f'resumed at step {step:,}' if step else 'from the beginning'
        self.say('train', f'{where}; tracing and compiling')
        self._started = time.perf_counter()
        self._step = self._first_step = step
        self._running = True
        self.signals.stop_together()

    def complete(self, step: int) -> None:
        """Print that there is nothing left to do."""
        self.say('train', f'complete at step {step:,}; --steps=<more> goes on from there')

    def tell_best(self, saver: Any) -> None:
        """Print which checkpoint has the highest score, if any."""
        best = saver.best if saver else None
        if best:
            self.say(
                'best',
                f'score {console.score(best.score)} at step {best.step:,}; '
                '--checkpoint=best takes it',
            )

    def end_early(self, step: int, callback: str) -> None:
        """Print that a callback ended the training."""
        self.say('train', f'ended at step {step:,} by {callback}; resumed, it goes on')

    @contextlib.contextmanager
    def during(self, activity: str) -> Iterator[None]:
        """Show what the loop does within this context, if it takes long."""
        first = activity in WAITED_FOR and activity not in self._begun
        doing = WAITED_FOR.get(activity, '')
        shown = SHOWN.get(activity, activity)
        if first:
            doing, shown = 'compiling', 'compiling'
            if activity == 'eval':
                self.say('eval', 'tracing and compiling')
        # An update must not be left half done, unless nothing is lost by it;
        # and TensorFlow, interrupted while it writes, raises anything.
        hold = activity == 'checkpoint' or (activity == 'train' and not first)
        with self.signals.during(doing, hold), self.busy(shown):
            yield
        self._begun.add(activity)
        if activity in WAITED_FOR:
            self.signals.agree()

    def progress(self, phase: str, step: int, tally: 'Tally') -> None:
        """Show the progress after a call of an operation.

        Args:
            phase: Phase of the operation.
            step: Training step.
            tally: Results since the last report of the phase.
        """
        now = time.perf_counter()
        self._step = step
        if not self._compiled:
            self._compiled = True
            self.say('', f'compiled in {now - self._started:.1f} s')
            self._started, self._first_step = now, step
        # It is added to here, so that another thread must not look at it.
        if phase == 'train' and now - self._renewed > console.RENEW_SECONDS:
            self._renewed = now
            self._shares = tally.shares() or self._shares
            if tally.scores.episodes:
                self._trained = tally.scores.score
            if tally.rate() > 0:
                self._rate = tally.rate()

    def report(self, report: 'Report') -> None:
        """Print the scores of an evaluation and of the training before it."""
        if report.phase == 'train':
            if not math.isnan(report.score):  # Until an episode has ended.
                self._trained = report.score
                self._add(max(1, report.episodes), report.score)
            if report.steps_per_second > 0:
                self._rate = report.steps_per_second
        else:
            self._evaluated = report.score
            self.best = max(report.score, self.best, key=_rank)
            trained = console.score(self._mean) if self._episodes else '-'
            self._episodes = 0
            rate = f'{self._rate:,.0f} steps/s' if self._rate > 0 else ''
            self.say(
                'train',
                f'{self._position(report.step)}  train {trained}  '
                f'eval {console.score(report.score)}  {rate}'.rstrip(),
            )

    def _add(self, episodes: int, score: float) -> None:
        """Add episodes to those since the last evaluation."""
        mean = self._mean if self._episodes else 0.0
        self._episodes += episodes
        self._mean = mean + (score - mean) * episodes / self._episodes

    def _view(self) -> View:
        """Return what to show now; called from another thread."""
        now = time.perf_counter()
        usual = 'learning' if self._running else 'starting'
        topic, describe, since = self._doing or (usual, str, now)
        seconds = now - since
        parts = [describe()]
        if seconds >= LONG:
            parts.append(f'{seconds:.0f} s')
        text = ', '.join(filter(None, parts))
        if not self._running:
            return View(topic, text)
        step, total = self._step, self._total
        left = self._left(step)
        behind = [text, f'{step / total:.0%}', left and f'{left} left']
        return View(
            topic, '  '.join(filter(None, behind)), step / total, tuple(self._facts(step, total))
        )

    def _facts(self, step: int, total: int) -> Iterator[str]:
        yield f'step {step:,} of {total:,}'
        for name, score in (
            ('train', self._trained),
            ('eval', self._evaluated),
            ('best', self.best),
        ):
            if not math.isnan(score):  # Until an episode has ended.
                yield f'{name} {console.score(score)}'
        if self._rate > 0:
            yield f'{self._rate:,.0f} steps/s'
        if self._shares:
            parts = self._shares.items()
            yield ', '.join(f'{part} {share:.0%}' for part, share in parts)

    def _position(self, step: int) -> str:
        text = f'step {step:,} ({step / self._total:.0%})'
        left = '' if self._is_live else self._left(step)  # It is shown below.
        return f'{text}  {left} left' if left else text

    def _left(self, step: int) -> str:
        """Return the estimated time left, if known."""
        elapsed = time.perf_counter() - self._started
        total, done = self._total, step - self._first_step
        if not done or step >= total:
            return ''
        return console.duration(elapsed * (total - step) / done)


def _rank(score: float) -> float:
    return -math.inf if math.isnan(score) else score
