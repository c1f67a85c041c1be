"""`agents.train` and its result."""

import contextlib
import pathlib
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agents.tools.attr_dict import AttrDict
from agents.training.session import Session

if TYPE_CHECKING:  # It imports TensorFlow.
    from agents.tools.runs.loop import Score
    from agents.training.callbacks import Callback


def train(
    config: AttrDict,
    logdir: str | pathlib.Path | None = None,
    env_processes: bool | None = None,
    callbacks: 'Sequence[Callback | str]' = (),
    begin_from: str | pathlib.Path | None = None,
) -> 'Training':
    """Train and evaluate in turn.

        agents.train(config, 'runs/pendulum').run()

    trains to the end. To follow the progress, iterate instead:

        for score in agents.train(config, 'runs/pendulum'):
            print(score.report.phase, score.report.step, score)

    Args:
        config: Settings, from a function of `agents.scripts.configs`.
        logdir: Directory of this run, for checkpoints and results; an existing run in it is
            resumed. By default nothing is written.
        env_processes: Use worker processes for environments; by default whichever is faster.
        callbacks: Functions that are called with every report, after those of the setting of this
            name, see `agents.callbacks`.
        begin_from: Directory of another run, whose weights and statistics initialize a new one,
            like the setting of this name. It may end with `@` and a training step or `best`; by
            default its last checkpoint.

    Returns:
        Iterator over mean scores of the episodes since the last report, of training and evaluation
        in turn. Each is a float with an attribute `report`. Training happens while iterating or in
        `run`.
    """
    if begin_from is not None:
        config = config.copy(begin_from=str(begin_from))
    session = Session(config, logdir, env_processes, callbacks)
    return Training(session, logdir)


class Training(Iterator['Score']):
    """Trains while it is iterated over, or run.

    Args:
        session: Session to train.
        logdir: Directory of the run as it was given.
    """

    def __init__(self, session: Session, logdir: str | pathlib.Path | None = None):
        # The session must not know this, so that whoever stops to iterate and
        # drops it ends the training, which is saved.
        self._scores = session.scores()
        self._logdir = logdir
        self._begun = self._over = False
        self._last: Score | None = None

    def run(self) -> 'Score | None':
        """Train to the end.

        Returns:
            Score of the last evaluation, a float with an attribute `report`; None if there was
            nothing left to do.
        """
        last = None
        with contextlib.closing(self):
            for score in self:
                if score.report.phase == 'eval':
                    last = score
        return last

    def __next__(self) -> 'Score':
        self._begun = True
        try:
            self._last = next(self._scores)
        except BaseException:
            self._over = True
            raise
        return self._last

    def close(self) -> None:
        """Save a checkpoint and end the training."""
        self._begun = self._over = True
        self._scores.close()

    def __repr__(self) -> str:
        where = f'in {str(self._logdir)!r}' if self._logdir else 'without a logdir'
        if not self._begun:
            state = 'not begun: call its run(), or iterate over its scores'
        else:
            step = self._last.report.step if self._last is not None else 0
            state = f'{"ended" if self._over else "begun"}, step {step:,}'
        return f'<Training {where}, {state}>'

    def __del__(self) -> None:
        if not self._begun:
            warnings.warn(
                'Nothing was trained, as nobody asked for it; write '
                '`agents.train(...).run()`, or `for score in '
                'agents.train(...)` to see the scores.',
                stacklevel=2,
            )
