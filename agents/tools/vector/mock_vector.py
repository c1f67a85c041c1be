"""Vector environments for tests, with known numbers."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from agents.tools.nested import Nest


class MockVector(gym.vector.VectorEnv):
    """Episodes of given lengths, in any autoreset mode.

    The first observation of episode e is [e, 0], that after t steps [e, t], and the reward of step
    t is 10 e + t. Odd episodes are terminated, even ones truncated.

    Attributes:
        actions: Actions of each step, -1 where they were ignored.
        seeds: Seed of each reset.

    Args:
        lengths: Lengths of the episodes of each environment, repeated.
        mode: Autoreset mode.
        nest: Makes a nest of a box or of rows of numbers, as the form of observations.
        batched: Return the last observations in `info` as a batch of all environments instead of
            objects.
    """

    def __init__(
        self,
        lengths: Sequence[Sequence[int]],
        mode: AutoresetMode,
        nest: Callable[[Any], Any] = lambda part: part,
        batched: bool = False,
    ):
        self.metadata = {'autoreset_mode': mode}
        self.num_envs = len(lengths)
        box = gym.spaces.Box(0.0, 1000.0, (2,), np.float32)
        self.single_observation_space = _as_space(nest(box))
        self.single_action_space = gym.spaces.Discrete(5, start=2)
        self.actions: list[np.ndarray] = []
        self.seeds: list[int | None] = []
        self._mode, self._nest, self._batched = mode, nest, batched
        self._lengths = [itertools.cycle(each) for each in lengths]
        self._episode, self._time, self._length = np.zeros((3, self.num_envs), int)
        self._over = np.zeros(self.num_envs, bool)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict]:
        self.seeds.append(seed)
        mask = np.ones(self.num_envs, bool)
        if options is not None:
            assert self._mode is AutoresetMode.DISABLED
            mask = options.pop('reset_mask')  # As Gymnasium's vectors do.
        self._begin(mask)
        mask[:] = False  # Who gave it should have kept a copy.
        return self._nest(self._numbers()), {}

    def step(self, actions: np.ndarray) -> tuple:
        played = np.ones(self.num_envs, bool)
        if self._mode is AutoresetMode.NEXT_STEP:
            played = ~self._over
            self._begin(self._over)
        assert not self._over.any(), 'An episode goes on that is over.'
        self.actions.append(np.where(played, actions, -1))
        self._time[played] += 1
        reward = np.where(played, 10.0 * self._episode + self._time, 0.0)
        self._over = played & (self._time >= self._length)
        odd, info = self._episode % 2 == 1, {}
        terminated, truncated = self._over & odd, self._over & ~odd
        if self._mode is AutoresetMode.SAME_STEP and self._over.any():
            info = {'final_obs': self._find_last()}
            self._begin(self._over)
        observ = self._nest(self._numbers())
        return observ, reward, terminated, truncated, info

    def _begin(self, mask: np.ndarray) -> None:
        self._episode[mask] += 1
        self._time[mask] = 0
        for index in np.flatnonzero(mask):
            self._length[index] = next(self._lengths[index])
        self._over = self._over & ~mask

    def _numbers(self) -> np.ndarray:
        return np.stack([self._episode, self._time], -1).astype(np.float32)

    def _find_last(self) -> Any:
        if self._batched:
            return self._nest(self._numbers())
        last = np.full(self.num_envs, None, object)
        for index in np.flatnonzero(self._over):
            last[index] = self._nest(self._numbers()[index])
        return last


class FixedVector(gym.vector.VectorEnv):
    """Two environments that return given results in each step.

    Args:
        results: Results of `step` by name instead of zeros, and as `first` the observations of
            `reset`.
        info: Info of each step.
        first_info: Info of each reset.
        observs: Space of the observations.
        actions: Space of the actions.
    """

    metadata = {'autoreset_mode': AutoresetMode.SAME_STEP}  # noqa: RUF012
    num_envs = 2

    def __init__(
        self,
        results: Mapping[str, Any] | None = None,
        info: dict[str, Any] | None = None,
        first_info: dict[str, Any] | None = None,
        observs: gym.Space | None = None,
        actions: gym.Space | None = None,
    ):
        self.single_observation_space = observs or gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.single_action_space = actions or gym.spaces.Discrete(2)
        observ = gym.vector.utils.create_empty_array(self.single_observation_space, self.num_envs)
        self._results = {
            'first': observ,
            'observ': observ,
            'reward': np.zeros(self.num_envs),
            'terminated': np.zeros(self.num_envs, bool),
            'truncated': np.zeros(self.num_envs, bool),
            **(results or {}),
        }
        self._info, self._first_info = info or {}, first_info or {}

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple:
        return self._results['first'], self._first_info

    def step(self, actions: np.ndarray) -> tuple:
        names = 'observ', 'reward', 'terminated', 'truncated'
        return *[self._results[name] for name in names], self._info


def _as_space(nest: Nest) -> gym.Space:
    if isinstance(nest, dict):
        parts = {key: _as_space(part) for key, part in nest.items()}
        return gym.spaces.Dict(parts)
    if isinstance(nest, tuple):
        return gym.spaces.Tuple([_as_space(part) for part in nest])
    return nest
