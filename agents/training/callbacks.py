"""Functions that are called with every report of a training.

A callback is any function of a `Report`, the numbers of the training since the
last report, every `log_every` steps, or of an evaluation:

    def follow(report):
        if report.phase == 'eval':
            return {'score_per_step': report.score / report.length}

    agents.train(config, logdir, callbacks=[follow, stop_at(195)]).run()

What it returns is of use:

- Numbers by name become metrics of the report, so that they are columns of
  progress.csv and curves in TensorBoard.
- False ends the training, which is saved and can be gone on with.
- None and True are nothing to be done.

An error that it raises ends the training in the same way and is raised again.
Of several ranks the first alone calls it, and all do as it says. A config may
have callbacks as well. A run that is resumed by its name alone finds those of
its file again; where a config is given, its callbacks count instead.

Those below decide when to stop.
"""

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from agents.tools import errors

if TYPE_CHECKING:  # It imports TensorFlow.
    from agents.tools.runs.loop import Report

Callback = Callable[['Report'], Mapping[str, float] | bool | None]


def stop_at(score: float, phase: str = 'eval') -> Callback:
    """End the training once a mean score is as high.

    Args:
        score: The score.
        phase: Whose score, 'eval' or 'train'.
    """
    _require_phase(phase)

    def stop(report: 'Report') -> bool:
        return not (report.phase == phase and report.score >= score)

    return _named(stop, f'stop_at({score:g})')


def stop_without_improvement(reports: int = 10, by: float = 0.0, phase: str = 'eval') -> Callback:
    """End the training once its mean score has not risen for some time.

    A run that is resumed counts from the beginning.

    Args:
        reports: After how many evaluations, or reports of the training, that
            were no better than the best before.
        by: How much higher a score has to be to be better.
        phase: Whose score, 'eval' or 'train'.
    """
    _require_phase(phase)
    if reports < 1:
        raise errors.ConfigError(f'reports={reports} is less than one.')
    best, waited = -math.inf, 0

    def stop(report: 'Report') -> bool:
        nonlocal best, waited
        if report.phase != phase or math.isnan(report.score):
            return True
        if report.score > best + by:
            best, waited = report.score, 0
        else:
            waited += 1
        return waited < reports

    return _named(stop, f'stop_without_improvement({reports})')


def _require_phase(phase: str) -> None:
    errors.require_known('phase', phase, ('train', 'eval'))


def _named(function: Callback, name: str) -> Callback:
    """Give a function the name that it is told of by."""
    function.__name__ = function.__qualname__ = name
    return function
