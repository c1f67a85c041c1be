"""Wrappers of environments.

Wrappers that Gymnasium has as well derive from those of Gymnasium.
"""

import collections
import warnings
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from agents.tools import nested, spaces
from agents.tools.batch.masking import ObserveMask
from agents.tools.nested import Nest
from agents.tools.workers.external_process import ExternalProcess

__all__ = [
    'ActionRepeat',
    'AutoReset',
    'BoundObserv',
    'CacheSpaces',
    'ClipAction',
    'ConvertTo32Bit',
    'ExternalProcess',
    'FrameDelta',
    'FrameHistory',
    'LimitDuration',
    'ObserveMask',
    'RandomStart',
    'RangeNormalize',
]


# Gymnasium's wrappers that do what training does anyway, with the setting.
NORMALIZERS = {'NormalizeObservation': 'normalize_observ', 'NormalizeReward': 'normalize_reward'}


# Names of those that this process has warned of. Python's own record of shown
# warnings is lost whenever a filter changes, as it does for each environment.
warned_of: set[str] = set()


def warn_of_normalizers(env: Any) -> None:
    """Warn once about wrappers that normalize a second time."""
    while isinstance(env, (gym.Wrapper, gym.vector.VectorWrapper)):
        kind = type(env)
        setting = NORMALIZERS.get(kind.__name__)
        foreign = kind.__module__.startswith('gymnasium.')
        if setting and foreign and kind.__name__ not in warned_of:
            warned_of.add(kind.__name__)
            text = (
                f'{kind.__name__} has statistics of its own in each worker, '
                'which are in no checkpoint. Drop it: the setting '
                f'{setting} normalizes already.'
            )
            warnings.warn_explicit(text, UserWarning, kind.__module__, 0)
        env = env.env


class AutoReset(gym.wrappers.Autoreset):
    """Resets the environment in the step after the end of an episode."""


class ClipAction(gym.wrappers.ClipAction):
    """Clips actions to the bounds of the space, and accepts any action."""


class LimitDuration(gym.wrappers.TimeLimit):
    """Truncates episodes after a number of steps."""

    def __init__(self, env: gym.Env, duration: int):
        super().__init__(env, max_episode_steps=duration)


class BoundObserv(gym.ObservationWrapper):
    """Checks that observations are within the bounds of their space.

    Wrong shapes and numbers that are not finite are left to the batch.

    Args:
        env: Environment.
        beyond: Treatment of values beyond the bounds: 'clip' moves them to the bound, 'error'
            raises.
    """

    CHOICES = 'clip', 'error'

    def __init__(self, env: gym.Env, beyond: str):
        super().__init__(env)
        if beyond not in self.CHOICES:
            raise ValueError(f"Values beyond the bounds are for 'clip' or 'error', not {beyond!r}.")
        self._beyond = beyond

    def observation(self, observation: Nest) -> Any:
        return self._within(self.observation_space, observation, '')

    def _within(self, space: Any, observ: Nest, path: str) -> Any:
        match space, observ:
            case gym.spaces.Dict(), dict():
                return {
                    key: self._within(space.spaces.get(key), part, f'{path}[{key!r}]')
                    for key, part in observ.items()
                }
            case gym.spaces.Tuple(), tuple() if len(observ) == len(space):
                return tuple(
                    self._within(*pair, f'{path}[{index}]')
                    for index, pair in enumerate(zip(space, observ, strict=True))
                )
            case gym.spaces.Box(), _:
                return self._within_box(space, observ, path)
        return observ

    def _within_box(self, space: gym.spaces.Box, observ: Nest, path: str) -> Any:
        with np.errstate(over='ignore'):
            # In its own type, since the bounds have been rounded to that.
            value = np.asarray(observ)
            if space.dtype.kind == 'f' and value.dtype.kind in 'fiub':
                value = value.astype(space.dtype, copy=False)
            if value.shape != space.shape or not _is_finite(value):
                return observ
        outside = (value < space.low) | (value > space.high)
        if not outside.any():
            return value
        if self._beyond == 'clip':
            return np.clip(value, space.low, space.high).astype(value.dtype)
        place = tuple(int(index) for index in np.argwhere(outside)[0])
        raise ValueError(
            f'observation{path} is {value[place]} at {place}, where its space '
            f'has the bounds {space.low[place]} and {space.high[place]}.'
        )


def _is_finite(value: np.ndarray) -> bool:
    """Return whether all numbers of an array fit into 32 bits."""
    if value.dtype.kind not in 'fiub':
        return False
    return bool(np.isfinite(value.astype(np.float32, copy=False)).all())


class ActionRepeat(gym.Wrapper):
    """Repeats each action a number of times and sums the rewards."""

    def __init__(self, env: gym.Env, amount: int):
        super().__init__(env)
        if amount < 1:
            raise ValueError(f'An action is repeated at least once, not {amount}.')
        self._amount = amount

    def step(self, action: Nest) -> tuple:
        total = 0.0
        for _ in range(self._amount):
            observ, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        return observ, total, terminated, truncated, info


class RandomStart(gym.Wrapper):
    """Begins each episode with a random number of random actions.

    The number is uniform from 0 to `max_steps`. If the episode ends during them, the environment is
    reset once more.
    """

    def __init__(self, env: gym.Env, max_steps: int):
        super().__init__(env)
        self._max_steps = max_steps

    def reset(self, **kwargs: Any) -> tuple[Any, dict]:
        seed = kwargs.get('seed')
        if seed is not None:
            self.env.action_space.seed(seed)
        observ, info = self.env.reset(**kwargs)
        for _ in range(self.np_random.integers(0, self._max_steps + 1)):
            action = self.env.action_space.sample()
            observ, _, terminated, truncated, info = self.env.step(action)
            if terminated or truncated:
                kwargs.pop('seed', None)
                observ, info = self.env.reset(**kwargs)
        return observ, info


