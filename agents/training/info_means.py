"""Means of numbers of infos, for reports."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agents.tools import errors
from agents.tools.world import World

# Before a name in reports, which have numbers of other origin as well.
PREFIX = 'info/'


def columns(names: Sequence[str]) -> list[str]:
    """Return the columns for the numbers of a setting `log_info`."""
    return [f'{PREFIX}{name}' for name in names]


class InfoMeans:
    """Collects the means of numbers of infos when a report is made.

    Args:
        names: Names, as in the setting `log_info`.
        batch_envs: Environments of each phase; those of the last phase play whole episodes.
        say: Prints names that no info has.
        ranks: Ranks whose environments are reported together.
    """

    def __init__(
        self,
        names: Sequence[str],
        batch_envs: Mapping[str, Any],
        say: Callable[[str, str], None],
        ranks: World,
    ):
        self._names = names
        self._batch_envs = batch_envs
        self._say = say
        self._ranks = ranks
        self._missing = {*names}
        self._told = False

    def take(self, phase: str) -> dict[str, float]:
        """Return the means over the steps of all ranks since the last call, NaN if none."""
        if not self._names:
            return {}
        every = self._ranks.gather(self._batch_envs[phase].infos.take())
        sums, counts = [
            [sum(column) for column in zip(*parts, strict=True)]
            for parts in zip(*every, strict=True)
        ]
        pairs = zip(sums, counts, strict=True)
        means = [total / count if count else math.nan for total, count in pairs]
        found = zip(self._names, counts, strict=True)
        self._missing -= {name for name, count in found if count}
        if phase == [*self._batch_envs][-1] and not self._told:
            self._told = True
            self._tell_missing()
        return dict(zip(columns(self._names), means, strict=True))

    def _tell_missing(self) -> None:
        """Print the names that no info had so far, with similar ones."""
        if not self._missing:
            return
        found = [env.info_names() for env in self._batch_envs.values()]
        seen = sorted({name for names in found for name in names})
        for name in sorted(self._missing):
            near = errors.nearest(name, seen)
            self._say('log_info', f'no info has had {name!r} so far{near}')
