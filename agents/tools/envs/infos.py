"""Numbers that environments tell in their info, on the way to a report.

A member of a batch writes them into the columns `infos` of its block, a row
for each environment and NaN where there is none. The graph does not see them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

# Between the name of a part of an info and that of a number in it.
SEPARATOR = '/'

# How many names are kept to suggest one of them.
MOST_SEEN = 1000


class Writer:
    """Writes the numbers that are asked for into rows of an array.

    Attributes:
        seen: The names of all that there was, where one of them was not.

    Args:
        names: What they are called in an info, or where in it they are: `a/b`
            is `info['a']['b']` unless there is `info['a/b']`.
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
        """Write what an info tells, or raise an error that says what is wrong.

        Numbers that are too large for 32 bits become infinite.
        """
        if not isinstance(info, Mapping):
            raise TypeError(f'the info should be a dict, not {info!r}')
        numbers = [_number(name, find(info, name)) for name in self._names]
        self._rows[row] = numbers
        if any(map(math.isnan, numbers)) and len(self.seen) < MOST_SEEN:
            self.seen.update(names(info))


class Means:
    """Averages the numbers of a batch over the steps that had them.

    Args:
        names: Their names.
        num_agents: Number of environments in the batch.
    """

    def __init__(self, names: Sequence[str], num_agents: int):
        self.names = tuple(names)
        self._sums = np.zeros(len(names))
        self._counts = np.zeros(len(names))
        self._left = np.full(num_agents, math.inf)

    def restart(self, episodes: float = math.inf) -> None:
        """Begin new episodes, so many of which count for each agent.

        As in `agents.tools.graph.episode_scores`.
        """
        self._left[:] = episodes

    def add(self, numbers: np.ndarray, whole: np.ndarray) -> None:
        """Take in a step.

        Args:
            numbers: Numbers `[agent, name]`, NaN where there are none.
            whole: Which episodes are over by it.
        """
        present = ~np.isnan(numbers) & (self._left > 0)[:, None]
        self._sums += np.where(present, numbers, 0.0).sum(0, np.float64)
        self._counts += present.sum(0)
        self._left -= whole

    def take(self) -> tuple[list[float], list[float]]:
        """The sums and how many numbers they are of, since the last time."""
        taken = self._sums.tolist(), self._counts.tolist()
        self._sums[:] = self._counts[:] = 0.0
        return taken


def find(info: Mapping, name: str) -> Any:
    """What an info has under a name, or None."""
    if name in info:
        return info[name]
    first, separator, rest = name.partition(SEPARATOR)
    part = info.get(first) if separator else None
    return find(part, rest) if isinstance(part, Mapping) else None


def names(info: Mapping) -> Iterator[str]:
    """The names of all that an info has, within other parts as well."""
    for name, part in info.items():
        if isinstance(part, Mapping):
            yield from (f'{name}{SEPARATOR}{each}' for each in names(part))
        else:
            yield str(name)


def _number(name: str, value: Any) -> float:
    if value is None:
        return math.nan
    kinds = float, int, np.floating, np.integer, np.bool_
    if isinstance(value, kinds) or (
        isinstance(value, np.ndarray)
        and value.shape == ()
        and value.dtype.kind in 'biuf'
    ):
        return float(value)
    raise TypeError(
        f'info[{name!r}] is {value!r}, where log_info asks for a number'
    )
