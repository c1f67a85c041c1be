"""Aggregated results of several calls of an operation."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

# Parts of a call, by the number that tells how long they took.
PARTS = {'environment': 'env_seconds', 'update': 'update_seconds'}


class _Scores(NamedTuple):
    """Statistics of the episodes that ended in some calls."""

    episodes: float = 0.0
    score: float = math.nan
    score_std: float = math.nan
    score_min: float = math.nan
    score_max: float = math.nan
    length: float = math.nan

    def merge(self, new: '_Scores') -> '_Scores':
        """Add the episodes of another call.

        With the fraction p of episodes in the new call and the difference d of the means, the
        variance is (1 − p)·σ² + p·σ′² + p·(1 − p)·d².
        """
        if not (self.episodes and new.episodes):
            return new if new.episodes else self
        episodes = self.episodes + new.episodes
        part, between = new.episodes / episodes, new.score - self.score
        variance = (
            (1 - part) * self.score_std**2
            + part * new.score_std**2
            + part * (1 - part) * between**2
        )
        return _Scores(
            episodes,
            self.score + part * between,
            math.sqrt(variance),
            min(self.score_min, new.score_min),
            max(self.score_max, new.score_max),
            self.length + part * (new.length - self.length),
        )


class Tally:
    """Aggregates the results of an operation between two reports."""

    def __init__(self, compiled: bool = False):
        self.scores = _Scores()
        self._compiled = compiled  # Whether the first call is over.
        self._count = 0
        self._sums: dict[str, float] = {}
        self._steps = 0
        self._seconds = 0.0
        # Of those calls only that are timed, by what took them.
        self._parts = dict.fromkeys(PARTS, 0.0)

    def add(
        self, results: Mapping[str, Any], steps: int, seconds: float, rollouts: int = 1
    ) -> None:
        """Add the results of a call and its time.

        Args:
            results: Metrics by name, means over the rollouts.
            steps: Environment steps of training.
            seconds: Time of the call.
            rollouts: Number of rollouts of the call.
        """
        numbers = {name: float(value) for name, value in results.items()}
        new = _Scores(*(numbers.pop(name) for name in _Scores._fields))
        self.scores = self.scores.merge(new)
        for name, value in numbers.items():
            self._sums[name] = self._sums.get(name, 0.0) + value * rollouts
        self._count += rollouts
        if self._compiled:
            self._steps += steps
            self._seconds += seconds
            for part, name in PARTS.items():
                self._parts[part] += numbers.get(name, 0.0)
        self._compiled = True

    def rate(self) -> float:
        """Return the steps per second."""
        return self._steps / self._seconds if self._seconds else math.nan

    def shares(self) -> dict[str, float]:
        """Return the shares of the time that known parts of the calls took."""
        return {part: seconds / self._seconds for part, seconds in self._parts.items() if seconds}

    def means(self) -> dict[str, float]:
        """Return the means over rollouts of metrics that are not about episodes."""
        return {name: total / self._count for name, total in self._sums.items()}
