"""Findings of an inspection."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from agents.tools import errors, spaces
from agents.tools.checking import own_frames
from agents.tools.checking.ranges import Range

# How long what is told of a breach may be.
MOST_CHARACTERS = 400

# What an inspection waits for.
CALLS = ('its import', 'its constructor', 'reset', 'step', 'close', 'a comparison of two of it')


class Watch:
    """Follows an inspection; this one does nothing.

    The inspection announces each call of the environment.
    """

    def start(self) -> None:
        """Start the clock, after all imports."""

    def is_over(self, share: float = 1.0) -> bool:
        """Return whether a share of the time is used up."""
        return False

    def begin(self, call: str, episode: int = 0, step: int = 0) -> None:
        """Announce a call of the environment, one of `CALLS`."""

    def tell(self, report: 'Report', now: bool = False) -> None:
        """Send the findings so far, from time to time or now."""


@dataclasses.dataclass
class Breach:
    """Violation of the API, with its first occurrence.

    Attributes:
        kind: Kind of the violation.
        text: Description, and what was expected.
        ends: Whether a training ends by it.
        episode: Number of the episode, from one; zero before any.
        step: Number of the step, from one; zero for its reset.
        count: Number of occurrences.
        frames: For an exception, the lines of the environment that raised it.
    """

    kind: str
    text: str
    ends: bool
    episode: int
    step: int
    count: int = 1
    frames: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Report:
    """Findings of an inspection.

    Attributes:
        observation_space: Space of the observations, None if there is none.
        action_space: Space of the actions, None if there is none.
        breaches: Violations, the first of each kind.
        steps: Number of steps.
        observ: Ranges of the leaves of observations, in the order of `nested`.
        reward: Range of the rewards.
        scores: Scores of the episodes that ended.
        lengths: Lengths of the episodes that ended.
        terminated: Number of terminated episodes.
        truncated: Number of episodes that the environment truncated.
        cut: Number of episodes that were cut at the limit.
        starts_differ: Whether there were different first observations.
        step_seconds: Durations of steps.
        reset_seconds: Durations of resets.
        masked: Source of action masks, 'observation' or 'info'.
        possible: Share of choices that each mask allowed.
        render_modes: Declared render modes.
        repeated: Number of steps for which a second environment with the same seed and actions did
            the same, None if unknown.
        warnings: Warnings of the environment.
        limit: Time limit of a native environment, if it has one.
        seconds: Time after which the inspection ended early, or None.
    """

    observation_space: gym.Space | None = None
    action_space: gym.Space | None = None
    breaches: list[Breach] = dataclasses.field(default_factory=list)
    steps: int = 0
    observ: list[Range] = dataclasses.field(default_factory=list)
    reward: Range = dataclasses.field(default_factory=Range)
    scores: list[float] = dataclasses.field(default_factory=list)
    lengths: list[int] = dataclasses.field(default_factory=list)
    terminated: int = 0
    truncated: int = 0
    cut: int = 0
    starts_differ: bool = False
    step_seconds: list[float] = dataclasses.field(default_factory=list)
    reset_seconds: list[float] = dataclasses.field(default_factory=list)
    masked: str = ''
    possible: list[float] = dataclasses.field(default_factory=list)
    render_modes: list[str] = dataclasses.field(default_factory=list)
    repeated: int | None = None
    warnings: list[str] = dataclasses.field(default_factory=list)
    limit: int | None = None
    seconds: float | None = None

    def to_plain(self) -> dict[str, Any]:
        """Convert to data that `wire` can send."""
        plain = dict(vars(self))
        try:
            spaces.require_supported(
                self.observation_space,  # type: ignore[arg-type]
                self.action_space,  # type: ignore[arg-type]
            )
        except BaseException:  # Whatever an environment has for a space.
            plain.update(observation_space=None, action_space=None)
        plain['breaches'] = [vars(breach) for breach in self.breaches]
        plain['observ'] = [vars(found) for found in self.observ]
        plain['reward'] = vars(self.reward)
        return plain

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> 'Report':
        """Restore from data of `to_plain`."""
        report = cls(**plain)
        report.breaches = [Breach(**breach) for breach in plain['breaches']]
        report.observ = [_range(found) for found in plain['observ']]
        report.reward = _range(plain['reward'])
        return report


def _range(plain: Mapping[str, Any]) -> Range:
    found = Range()
    for name, value in plain.items():
        array = isinstance(getattr(found, name), np.ndarray)
        setattr(found, name, np.asarray(value) if array else value)
    return found


class Breaches:
    """Records violations in a report, the first of each kind.

    Attributes:
        episode: Number of the current episode, from one; zero outside of episodes.
        step: Number of the current step, from one; zero for its reset.

    Args:
        report: Report.
    """

    def __init__(self, report: Report):
        self.episode, self.step = 0, 0
        self._report = report
        self._found: dict[str, Breach] = {}

    def leave_episode(self) -> None:
        """Attribute further violations to no episode."""
        self.episode, self.step = 0, 0

    def raised(self, kind: str, doing: str, error: BaseException) -> None:
        """Record an exception with the lines of the environment that raised it."""
        text = f'{doing}: {errors.describe(error)}'
        self.note(kind, text, frames=own_frames.of_error(error))

    def note(self, kind: str, text: str, ends: bool = True, frames: Iterable[str] = ()) -> None:
        """Record a violation; see `Breach` for the arguments."""
        if kind in self._found:
            self._found[kind].count += 1
            return
        self._found[kind] = Breach(
            kind,
            errors.shorten(text.rstrip('.'), MOST_CHARACTERS),
            ends,
            self.episode,
            self.step,
            frames=list(frames),
        )
        self._report.breaches.append(self._found[kind])
