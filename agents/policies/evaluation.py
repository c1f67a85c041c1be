"""Evaluation of trained policies."""

import dataclasses
import functools
import json
import math
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from agents.analysis import estimates
from agents.policies import playing
from agents.terminal import console
from agents.tools import errors
from agents.tools.attr_dict import AttrDict
from agents.training import env_kinds, env_names

# What stands for the table where JSON is to be printed.
STDOUT = '-'


@dataclasses.dataclass(frozen=True, repr=False)
class Evaluation:
    """Scores of the episodes of an evaluation.

        evaluation = agents.evaluate('runs/pendulum', num_episodes=100)
        print(evaluation)                   # A table.
        evaluation.mean, evaluation.interval, evaluation.scores[0]

    Attributes:
        logdir: Directory of the run.
        checkpoint: Training step of the policy.
        env: Name of the environment.
        seed: Seed of the episodes and of sampled actions.
        deterministic: Whether the most probable actions were taken.
        changes: Settings that differ from those of the run, as `key=value`.
        scores: Undiscounted return of each episode.
        lengths: Number of steps of each episode.
    """

    logdir: str
    checkpoint: int
    env: str
    seed: int
    deterministic: bool
    changes: tuple[str, ...]
    scores: tuple[float, ...]
    lengths: tuple[int, ...]

    @property
    def episodes(self) -> int:
        """Number of episodes."""
        return len(self.scores)

    @property
    def mean(self) -> float:
        """Mean score."""
        return float(np.mean(self.scores))

    @property
    def std(self) -> float:
        """Standard deviation of the scores, as in progress.csv."""
        return float(np.std(self.scores))

    @property
    def standard_error(self) -> float:
        """Standard error of the mean, NaN for a single episode."""
        if self.episodes < 2:
            return math.nan
        return self.std / math.sqrt(self.episodes - 1)

    @functools.cached_property
    def interval(self) -> tuple[float, float]:
        """95% confidence interval of the mean score.

        By the bootstrap, as scores are often far from normally distributed.
        """
        scores = np.array([self.scores])
        low, high = estimates.interval([scores], estimates.mean)
        return low.item(), high.item()

    @property
    def min(self) -> float:
        """Lowest score."""
        return float(np.min(self.scores))

    @property
    def median(self) -> float:
        """Median score."""
        return float(np.median(self.scores))

    @property
    def max(self) -> float:
        """Highest score."""
        return float(np.max(self.scores))

    @property
    def mean_length(self) -> float:
        """Mean number of steps."""
        return float(np.mean(self.lengths))

    def as_dict(self) -> dict[str, Any]:
        """Return all numbers by name."""
        names = (
            'episodes', 'mean', 'std', 'standard_error', 'interval', 'min',
            'median', 'max', 'mean_length',
        )  # fmt: skip
        numbers = {name: getattr(self, name) for name in names}
        *run, scores, lengths = dataclasses.asdict(self).items()
        return {**dict(run), **numbers, **dict([scores, lengths])}

    def to_json(self) -> str:
        """Return `as_dict` as JSON, with null for unknown numbers."""
        lines = [
            f'  "{name}": {json.dumps(_without_nan(value))}'
            for name, value in self.as_dict().items()
        ]
        return '{\n' + ',\n'.join(lines) + '\n}'

    def __repr__(self) -> str:
        mean, std, low, high = self._format(self.mean, self.std, *self.interval)
        return (
            f'<Evaluation of {self.episodes} episodes of {self.env}: score '
            f'{mean} ± {std}, mean in [{low}, {high}], length '
            f'{self.mean_length:.1f}>'
        )

    def __str__(self) -> str:
        mode = 'most probable' if self.deterministic else 'sampled'
        episodes = 'episode' if self.episodes == 1 else 'episodes'
        heads = 'mean', 'std', 'min', 'median', 'max'
        return '\n'.join(
            [
                f'run         {self.logdir}',
                f'checkpoint  step {self.checkpoint:,}',
                f'played      {self.episodes:,} {episodes} of {self.env}, '
                f'{mode} actions, seed {self.seed}',
                *(f'changed     {each}' for each in self.changes),
                '',
                ' ' * 8 + ''.join(f'{head:>10}' for head in heads),
                f'{"score":<8}{_format_row(self.scores, console.score)}',
                f'{"length":<8}{_format_row(self.lengths, _format_length)}',
                '',
                f'mean score  {self._describe_mean()}',
            ]
        )

    def _describe_mean(self) -> str:
        """Format the mean with its confidence interval."""
        if self.episodes == 1:
            return console.score(self.mean)
        mean, error, low, high = self._format(self.mean, self.standard_error, *self.interval)
        return f'{mean} ± {error}, {estimates.CONFIDENCE:.0%} interval {low} to {high}'

    def _format(self, *numbers: float) -> Iterator[str]:
        """Format scores with as many decimals as their mean."""
        return (console.score(each, self.mean) for each in numbers)


