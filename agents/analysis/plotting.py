"""Plots of learning curves: one run, several, or groups of seeds."""

import dataclasses
import itertools
import math
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from agents.analysis import drawing, run_groups, tables
from agents.analysis.run_groups import Group
from agents.terminal import console
from agents.tools import errors
from agents.tools.runs import curves, progress

PHASES = {'eval': 'evaluation', 'train': 'training'}
BOTH = 'both'
DOTTED = 2
AXES = 'steps', 'seconds'
STATISTICS = {'mean': 'mean', 'iqm': 'interquartile mean', 'median': 'median'}


# Runs of a label that are named, and values that need more than three decimals.
MOST_NAMES = 4


@dataclasses.dataclass(frozen=True, repr=False)
class Plot:
    """Plot; as a string, the table of final values. Notebooks show the figure.

    Attributes:
        figure: Figure of matplotlib, to be changed and saved.
        summaries: Final values of each group.
        notes: Remarks about the runs, such as which were left out.
        file: File that it was written to, if any.
        y: Column of progress.csv.
    """

    figure: Any
    summaries: list[tables.Summary]
    notes: list[str]
    file: pathlib.Path | None = None
    y: str = curves.SCORE

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return '\n'.join(self.lines())

    def lines(self, width: int | None = None) -> Iterator[str]:
        """Return the table as lines, within a width if possible."""
        return tables.format_table(self.summaries, width, self.y)

    def _repr_png_(self) -> bytes:
        """Encode the figure for a notebook."""
        return drawing.encode(self.figure, 'png')


def plot(
    runs: str | pathlib.Path | Sequence[str | pathlib.Path],
    outfile: str | pathlib.Path | None = None,
    axis: str = 'steps',
    phase: str | None = None,
    by: str = 'config',
    theme: str = 'light',
    title: str | None = None,
    smooth: int = 1,
    statistic: str = 'mean',
    y: str = curves.SCORE,
    labels: Sequence[str] = (),
) -> Plot:
    """Plot the learning curves of runs, with a panel for each environment.

    Several runs of a group are a line with a 95% bootstrap interval over the runs. A single run is
    a line with the standard deviation over episodes. Of runs with equal settings and seed, only the
    newest counts.

    Args:
        runs: Directory of a run, or one that contains runs, or a list of them.
        outfile: File to write, ending with .png or .svg.
        axis: Horizontal axis, `steps` or `seconds`.
        phase: Phase of the values, `eval`, `train` or `both`; by default `eval`, or `train` for a
            column that evaluations do not have.
        by: Grouping of runs: `config` for equal settings but the seed, `run`, `seed`, or the name
            of a setting.
        theme: `light` or `dark`.
        title: Title, by default what all runs have in common.
        smooth: Number of reports of a moving average.
        statistic: Statistic of several runs: `mean`, interquartile mean (`iqm`) or `median`.
        y: Column of progress.csv, such as `kl` or `length`.
        labels: Names of the groups in the order of `runs`; within a directory of runs, in the order
            of their sorted names.

    Returns:
        Plot, whose text is a table of final values.
    """
    paths = [runs] if isinstance(runs, (str, pathlib.Path)) else runs
    found = run_groups.find(paths)
    notes: list[str] = []
    if by != 'run':
        found, notes = run_groups.drop_repeated(found)
    groups = run_groups.group(found, by)
    if labels:
        groups = run_groups.rename(groups, labels, found)
        notes += [f'{each.label}: {_name_runs(each)}' for each in groups]
        if len(groups) == 1 and title is None:
            title = groups[0].label
    made = plot_groups(groups, outfile, axis, phase, theme, title, smooth, statistic, y)
    return dataclasses.replace(made, notes=[*notes, *made.notes])


def plot_groups(
    groups: Sequence[Group],
    outfile: str | pathlib.Path | None = None,
    axis: str = 'steps',
    phase: str | None = None,
    theme: str = 'light',
    title: str | None = None,
    smooth: int = 1,
    statistic: str = 'mean',
    y: str = curves.SCORE,
) -> Plot:
    """Plot groups of runs, see `plot`."""
    file = None if outfile is None else pathlib.Path(outfile)
    if file:
        drawing.require_format(file)
    for kind, value, choices in (
        ('axis', axis, AXES),
        ('phase', phase or BOTH, (*PHASES, BOTH)),
        ('theme', theme, drawing.THEMES),
        ('statistic', statistic, STATISTICS),
    ):
        errors.require_known(kind, value, choices)
    if smooth < 1:
        raise errors.ConfigError(
            f'smooth must be at least 1, got {smooth}. It is the number of '
            'reports that a moving mean is over.'
        )
    phase = phase or _find_phase(groups, y)
    phases = list(PHASES) if phase == BOTH else [phase]
    groups, notes = _with_values(groups, phases[0], y)
    summaries = [tables.summarize(each, phases[0], statistic, y) for each in groups]
    notes += _tell_ends(groups, phases[0], summaries, y)
    figure = drawing.draw(
        _draw_panels(groups, phases, axis, smooth, statistic, y),
        _common_title(groups) if title is None else title,
        _explain(groups, phases, smooth, statistic, y),
        axis,
        theme,
        y,
    )
    if file:
        drawing.save(figure, file)
    return Plot(figure, summaries, notes, file, y)


