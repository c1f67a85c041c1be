"""What an inspection of an environment found."""

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
    """Follows an inspection from outside, here without looking.

    Whoever inspects says what comes next before it asks an environment for it.
    """

    def start(self) -> None:
        """Begin to count the time, as all that it takes is imported."""

    def is_over(self, share: float = 1.0) -> bool:
        """Return whether a share of the time is used up."""
        return False

    def begin(self, call: str, episode: int = 0, step: int = 0) -> None:
        """Note what the environment is asked for, one of `CALLS`."""

    def tell(self, report: 'Report', now: bool = False) -> None:
        """Pass on what was found so far, now and then or now."""


@dataclasses.dataclass
class Breach:
    """Something that breaks the contract, and where it did first.

    Attributes:
        kind: What it is about.
        text: What is wrong, and what was expected.
        ends: Whether a training ends by it.
        episode: The episode it happened in, from one; zero before any.
        step: The step of it, from one; zero for its reset.
        count: How often there was something wrong of this kind.
        frames: For an error, the lines of the environment that raised it.
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
    """What an inspection found.

    Attributes:
        observation_space: Space of the observations, None if there was none.
        action_space: Space of the actions, None if there was none.
        breaches: What breaks the contract, the first of each kind.
        steps: How many steps were taken.
        observ: Ranges of the leaves of observations, in the order of `nested`.
        reward: Range of the rewards.
        scores: Scores of the episodes that ended.
        lengths: Their numbers of steps.
        terminated: How many of them were terminated.
        truncated: How many of them the environment truncated.
        cut: How many were as long as allowed and had not ended.
        starts_differ: Whether there were different first observations.
        step_seconds: How long steps took.
        reset_seconds: How long resets took.
        masked: Where masks of actions were found, in 'observation' or 'info'.
        possible: The share of choices that they allowed.
        render_modes: The ways to be seen that it declares.
        repeated: For how many steps another environment with the same seed and
            the same actions did the same, None if that was not found out.
        warnings: What it warned of.
        limit: The length at which the environment itself has episodes cut, if
            it is native and says so.
        seconds: After how long it ended before all steps, None if it did not.
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
        """All of it as data that `wire` can send."""
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
        """Make it of data from `to_plain`."""
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
    """Notes what breaks the contract in a report, the first of each kind.

    Attributes:
        episode: The episode that the environment is in, from one; zero where
            it is in none.
        step: The step of it, from one; zero for its reset.

    Args:
        report: The report.
    """

    def __init__(self, report: Report):
        self.episode, self.step = 0, 0
        self._report = report
        self._found: dict[str, Breach] = {}

    def leave_episode(self) -> None:
        """What is wrong from now on is so in no episode."""
        self.episode, self.step = 0, 0

    def raised(self, kind: str, doing: str, error: BaseException) -> None:
        """Note an error, with the environment's lines that led to it."""
        text = f'{doing}: {errors.describe(error)}'
        self.note(kind, text, frames=own_frames.of_error(error))

    def note(self, kind: str, text: str, ends: bool = True, frames: Iterable[str] = ()) -> None:
        """Note something; see `Breach` for the arguments."""
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
