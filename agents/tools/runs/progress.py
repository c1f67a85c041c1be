"""Table of the results of a run, progress.csv, with a row for each report."""

import math
import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from agents.tools import errors
from agents.tools.runs import files

FILE = 'progress.csv'
COLUMNS = (
    'step',
    'phase',
    'score',
    'score_std',
    'score_min',
    'score_max',
    'length',
    'episodes',
    'seconds',
    'steps_per_second',
)

# What a row can be of.
PHASES = 'train', 'eval'

# Limits for files that may come from strangers.
MAX_BYTES = 2**30
MAX_LINE = 10_000
MAX_ROWS, MAX_CELLS = 2_000_000, 2**26


class Row(NamedTuple):
    """Row of the table; unknown numbers are NaN."""

    step: int
    phase: str
    score: float
    score_std: float
    cells: dict[str, str]


def read(directory: pathlib.Path) -> Iterator[Row]:
    """Read the rows of a table, without one that was cut short."""
    path = directory / FILE
    with files.opened(path, MAX_BYTES) as file:
        names: list[str] = []
        lines = iter(lambda: file.readline(MAX_LINE), b'')
        for number, line in enumerate(lines, 1):
            try:
                _require_few(number, len(names))
                cells = _split(line)
                if number == 1:
                    names = _require_columns(cells)
                elif len(cells) == len(names):
                    yield _parse_row(dict(zip(names, cells, strict=True)))
            except ValueError as error:
                raise errors.ConfigError(
                    f'Cannot read line {number} of {path}: {error}. Mend or remove the file.'
                ) from error


def encode(rows: Iterable[Iterable[object]]) -> bytes:
    """Format rows as lines of the table."""
    lines = [','.join(map(str, row)) for row in rows]
    return ''.join(f'{line}\r\n' for line in lines).encode()


def _require_few(rows: int, columns: int) -> None:
    if rows > MAX_ROWS or rows * columns > MAX_CELLS:
        raise ValueError(f'The table must have at most {MAX_ROWS:,} rows and {MAX_CELLS:,} cells')


def _split(line: bytes) -> list[str]:
    if len(line) == MAX_LINE:
        raise ValueError('It is too long')
    if not line.endswith(b'\n'):  # A killed process cut it short.
        return []
    return line.decode().rstrip('\r\n').split(',')


def _require_columns(names: list[str]) -> list[str]:
    wanted = list(COLUMNS[:3])
    if names and (names[:3] != wanted or len(set(names)) < len(names)):
        raise ValueError(f'Expected the columns {", ".join(wanted)}, ...')
    return names


def _parse_row(cells: dict[str, str]) -> Row:
    step, phase, score = [cells[name] for name in COLUMNS[:3]]
    if not re.fullmatch('[0-9]{1,18}', step):
        raise ValueError(f'{step[:20]!r} is no step')
    if phase not in PHASES:
        shown = errors.shorten(repr(phase), 50)
        raise ValueError(f'Its phase must be train or eval, got {shown}')
    std = cells.get('score_std')  # Older tables lack it.
    mean, deviation = float(score or math.nan), float(std or math.nan)
    return Row(int(step), phase, mean, deviation, cells)
