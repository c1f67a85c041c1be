"""Learning curves, read from the tables of runs."""

import math
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from agents.tools.runs import progress

# Beyond this, scores come from elsewhere and axes cannot be drawn.
LARGEST = 1e30

# The column that is read unless another is named.
SCORE = 'score'


class Curve(NamedTuple):
    """Reports of a phase of a run, as arrays.

    Attributes:
        steps: Training steps, increasing.
        seconds: Time since the run began.
        scores: Mean scores, or values of another column.
        deviations: Standard deviations over episodes, NaN if unknown.
    """

    steps: np.ndarray
    seconds: np.ndarray
    scores: np.ndarray
    deviations: np.ndarray

    def at(self, axis: str) -> np.ndarray:
        """Return the steps or the seconds."""
        return self.seconds if axis == 'seconds' else self.steps


def read(directory: pathlib.Path, phase: str, column: str = SCORE) -> Curve:
    """Read the reports of a phase that have a value in a column.

    Args:
        directory: Directory of a run.
        phase: `train` or `eval`.
        column: Column of progress.csv.
    """
    found: dict[int, tuple[float, float, float]] = {}
    before = seconds = 0.0
    for row in progress.read(directory):
        since = _number(row.cells.get('seconds', ''))
        # A run that is resumed counts from there.
        if not math.isnan(since):
            before += seconds if since < seconds else 0.0
            seconds = since
        value = _value(row.cells.get(column, ''))
        if row.phase == phase and abs(value) < LARGEST:
            std = row.score_std if column == SCORE else math.nan
            std = std if abs(std) < LARGEST else math.nan
            found[row.step] = before + seconds, value, std
    steps = sorted(found)
    numbers = np.array([found[step] for step in steps]).reshape(-1, 3)
    return Curve(np.array(steps, float), *numbers.T)


def smooth(scores: np.ndarray, count: int) -> np.ndarray:
    """Return the moving average over `count` scores, each with those before it."""
    if count <= 1:
        return scores
    sums = np.concatenate([[0.0], np.cumsum(scores)])
    ends = np.arange(1, len(sums))
    begins = np.maximum(0, ends - count)
    return (sums[ends] - sums[begins]) / (ends - begins)


def mean_seconds(curves: Sequence[Curve], steps: np.ndarray) -> np.ndarray:
    """Return the mean time that runs needed to reach steps."""
    times = [np.interp(steps, each.steps, each.seconds) for each in curves]
    return np.mean(times, axis=0)


def common_grid(steps: Sequence[np.ndarray], most: int = 400) -> np.ndarray:
    """Return steps that all curves cover, between their latest start and their earliest end.

    They are the steps of the curves, thinned out to `most`. None if a curve ends before another
    begins.
    """
    first = max(each[0] for each in steps)
    last = min(each[-1] for each in steps)
    every = np.unique(np.concatenate(steps))
    grid = every[(every >= first) & (every <= last)]
    if len(grid) > most:
        return np.linspace(first, last, most)
    return grid


def _number(text: str) -> float:
    number = _value(text)
    return number if 0 <= number < LARGEST else math.nan


def _value(text: str) -> float:
    try:
        return float(text or math.nan)
    except ValueError:
        return math.nan