class FrameHistory(gym.Wrapper):
    """Stacks observations of the past.

    Gymnasium's frame stacking takes the last frames; this takes any, such as `past_indices=[0, 1,
    3]` for the current one, the one before and that of three steps ago. The first observation
    stands for those before the start of an episode.

    Args:
        env: Environment with a box of observations.
        past_indices: Ages of the frames in steps.
        flatten: Concatenate frames along their first axis instead of stacking them along a new one.
    """

    def __init__(self, env: gym.Env, past_indices: Sequence[int], flatten: bool = False):
        super().__init__(env)
        if 0 not in past_indices:
            raise ValueError(f'The past_indices {list(past_indices)} lack 0, the current frame.')
        self._past_indices = list(past_indices)
        self._flatten = flatten
        self._frames: collections.deque = collections.deque(maxlen=max(past_indices) + 1)
        space = _require_box(env.observation_space)
        self.observation_space = gym.spaces.Box(
            self._join([space.low] * len(self._past_indices)),
            self._join([space.high] * len(self._past_indices)),
            dtype=space.dtype,
        )

    def reset(self, **kwargs: Any) -> tuple[np.ndarray, dict]:
        observ, info = self.env.reset(**kwargs)
        observ = np.array(observ)  # The environment may write to it again.
        self._frames.extend([observ] * (max(self._past_indices) + 1))
        return self._history(), info

    def step(self, action: Nest) -> tuple:
        observ, *rest = self.env.step(action)
        self._frames.append(np.array(observ))
        return self._history(), *rest

    def _history(self) -> np.ndarray:
        return self._join([self._frames[-1 - past] for past in self._past_indices])

    def _join(self, frames: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate(frames) if self._flatten else np.stack(frames)


class FrameDelta(gym.Wrapper):
    """Observes the change since the last observation.

    Zero at the start of an episode. Changes of integers may be negative, also for bytes.
    """

    def __init__(self, env: gym.Env):
        super().__init__(env)
        space = _require_box(env.observation_space)
        self._dtype = np.int64 if space.dtype.kind in 'iu' else space.dtype
        low, high = (space.low.astype(self._dtype), space.high.astype(self._dtype))
        self.observation_space = gym.spaces.Box(low - high, high - low, dtype=self._dtype)
        self._last: Any = None

    def reset(self, **kwargs: Any) -> tuple[np.ndarray, dict]:
        observ, info = self.env.reset(**kwargs)
        self._last = np.array(observ, self._dtype)
        return self._last - self._last, info

    def step(self, action: Nest) -> tuple:
        observ, *rest = self.env.step(action)
        before, self._last = self._last, np.array(observ, self._dtype)
        return self._last - before, *rest


class RangeNormalize(gym.Wrapper):
    """Scales observations and actions to [-1, 1].

    Applies to boxes of floats with finite bounds. The batch already scales bounded actions by
    itself, see `agents.tools.InGraphBatchEnv`.

    Args:
        env: Environment with boxes as spaces.
        observ: Whether to scale observations; by default if possible.
        action: Whether to scale actions; by default if possible.
    """

    def __init__(self, env: gym.Env, observ: bool | None = None, action: bool | None = None):
        if _wanted('observations', observ, env.observation_space):
            env = gym.wrappers.RescaleObservation(env, np.float32(-1), np.float32(1))
        if _wanted('actions', action, env.action_space):
            env = gym.wrappers.RescaleAction(env, np.float32(-1), np.float32(1))
        super().__init__(env)


class ConvertTo32Bit(gym.Wrapper):
    """Converts observations and rewards to 32 bits; bytes stay bytes."""

    def __init__(self, env: gym.Env):
        super().__init__(env)
        self._specs = spaces.specs(env.observation_space)

    def reset(self, **kwargs: Any) -> tuple[Any, dict]:
        observ, info = self.env.reset(**kwargs)
        return self._convert(observ), info

    def step(self, action: Nest) -> tuple:
        observ, reward, *rest = self.env.step(action)
        reward = _convert_leaf(reward, np.dtype(np.float32))[()]
        return self._convert(observ), reward, *rest

    def _convert(self, observ: Nest) -> Any:
        return nested.map(
            lambda spec, leaf: _convert_leaf(leaf, np.dtype(spec.dtype)), self._specs, observ
        )


class CacheSpaces(gym.Wrapper):
    """Reads the spaces of the environment only once.

    For environments that compute them each time.
    """

    def __init__(self, env: gym.Env):
        super().__init__(env)
        self.observation_space = env.observation_space
        self.action_space = env.action_space


def _convert_leaf(leaf: Any, dtype: np.dtype) -> np.ndarray:
    leaf = np.asarray(leaf)
    with np.errstate(over='ignore', invalid='ignore'):
        converted = leaf.astype(dtype)
    exact = dtype.kind == 'f' and np.isfinite(converted).all()
    if not exact and not np.array_equal(converted, leaf):
        raise ValueError(f'The values {leaf} do not fit into {dtype}.')
    return converted


def _wanted(name: str, choice: bool | None, space: gym.Space) -> bool:
    possible = spaces.is_bounded(space) and np.dtype(space.dtype).kind == 'f'
    if choice and not possible:
        raise ValueError(f'Cannot normalize the {name}, {space} is not a bounded box of floats.')
    return possible if choice is None else choice


def _require_box(space: gym.Space) -> gym.spaces.Box:
    if not isinstance(space, gym.spaces.Box):
        raise TypeError(f'Expected a box of observations, not {space}.')
    return space