def draw_run(logdir: pathlib.Path, file: pathlib.Path) -> None:
    """Draw the scores of one run to a file."""
    run = run_groups.Run(logdir, {})
    groups = [Group(run.name, [run])]
    panels = _draw_panels(groups, list(PHASES), 'steps', 1, 'mean')
    explained = _explain(groups, list(PHASES), 1, 'mean')
    drawing.save(drawing.draw(panels, run.name, explained), file)


def _find_phase(groups: Sequence[Group], y: str) -> str:
    """Return the first phase that has a column; refuses a column that none has."""
    if y == curves.SCORE:
        return 'eval'
    for phase in PHASES:
        for each in groups:
            if any(len(curve.steps) for curve in tables.read(each, phase, y)):
                return phase
    columns: dict[str, None] = {}
    for each in groups:
        for run in each.runs:
            for row in progress.read(run.directory):
                columns |= dict.fromkeys(row.cells)
                break
    errors.require_known('column', y, columns)
    raise errors.ConfigError(f'There is nothing to plot: {y} has no values.')


def _with_values(groups: Sequence[Group], phase: str, y: str) -> tuple[list[Group], list[str]]:
    """Remove runs without values of a column, with a note."""
    kept, notes = [], []
    for each in groups:
        runs = []
        for run, curve in zip(each.runs, tables.read(each, phase, y), strict=True):
            if len(curve.steps):
                runs.append(run)
            else:
                notes.append(f'{run.name} has no {y} of {PHASES[phase]} yet')
        if runs:
            kept.append(Group(each.label, runs))
    if not kept:
        raise errors.ConfigError(f'There is nothing to plot: {notes[0]}.')
    return kept, notes


def _draw_panels(
    groups: Sequence[Group],
    phases: Sequence[str],
    axis: str,
    smooth: int,
    statistic: str,
    y: str = curves.SCORE,
) -> dict[str, list[drawing.Line]]:
    """Make the lines of all groups and phases, by environment.

    Each label has the same color in all panels.
    """
    panels: dict[str, list[Group]] = {}
    for each in groups:
        panels.setdefault(tables.env_name(each), []).append(each)
    # A single group is named by the title; its phases differ in color instead.
    alone = len(groups) == 1
    labels = dict.fromkeys(each.label for each in groups)
    colors = {label: number for number, label in enumerate(labels)}
    lines: dict[str, list[drawing.Line]] = {}
    for env, members in panels.items():
        lines[env] = []
        for each, (index, phase) in itertools.product(members, enumerate(phases)):
            band = tables.aggregate(each, phase, axis, smooth, statistic, y)
            # More bands would hide each other.
            if index and (not alone or len(each.runs) == 1):
                none = np.full_like(band.values, math.nan)
                band = band._replace(low=none, high=none)
            name = '' if alone or index else each.label
            line = drawing.Line(
                PHASES[phase] if alone and len(phases) > 1 else name,
                *band,
                color=index if alone else colors[each.label],
                style=0 if alone else DOTTED * index,
            )
            lines[env].append(line)
    return lines


def _tell_ends(
    groups: Sequence[Group], phase: str, summaries: Sequence[tables.Summary], y: str
) -> Iterator[str]:
    """Note groups whose runs differ in length."""
    for each, summary in zip(groups, summaries, strict=True):
        ends = [curve.steps[-1] for curve in tables.read(each, phase, y)]
        if max(ends) > summary.steps:
            yield (
                f'{each.label} is drawn until step {summary.steps:,}, which '
                f'all {len(ends)} runs have; the longest has {max(ends):,.0f}'
            )


def _common_title(groups: Sequence[Group]) -> str:
    """Return the environment or setting that all groups share."""
    configs = {run.config for each in groups for run in each.runs}
    if len(groups) == 1 and len(groups[0].runs) == 1:
        return groups[0].runs[0].name
    if len(configs) == 1 and len({tables.env_name(each) for each in groups}) == 1:
        return configs.pop()
    envs = {tables.env_name(each) for each in groups}
    return envs.pop() if len(envs) == 1 else ''


def _explain(
    groups: Sequence[Group],
    phases: Sequence[str],
    smooth: int,
    statistic: str,
    y: str = curves.SCORE,
) -> str:
    """Describe lines and bands."""
    of = f' of {PHASES[phases[0]]}' if len(phases) == 1 else ''
    counts = sorted({len(each.runs) for each in groups})
    if counts[-1] == 1:
        which = f', {PHASES["eval"]}' if len(phases) > 1 else ''
        text = f'{y}{of}{which}'
        if y == curves.SCORE:
            text += ' with its standard deviation over episodes'
    else:
        number = ' to '.join(map(str, dict.fromkeys([counts[0], counts[-1]])))
        text = (
            f'{y}{of}, {STATISTICS[statistic]} of {number} '
            f'{_what_runs_are(groups)} with its 95% interval'
        )
    if len(phases) > 1 and len(groups) > 1:
        text += f', {PHASES[phases[1]]} dotted'
    if smooth > 1:
        text += f', moving mean over {smooth} reports'
    return text[0].upper() + text[1:] if y == curves.SCORE else text


def _what_runs_are(groups: Sequence[Group]) -> str:
    """Return 'seeds' if the runs of a group have different ones, else 'runs'."""
    different = all(
        len({str(r.settings.get('seed')) for r in each.runs}) == len(each.runs) for each in groups
    )
    return 'seeds' if different else 'runs'


def _name_runs(group: Group) -> str:
    """List the directories of a group, abbreviated."""
    names = [console.short(run.directory) for run in group.runs]
    more = len(names) - MOST_NAMES
    return ', '.join(names[:MOST_NAMES]) + (f' and {more} more' * (more > 0))
