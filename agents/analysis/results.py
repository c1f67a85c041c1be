"""Reading of the results of runs, as tables of arrays."""

import array
import math
import os
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agents.analysis import run_groups
from agents.config import store
from agents.tools import errors
from agents.tools.attr_dict import AttrDict
from agents.tools.runs import progress

# The column that tells apart what is of several runs.
RUN = 'run'

# The first columns of a table, which all others are numbers beside.
KEYS = 'step', 'phase'
NUMBERS = progress.COLUMNS[len(KEYS) :]


def results(logdir: str | pathlib.Path) -> 'Results':
    """Read the results of a run, or of all runs in a directory.

        results = agents.results('runs/pendulum')
        scores = results.phase('eval')
        pyplot.plot(scores['step'], scores['score'])

        for name, run in agents.results('runs').runs.items():
            print(name, run.config.seed, run.phase('eval')['score'][-1])

    Rows that a killed process has cut short are skipped. Runs no code of the directory.

    Args:
        logdir: Directory of a run, or one that contains runs, as for `agents plot`.
    """
    logdir = pathlib.Path(logdir)
    if os.path.lexists(logdir / progress.FILE):
        return _read(logdir)
    found = sorted(run_groups.find_inside(logdir))
    runs = {str(path.relative_to(logdir)): _read(path) for path in found}
    if not runs:
        raise errors.ConfigError(
            f'There are no results in {logdir}: expected {progress.FILE}, '
            'which a run has after its first report, or directories of runs.'
        )
    return _join(str(logdir), runs)


class Results(dict[str, Any]):
    """Reports of one or several runs: a NumPy array for each column.

    A row is a report, as in progress.csv, with the columns of that file: `step` as integers,
    `phase` as text, and numbers, NaN if missing. For several runs, the column `run` holds their
    names. It is a dictionary, so that `pandas.DataFrame(results)` works.

    Attributes:
        name: Directory that it was read from.
        config: Settings of the run, functions as text; None for several runs or without settings.
        runs: Results of each run by its relative path, if there are several.

    Args:
        name: Directory that it was read from.
        columns: Columns.
        config: Settings.
        runs: Results of each run.
    """

    def __init__(
        self,
        name: str,
        columns: Mapping[str, np.ndarray],
        config: AttrDict | None = None,
        runs: Mapping[str, 'Results'] | None = None,
    ):
        super().__init__(columns)
        self.name = name
        self.config = config
        self.runs = dict(runs or {})

    @property
    def count(self) -> int:
        """Number of reports."""
        return len(self['step'])

    def phase(self, name: str) -> 'Results':
        """Return the reports of a phase, 'train' or 'eval'."""
        errors.require_known('phase', name, ('train', 'eval'))
        chosen = self['phase'] == name
        return Results(
            self.name,
            {key: column[chosen] for key, column in self.items()},
            self.config,
            {key: run.phase(name) for key, run in self.runs.items()},
        )

    def __missing__(self, key: str) -> Any:
        raise KeyError(
            f'There is no column {key!r}{errors.nearest(key, self)} There are {", ".join(self)}.'
        )

    def __repr__(self) -> str:
        many = f'{len(self.runs)} runs, ' if self.runs else ''
        steps = f', until step {self["step"].max():,}' if self.count else ''
        return (
            f'<Results of {self.name!r}: {many}{self.count} reports{steps}; '
            f'columns {", ".join(self)}>'
        )


def _read(directory: pathlib.Path) -> Results:
    """Read the results of a run."""
    # Arrays, as texts would take ten times the memory.
    columns: dict[str, Any] = {name: array.array('d') for name in NUMBERS}
    steps, phases = array.array('q'), []
    for row in progress.read(directory):
        if not steps:
            names = [*row.cells][len(KEYS) :]
            columns = {name: array.array('d') for name in names}
        steps.append(row.step)
        phases.append(sys.intern(row.phase))
        for name, column in columns.items():
            column.append(_parse(row.cells[name], directory))
    found = {name: np.array(column) for name, column in columns.items()}
    keys = np.array(steps, np.int64), np.array(phases, np.str_)
    found = {**dict(zip(KEYS, keys, strict=True)), **found}
    config = None
    if os.path.lexists(directory / store.CONFIG_FILE):
        config = store.load_config(directory)
    return Results(str(directory), found, config)


def _parse(cell: str, directory: pathlib.Path) -> float:
    """Parse a number; NaN if empty."""
    try:
        return float(cell or math.nan)
    except ValueError as error:
        raise errors.ConfigError(
            f'Cannot read {directory / progress.FILE}: {error}. Mend or remove the file.'
        ) from error


def _join(name: str, runs: Mapping[str, Results]) -> Results:
    """Join the tables of several runs, with all their columns."""
    names = dict.fromkeys(name for run in runs.values() for name in run)
    counts: Sequence[int] = [run.count for run in runs.values()]
    columns = {
        key: np.concatenate([run.get(key, np.full(run.count, math.nan)) for run in runs.values()])
        for key in names
    }
    # As objects, which share a long name between rows.
    labels = np.repeat(np.array([*runs], object), counts)
    return Results(name, {RUN: labels, **columns}, runs=runs)
