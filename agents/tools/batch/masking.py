"""How single environments come to observe their masks of actions."""

from typing import Any

import gymnasium as gym

from agents.tools import choices, errors
from agents.tools.batch import wrappers


class Masking:
    """Has environments observe their masks of actions, if any.

    Whether they tell any is found out once in each process, which takes a
    reset of the first environment, see `wrappers.ObserveMask.is_for`.
    """

    def __init__(self) -> None:
        self._tell: bool | None = None

    def __call__(self, env: gym.Env) -> gym.Env:
        if self._tell is None:
            self._tell = wrappers.ObserveMask.is_for(env)
        if self._tell:
            return wrappers.ObserveMask(env)
        found = env.observation_space, env.action_space
        return _Unmasked(env) if choices.may_be_told(*found) else env


class _Unmasked(gym.Wrapper):
    """Refuses a mask that is told though the first reset told none."""

    def reset(self, **kwargs: Any) -> tuple[Any, dict]:
        result = self.env.reset(**kwargs)
        _require_no_mask(result, 'a later reset')
        return result

    def step(self, action: Any) -> tuple:
        result = self.env.step(action)
        _require_no_mask(result, 'step')
        # Who tells masks does so after every step: the first one is enough,
        # and no time is spent here on the others.
        self.step = self.env.step  # type: ignore[method-assign]
        return result


def _require_no_mask(result: Any, method: str) -> None:
    """Refuse a mask in the info, wherever that is if the contract is broken."""
    info = result[-1] if isinstance(result, tuple) and result else None
    if isinstance(info, dict) and choices.KEY in info:
        raise errors.EnvError(choices.describe_late(method))
