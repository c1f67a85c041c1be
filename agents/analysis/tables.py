"""Final values of groups of runs, as a table."""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from agents.analysis import estimates
from agents.analysis.run_groups import Group
from agents.config import plain_yaml
from agents.terminal import console
from agents.tools import errors
from agents.tools.runs import curves
from agents.tools.runs.curves import Curve

# Columns of the table, and those that are left out first if it is too wide.
HEAD = 'group', 'runs', curves.SCORE, '95% interval', 'best', 'steps', 'time'

SCORE = HEAD.index(curves.SCORE)

LEAST = 'time', 'best', 'steps'

SHORTEST_NAME = 12

SMALL = 0.1


class Summary(NamedTuple):
    """Final values of a group of runs.

    Attributes:
        group: Label of the group.
        runs: Number of runs.
        score: Score, or value of another column, at the last step that all runs have.
        low: Lower end of its 95% interval over runs, NaN for one run.
        high: Upper end.
        best: Highest score of the curve, NaN for another column.
        steps: Training steps at its end.
        seconds: Mean time of the runs until then.
        env: Name of the environment.
    """

    group: str
    runs: int
    score: float
    low: float
    high: float
    best: float
    steps: int
    seconds: float
    env: str = ''


class _Band(NamedTuple):
    """Line with its band."""

    places: np.ndarray
    values: np.ndarray
    low: np.ndarray
    high: np.ndarray


def format_table(
    summaries: Sequence[Summary], width: int | None = None, y: str = curves.SCORE
) -> Iterator[str]:
    """Format the final values of groups as a table.

    Columns without values are left out. If the table is too wide, the least important columns are
    left out, and names are shortened.
    """
    head = (*HEAD[:SCORE], errors.escape(y), *HEAD[SCORE + 1 :])
    rows = [head, *(_format_row(each, y) for each in summaries)]
    filled = [any(column[1:]) for column in zip(*rows, strict=True)]
    rows = [tuple(itertools.compress(row, filled)) for row in rows]
    if len({each.env for each in summaries}) > 1:
        envs = ['environment', *(each.env for each in summaries)]
        pairs = zip(envs, rows, strict=True)
        rows = [(group, env, *cells) for env, (group, *cells) in pairs]
    widths = _widths(rows)
    for name in LEAST:
        too_wide = width and sum(widths) + 2 * (len(widths) - 1) > width
        if too_wide and name in rows[0]:
            column = rows[0].index(name)
            rows = [(*row[:column], *row[column + 1 :]) for row in rows]
            widths = _widths(rows)
    if width:
        others = sum(widths[1:]) + 2 * len(widths[1:])
        widths[0] = min(widths[0], max(SHORTEST_NAME, width - others))
    for name, *cells in rows:
        shown = errors.shorten(name, widths[0])
        yield f'{shown:<{widths[0]}}' + ''.join(
            f'  {cell:>{size}}' for cell, size in zip(cells, widths[1:], strict=True)
        )


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def read(group: Group, phase: str, y: str) -> list[Curve]:
    """Read the curves of a group."""
    return [curves.read(run.directory, phase, y) for run in group.runs]


def env_name(group: Group) -> str:
    """Return the name of the environment of a group as text."""
    return plain_yaml.bare_name(str(group.runs[0].settings.get('env', '')))


def aggregate(
    group: Group, phase: str, axis: str, smooth: int, statistic: str, y: str = curves.SCORE
) -> _Band:
    """Compute the line of a group, and its band."""
    found = read(group, phase, y)
    scores = [curves.smooth(curve.scores, smooth) for curve in found]
    if len(found) == 1:
        (curve,) = found
        low, high = scores[0] - curve.deviations, scores[0] + curve.deviations
        return _Band(curve.at(axis), scores[0], low, high)
    present = [index for index, curve in enumerate(found) if len(curve.steps)]
    if not present:
        return _Band(*np.zeros((4, 0)))
    grid = curves.common_grid([found[index].steps for index in present])
    if not len(grid):
        raise errors.ConfigError(
            f'The runs of {group.label} have no steps in common: one ends '
            'before another begins. Draw them one by one: --by run.'
        )
    lines = [np.interp(grid, found[index].steps, scores[index]) for index in present]
    strata = [np.stack(lines, -1)]
    function = estimates.STATISTICS[statistic]
    places = grid
    if axis == 'seconds':  # The mean of what the runs took until each step.
        curves_present = [found[index] for index in present]
        places = curves.mean_seconds(curves_present, grid)
    low, high = estimates.interval(strata, function)
    return _Band(places, function(strata), low, high)


def summarize(group: Group, phase: str, statistic: str, y: str) -> Summary:
    band = aggregate(group, phase, 'steps', 1, statistic, y)
    several = len(group.runs) > 1
    end = band.places[-1]
    seconds = curves.mean_seconds(read(group, phase, y), band.places[-1:])
    return Summary(
        group.label,
        len(group.runs),
        float(band.values[-1]),
        float(band.low[-1]) if several else math.nan,
        float(band.high[-1]) if several else math.nan,
        float(band.values.max()) if y == curves.SCORE else math.nan,
        int(end),
        float(seconds[0]),
        env_name(group),
    )


def _format_row(row: Summary, y: str) -> tuple[str, ...]:
    value, low, high = [
        # Others than scores, such as KL divergences, may be small.
        f'{number:.3g}'
        if y != curves.SCORE and abs(row.score) < SMALL
        else console.score(number, row.score)
        for number in (row.score, row.low, row.high)
    ]
    return (
        row.group,
        str(row.runs),
        value,
        '' if math.isnan(row.low) else f'{low} to {high}',
        '' if math.isnan(row.best) else console.score(row.best),
        f'{row.steps:,}',
        console.duration(row.seconds),
    )
