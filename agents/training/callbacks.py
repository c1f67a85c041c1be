"""Functions that are called with every report of a training.

A callback is a function of a `Report` with the numbers since the last report, every `log_every`
steps of training or of an evaluation:

    def follow(report):
        if report.phase == 'eval':
            return {'score_per_step': report.score / report.length}

    agents.train(config, logdir, callbacks=[follow, stop_at(195)]).run()

Its result has an effect:

- Numbers by name become metrics: columns of progress.csv and curves in TensorBoard.
- False ends the training, which is saved and can be resumed.
- None and True: continue.

An exception ends the training in the same way and is raised again. On several ranks, only the first
calls it, and all follow. A config may have callbacks as well. A run that is resumed by name uses
those of its config file; if a config is given, its callbacks are used instead.

The functions below make callbacks that decide when to stop.
"""

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from agents.tools import errors

if TYPE_CHECKING:  # It imports TensorFlow.
    from agents.tools.runs.loop import Report

Callback = Callable[['Report'], Mapping[str, float] | bool | None]


def stop_at(score: float, phase: str = 'eval') -> Callback:
    """End the training once a mean score is reached.

    Args:
        score: Score to reach.
        phase: Phase of the score, 'eval' or 'train'.
    """
    _require_phase(phase)

    def stop(report: 'Report') -> bool:
        return not (report.phase == phase and report.score >= score)

    return _named(stop, f'stop_at({score:g})')


def stop_without_improvement(reports: int = 10, by: float = 0.0, phase: str = 'eval') -> Callback:
    """End the training once the mean score has stopped to rise.

    A run that is resumed starts counting again.

    Args:
        reports: Number of consecutive reports of the phase without an improvement.
        by: Smallest increase that counts as an improvement.
        phase: Phase of the score, 'eval' or 'train'.
    """
    _require_phase(phase)
    if reports < 1:
        raise errors.ConfigError(
            f'reports must be at least 1, got {reports}. Give a larger number.'
        )
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
    """Set the name of a function for messages."""
    function.__name__ = function.__qualname__ = name
    return function
