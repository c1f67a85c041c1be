"""What a training tells about itself while it goes on."""

import contextlib
import math
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from agents.scripts import console, interrupts, plan

if TYPE_CHECKING:  # It imports TensorFlow.
    from agents.tools.runs.loop import Report

# Words for what the loop does: for the user who waits for its end after a
# signal, and for the live line.
WAITED_FOR = {
    'train': 'finishing the update',
    'eval': 'finishing the evaluation',
}
SHOWN = {'train': 'learning', 'eval': 'evaluating', 'checkpoint': 'saving'}


class Status:
    """Tells how the training is going on, and what it is doing."""

    def __init__(
        self,
        say: console.Console,
        signals: interrupts.Interrupts,
        phases: plan.Plan,
    ):
        self.say = say.say
        self.signals = signals
        self.phases = phases
        self._console = say
        self._begun: set[str] = set()
        self._compiled = False
        self._step = 0
        self._trained = math.nan
        self._rate = math.nan

    def begin(self, step: int) -> None:
        """Tell that the loop starts to run at a training step."""
        where = f'resumed at step {step:,}' if step else 'from the beginning'
        self.say('train', f'{where}; tracing and compiling')
        self._started = time.perf_counter()
        self._step = self._first_step = step
        self.signals.stop_together()

    def complete(self, step: int) -> None:
        """Tell that there is nothing left to do."""
        self.say(
            'train',
            f'complete at step {step:,}; --set steps=<more> goes on from there',
        )

    def end_early(self, step: int, callback: str) -> None:
        """Tell that a callback has ended the training."""
        self.say(
            'train',
            f'ended at step {step:,} by {callback}; resumed, it goes on',
        )

    @contextlib.contextmanager
    def during(self, activity: str) -> Iterator[None]:
        """Tell what the loop does within this context, if it takes long."""
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
        where = f'{self._position(self._step)}  {shown}'
        with (
            self.signals.during(doing, hold),
            self._console.busy('train', where),
        ):
            yield
        self._begun.add(activity)
        if activity in WAITED_FOR:
            self.signals.agree()

    def progress(self, phase: str, step: int) -> None:
        """Tell the step that a call of an operation has reached."""
        now = time.perf_counter()
        self._step = step
        if not self._compiled:
            self._compiled = True
            self.say('', f'compiled in {now - self._started:.1f} s')
            self._started, self._first_step = now, step
        self._console.live('train', self._position(step))

    def report(self, report: 'Report') -> None:
        """Tell the scores of an evaluation and of the training before it."""
        if report.phase == 'train':
            self._trained = report.score
            self._rate = report.steps_per_second
        else:
            nothing = math.isnan(self._trained)  # No episode has ended yet.
            trained = '-' if nothing else f'{self._trained:.1f}'
            rate = f'{self._rate:,.0f} steps/s' if self._rate > 0 else ''
            self.say(
                'train',
                f'{self._position(report.step)}  train {trained}  '
                f'eval {report.score:.1f}  {rate}'.rstrip(),
            )

    def _position(self, step: int) -> str:
        elapsed = time.perf_counter() - self._started
        total, done = self.phases.steps, step - self._first_step
        text = f'step {step:,} ({step / total:.0%})'
        if not done or step >= total:
            return text
        left = elapsed * (total - step) / done
        return f'{text}  {console.duration(left)} left'
