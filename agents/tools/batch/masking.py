"""Addition of action masks to observations of single environments."""

import contextlib
from typing import Any

import gymnasium as gym
import numpy as np

from agents.tools import choices, errors
from agents.tools.nested import Nest


class ObserveMask(gym.Wrapper):
    """Adds the action mask to observations, see `agents.tools.choices`.

    The mask comes from a method `action_masks`, as in sb3-contrib, or from `info['action_mask']` of
    reset and step, as in Gymnasium's Taxi. Dict observations get the key `action_mask`; any other
    observation becomes a Dict with the keys `observation` and `action_mask`.

    At the end of an episode the mask may be missing; it is zero there.
    """

    METHOD = 'action_masks'

    def __init__(self, env: gym.Env):
        super().__init__(env)
        if not choices.are_choices(env.action_space):
            raise TypeError(f'Actions of {env.action_space} have no masks.')
        self._has_method = env.has_wrapper_attr(self.METHOD)
        self._count = sum(choices.sizes(env.action_space))
        self.observation_space = choices.observed_space(env.observation_space, env.action_space)

    @classmethod
    def is_for(cls, env: gym.Env) -> bool:
        """Return whether an environment has masks that it does not observe.

        An environment without the method is reset to look at its info.
        """
        if not choices.may_be_told(env.observation_space, env.action_space):
            return False
        if env.has_wrapper_attr(cls.METHOD):
            return True
        # What goes wrong is told when it happens again.
        with contextlib.suppress(Exception):
            _, info = env.reset(seed=0)
            return choices.KEY in info
        return False

    def reset(self, **kwargs: Any) -> tuple[Any, dict]:
        observ, info = self.env.reset(**kwargs)
        return self._add(observ, info, 'reset'), info

    def step(self, action: Nest) -> tuple:
        observ, reward, terminated, truncated, info = self.env.step(action)
        over = bool(terminated or truncated)
        observ = self._add(observ, info, 'step', over)
        return observ, reward, terminated, truncated, info

    def _add(self, observ: Nest, info: Any, method: str, over: bool = False) -> dict:
        mask = self._find(info)
        if mask is None and over:
            mask = np.zeros(self._count, np.uint8)
        if mask is None:
            what = choices.describe_missing(self._source(), method)
            raise errors.EnvError(what)
        try:
            flat = choices.flatten(mask, self.action_space)
        except ValueError as error:
            raise errors.EnvError(f'After {method}, {error}.') from None
        parts = choices.beside(self.env.observation_space, observ)
        return {**parts, choices.KEY: flat}

    def _find(self, info: Any) -> Any:
        if self._has_method:
            return self.env.get_wrapper_attr(self.METHOD)()
        return info.get(choices.KEY) if isinstance(info, dict) else None

    def _source(self) -> str:
        return f'{self.METHOD}()' if self._has_method else (f'info[{choices.KEY!r}]')


class Masking:
    """Adds action masks to the observations of environments that have them.

    Whether they do is found out once per process, by a reset of the first environment, see
    `ObserveMask.is_for`.
    """

    def __init__(self) -> None:
        self._tell: bool | None = None

    def __call__(self, env: gym.Env) -> gym.Env:
        if self._tell is None:
            self._tell = ObserveMask.is_for(env)
        if self._tell:
            return ObserveMask(env)
        found = env.observation_space, env.action_space
        return _Unmasked(env) if choices.may_be_told(*found) else env


class _Unmasked(gym.Wrapper):
    """Refuses a mask after the first reset had none."""

    def reset(self, **kwargs: Any) -> tuple[Any, dict]:
        result = self.env.reset(**kwargs)
        _require_no_mask(result, 'a later reset')
        return result

    def step(self, action: Nest) -> tuple:
        result = self.env.step(action)
        _require_no_mask(result, 'step')
        # Who tells masks does so after every step: the first one is enough,
        # and no time is spent here on the others.
        self.step = self.env.step  # type: ignore[method-assign]
        return result


def _require_no_mask(result: Any, method: str) -> None:
    """Refuse a mask in the info, wherever the info is in a result."""
    info = result[-1] if isinstance(result, tuple) and result else None
    if isinstance(info, dict) and choices.KEY in info:
        raise errors.EnvError(choices.describe_late(method))
