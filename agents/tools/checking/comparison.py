"""Comparison of environments that should behave alike."""

import copy
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from agents.tools import errors
from agents.tools.checking import contract, random_actions
from agents.tools.nested import Nest

# What is compared of what they return, which is all but the info.
COMPARED = 'observation', 'reward', 'terminated', 'truncated'


class Comparison:
    """Two environments side by side, with the same seed and actions.

    Args:
        envs: Environments.
        seed: Seed of both.
        limit: Length at which episodes are cut.

    Attributes:
        steps: Number of steps so far.
        episode: Number of the current episode, from one.
        step: Number of the current step within it, from one.
    """

    def __init__(self, envs: list[gym.Env], seed: int, limit: int):
        self.steps, self.episode, self.step = 0, 0, 0
        self._envs = envs
        self._seed = seed
        self._limit = limit
        self._actions = random_actions.RandomActions(envs[0], seed)

    def run(self, steps: int, is_over: Callable[[], bool] = lambda: False) -> str | None:
        """Compare for some steps; returns a description of the first difference, or None.

        Resets halfway if no episode has ended until then.

        Args:
            steps: Number of steps.
            is_over: Returns whether to stop earlier.
        """
        limit = min(self._limit, max(1, steps // 2))
        results = self._reset(self._seed)
        while True:
            for name, *values in zip(COMPARED, *results):
                found = first_difference(*values)
                if found is not None:
                    return self._describe(f'{name}{found}')
            if self.steps == steps or is_over():
                return None
            over = any(map(np.any, results[0][2:]))
            if self.step and (over or self.step == limit):
                results = self._reset(None)
            else:
                results = self._step()

    def refuses_sampled(self) -> str | None:
        """Describe an action that is refused in the type that its space samples."""
        space = self._envs[0].action_space
        if not isinstance(space, gym.spaces.Discrete):
            return None
        self._reset(None)
        action = np.int64(self._sample())
        try:
            self._envs[0].step(action)
        except BaseException as error:
            return (
                f'step takes the action {int(action)} but not {action!r}, the '
                f'type that its space samples: {errors.describe(error)}'
            )
        return None

    def _reset(self, seed: int | None) -> list[tuple]:
        arguments: dict[str, Any] = {} if seed is None else {'seed': seed}
        results = []
        for env in self._envs:
            try:
                results.append(env.reset(**arguments))
            except TypeError as error:
                if contract.unexpected_argument(error, arguments) is None:
                    raise
                results.append(env.reset())
        self.episode, self.step = self.episode + 1, 0
        self._observ, self._info = results[0]
        return [result[:-1] for result in results]

    def _step(self) -> list[tuple]:
        action = self._sample()
        results = [env.step(copy.copy(action)) for env in self._envs]
        self.steps, self.step = self.steps + 1, self.step + 1
        self._observ, *_, self._info = results[0]
        return [result[:-1] for result in results]

    def _sample(self) -> Nest:
        try:
            action = self._actions.sample(self._observ, self._info)
        except errors.EnvError:  # Which has been told.
            action = self._actions.sample_any()
        return random_actions.as_given(self._envs[0].action_space, action)

    def _describe(self, difference: str) -> str:
        text = f'the same seed and actions do not repeat: {difference}'
        remedy = 'All that is random should be drawn from self.np_random'
        seeded = getattr(self._envs[0].unwrapped, '_np_random_seed', None)
        if seeded != self._seed:
            remedy = f'reset should call super().reset(seed=seed). {remedy}'
        return f'{text}. {remedy}'


def first_difference(one: Any, other: Any, path: str = '') -> str | None:
    """Describe where two nests first differ, or return None."""
    if isinstance(one, dict) and isinstance(other, dict):
        if set(one) != set(other):
            return f'{path} with the keys {sorted(one)} and {sorted(other)}'
        pairs = [(one[key], other[key], f'[{key!r}]') for key in one]
    elif isinstance(one, (tuple, list)) and isinstance(other, (tuple, list)):
        if len(one) != len(other):
            return f'{path} of {len(one)} and {len(other)} parts'
        pairs = [(*both, f'[{index}]') for index, both in enumerate(zip(one, other, strict=True))]
    else:
        return _first_different_number(np.asarray(one), np.asarray(other), path)
    for mine, others, key in pairs:
        found = first_difference(mine, others, f'{path}{key}')
        if found is not None:
            return found
    return None


def _first_different_number(one: np.ndarray, other: np.ndarray, path: str) -> str | None:
    if one.shape != other.shape:
        return f'{path} of shape {one.shape} and {other.shape}'
    floats = one.dtype.kind == other.dtype.kind == 'f'
    if np.array_equal(one, other, equal_nan=floats):
        return None
    different = one != other
    if floats:
        different &= ~(np.isnan(one) & np.isnan(other))
    place = tuple(int(index) for index in np.argwhere(different)[0])
    where = f'{path}[{", ".join(map(str, place))}]' if place else path
    return f'{where} is {one[place]!s} and {other[place]!s}'