def evaluate(
    logdir: str | pathlib.Path,
    num_episodes: int = 100,
    checkpoint: int | str | None = None,
    config: AttrDict | None = None,
    deterministic: bool = True,
    seed: int | None = None,
    env_processes: bool | None = None,
    changes: Sequence[str] = (),
    env: Any = None,
    trust: bool = False,
) -> Evaluation:
    """Play episodes with the policy of a run.

        evaluation = agents.evaluate('runs/pendulum', num_episodes=100)

    The same seed gives the same episodes. They differ from those of the training; the first is the
    one that `visualize` films.

    Args:
        logdir: Directory of the run.
        num_episodes: Number of episodes, spread evenly over several environments, so that short
            episodes do not count more often.
        checkpoint: Training step of a checkpoint, or 'best'; by default the last.
        config: Configuration, if its functions cannot be found again.
        deterministic: Take the most probable actions instead of sampling.
        seed: Seed of the episodes, by default that of the run.
        env_processes: Use worker processes; by default whichever is faster.
        changes: Texts `key=value` that replace settings.
        env: Environment instead of that of the run: a name, or a class or function.
        trust: Run code that the run names though this user has not signed it on this machine.
    """
    # Environments may change the working directory.
    given, logdir = logdir, pathlib.Path(logdir).absolute()
    most = playing.MOST_EPISODES
    errors.require_integer('num_episodes', num_episodes, 1, most)
    shown = tuple(changes)
    if seed is not None:
        changes = [*changes, f'seed={seed}']
    run = playing.open_run(logdir, checkpoint, config, changes, env, trust)
    num_agents = min(num_episodes, env_kinds.of(run.env_config).most_agents)
    with run.start(num_agents, env_processes) as (batch_env, policy):
        scores, lengths = _play(batch_env, policy, num_episodes, deterministic)
    return Evaluation(
        str(given),
        policy.checkpoint,
        env_names.name_of(run.env_config.env),
        run.env_config.seed,
        deterministic,
        shown,
        scores,
        lengths,
    )


def _play(
    batch_env: Any, policy: Any, num_episodes: int, deterministic: bool
) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Play episodes; returns their scores and lengths, agent by agent."""
    score, length = np.zeros(len(batch_env)), np.zeros(len(batch_env), int)
    ended: list[list[tuple[float, int]]] = [[] for _ in score]
    for step in playing.play(batch_env, policy, num_episodes, deterministic):
        score += step.reward
        length += 1
        whole = step.done & step.counts & ~step.lost
        for agent in np.flatnonzero(whole).tolist():
            ended[agent].append((float(score[agent]), int(length[agent])))
        over = step.done | step.lost
        score[over], length[over] = 0, 0
    scores, lengths = zip(*(each for part in ended for each in part))
    return scores, lengths


def _format_row(numbers: Sequence[float], show: Callable[[float, float], str]) -> str:
    functions = np.mean, np.std, np.min, np.median, np.max
    largest = float(np.max(np.abs(numbers)))
    return ''.join(f'{show(float(function(numbers)), largest):>10}' for function in functions)


def _format_length(length: float, _: float) -> str:
    return f'{length:,.1f}'


def _without_nan(value: Any) -> Any:
    """Replace numbers that JSON does not have by None."""
    if isinstance(value, dict):
        return {key: _without_nan(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(part) for part in value]
    unknown = isinstance(value, float) and not math.isfinite(value)
    return None if unknown else value
