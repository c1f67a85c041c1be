"""Numbers from infos of environments, on their way to a report.

Members of a batch write them into the columns `infos` of their block, one row per environment and
NaN where there is none. They do not enter the graph.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

# Between the name of a part of an info and that of a number in it.
SEPARATOR = '/'

# Before the name of the mask that tells of which environments of a vector there
# is something, and what else its info has that is no information: by these
# names, the last observation and info of episodes.
MASK = '_'
LAST_OBSERV, LAST_INFO = 'final_obs', 'final_info'

# Under which key a vector tells of steps that are lost, by a mask.
LOST = 'agents/lost'

# How many names are kept to suggest one of them.
MOST_SEEN = 1000


class Writer:
    """Writes named numbers of infos into rows of an array.

    Attributes:
        seen: Names that infos had when a requested one was missing.

    Args:
        names: Keys of an info; `a/b` is `info['a']['b']` unless there is `info['a/b']`.
    """

    def __init__(self, names: Sequence[str]):
        self.seen: set[str] = set()
        self._names = names
        self._rows = np.empty((0, len(names)), np.float32)

    def attach(self, rows: np.ndarray) -> None:
        """Use an array `[row, name]` from now on."""
        self._rows = rows
        rows[:] = math.nan

    def write(self, row: int, info: Any) -> None:
        """Write the numbers of an info; raises an error for values that are no numbers.

        Numbers too large for 32 bits become infinite.
        """
        if not isinstance(info, Mapping):
            raise TypeError(f'the info should be a dict, not {info!r}')
        numbers = [_number(f'info[{name!r}]', find(info, name)) for name in self._names]
        self._rows[row] = numbers
        if any(map(math.isnan, numbers)) and len(self.seen) < MOST_SEEN:
            self.seen.update(names(info))

    def write_all(self, info: Mapping, rows: np.ndarray | None = None) -> None:
        """Write the numbers of the info of a vector environment.

        Args:
            info: Arrays with a number per environment and masks, as Gymnasium has them, or a
                sequence of infos.
            rows: Mask of the environments to write, by default all.
        """
        if not isinstance(info, Mapping):
            for row in range(len(self._rows)):
                if rows is None or rows[row]:
                    self.write(row, info[row])
            return
        where = slice(None) if rows is None else rows
        for column, name in enumerate(self._names):
            numbers = _column(name, info, len(self._rows))
            self._rows[where, column] = numbers[where]
        if np.isnan(self._rows).any() and len(self.seen) < MOST_SEEN:
            self.seen.update(names_of_vector(info))

    def clear(self, rows: np.ndarray) -> None:
        """Write NaN for the environments of a mask."""
        self._rows[rows] = math.nan


class Means:
    """Averages the numbers of a batch over the steps that had them.

    Args:
        names: Names of the numbers.
        num_agents: Number of environments in the batch.
    """

    def __init__(self, names: Sequence[str], num_agents: int):
        self.names = tuple(names)
        self._sums = np.zeros(len(names))
        self._counts = np.zeros(len(names))
        self._left = np.full(num_agents, math.inf)

    def restart(self, episodes: float = math.inf) -> None:
        """Start new episodes, of which `episodes` count for each agent.

        As in `agents.tools.graph.episode_scores`.
        """
        self._left[:] = episodes

    def add(self, numbers: np.ndarray, whole: np.ndarray) -> None:
        """Add the numbers of a step.

        Args:
            numbers: Numbers `[agent, name]`, NaN where there are none.
            whole: Mask of the agents whose episode ended in this step.
        """
        present = ~np.isnan(numbers) & (self._left > 0)[:, None]
        self._sums += np.where(present, numbers, 0.0).sum(0, np.float64)
        self._counts += present.sum(0)
        self._left -= whole

    def take(self) -> tuple[list[float], list[float]]:
        """Return sums and counts since the last call, and reset them."""
        taken = self._sums.tolist(), self._counts.tolist()
        self._sums[:] = self._counts[:] = 0.0
        return taken


def find(info: Mapping, name: str) -> Any:
    """Return the value of an info under a name, or None."""
    if name in info:
        return info[name]
    first, separator, rest = name.partition(SEPARATOR)
    part = info.get(first) if separator else None
    return find(part, rest) if isinstance(part, Mapping) else None


def names(info: Mapping) -> Iterator[str]:
    """Return the names of all numbers of an info, including nested ones."""
    for name, part in info.items():
        if isinstance(part, Mapping):
            yield from (f'{name}{SEPARATOR}{each}' for each in names(part))
        else:
            yield str(name)


def names_of_vector(info: Mapping) -> Iterator[str]:
    """Return the names of all numbers of the info of a vector environment."""
    for name, part in info.items():
        is_mask = (
            isinstance(name, str) and name.startswith(MASK) and name.removeprefix(MASK) in info
        )
        if is_mask or name in (LAST_OBSERV, LAST_INFO, LOST):
            continue
        if isinstance(part, Mapping):
            inner = names_of_vector(part)
            yield from (f'{name}{SEPARATOR}{each}' for each in inner)
        else:
            yield f'{name}'


def _column(name: str, info: Mapping, count: int) -> np.ndarray:
    """Return the numbers of a vector info under a name, NaN elsewhere."""
    first, _, rest = name.partition(SEPARATOR)
    if name in info:
        first, rest = name, ''
    part, told = info.get(first), info.get(MASK + first)
    present = np.ones(count, bool) if told is None else np.asarray(told)
    if part is None or (rest and not isinstance(part, Mapping)):
        return np.full(count, math.nan)
    if rest:
        return np.where(present, _column(rest, part, count), math.nan)
    found = np.asarray(part)
    if found.shape != (count,):
        raise TypeError(
            f'info[{name!r}] is {part!r}, where log_info asks for a number of '
            f'each of {count} environments'
        )
    if found.dtype.kind in 'biuf':
        return np.where(present, found, math.nan)
    # Of a type that Gymnasium puts into no array of numbers.
    return np.array(
        [
            _number(f'info[{name!r}][{row}]', found[row]) if is_told else math.nan
            for row, is_told in enumerate(present)
        ]
    )


def _number(place: str, value: Any) -> float:
    if value is None:
        return math.nan
    kinds = float, int, np.floating, np.integer, np.bool_
    if isinstance(value, kinds) or (
        isinstance(value, np.ndarray) and value.shape == () and value.dtype.kind in 'biuf'
    ):
        return float(value)
    raise TypeError(f'{place} is {value!r}, where log_info asks for a number')
