"""Statistics of the normalizers of a run, as arrays."""

import dataclasses
import math
import pathlib
from typing import TYPE_CHECKING, Any

import numpy as np

from agents.tools import errors, nested
from agents.tools.nested import Nest
from agents.tools.runs import checkpoints
from agents.training import storage

if TYPE_CHECKING:  # It imports TensorFlow.
    from agents.parts.normalize import NormalizeObserv

# The statistics of rewards in a checkpoint.
REWARDS = 'algo/reward_normalizer/statistics/{}'

# Limit for statistics that may come from a stranger.
MOST_VALUES = 1e18


@dataclasses.dataclass(frozen=True, eq=False)
class Normalizer:
    """Centers and scales values by saved statistics.

        normalizer = agents.load('runs/pendulum').normalizer
        normalizer(observ)   # (observ - mean) / std, clipped to [-clip, clip].

    For Dict or Tuple observations, mean and std have the same structure, with an array for each
    normalized part and None for others, such as images.

    Attributes:
        mean: Mean to subtract.
        std: Standard deviation to divide by.
        clip: Limit of the absolute result, or None.
        count: Number of values in the statistics.
    """

    mean: Any
    std: Any
    clip: float | None
    count: int

    def __call__(self, value: Any) -> Nest:
        """Normalize values `[..., *shape]`, without those of a mask."""
        return nested.map(self._normalize, self.mean, self.std, value)

    def _normalize(self, mean: Any, std: Any, value: Any) -> Nest:
        if mean is None:
            return value
        distance = np.float32(np.asarray(value, np.float64) - mean)
        scaled = distance / np.float32(std)
        if self.clip is None:
            return scaled
        return np.clip(scaled, -self.clip, self.clip)


def of_observations(normalizer: 'NormalizeObserv', clip: float | None) -> Normalizer | None:
    """Return the normalizer of a policy, or None."""
    parts = normalizer.parts()
    used = [part for part in nested.flatten(parts) if part is not None]
    if not used:
        return None
    mean, std = (
        nested.map(lambda part, name=name: part and getattr(part, name).numpy(), parts)
        for name in ('mean', 'std')
    )
    return Normalizer(mean, std, clip, int(used[0].count))


def of_rewards(logdir: pathlib.Path, step: int, clip: float | None) -> Normalizer | None:
    """Return the normalizer of rewards from a checkpoint of a run, or None.

    Rewards are divided by the standard deviation of discounted returns, and not centered.
    """
    from agents.parts import normalize  # These need TensorFlow.
    from agents.tools.runs import tensors

    path = checkpoints.path_of(logdir / storage.CHECKPOINTS, step)
    file = path / checkpoints.TENSORS
    names = [REWARDS.format(part) for part in ('count', 'squares')]
    specs, number = tensors.specs(file), tensors.Spec('float64', [])
    if any(specs.get(name) != number for name in names):
        return None
    count, squares = map(float, tensors.read(file, names).values())
    if not (0 <= count < MOST_VALUES and math.isfinite(squares)):
        raise errors.ConfigError(
            f'The statistics of rewards in {path} must be finite and of at '
            f'most {MOST_VALUES:.0g} values, got count={count} and '
            f'squares={squares}.'
        )
    if not count:
        return None
    std = float(normalize.deviation(count, squares))
    return Normalizer(0.0, std, clip, int(count))
