"""Masks of actions that vectors of environments tell."""

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from agents.tools import choices, errors
from agents.tools.batch import infos
from agents.tools.batch.masking import ObserveMask
from agents.tools.nested import Nest

KEY = choices.KEY


class ObserveMasks(gym.vector.VectorWrapper):
    """Observes which actions are possible, see `agents.tools.choices`.

    It is told by a method `action_masks` of the vector or of each environment
    that it consists of, or else by `info['action_mask']`: an array
    `[env, choice]`, or for `MultiDiscrete` actions a tuple of one for each
    part, or an array of objects with a mask each. What is observed is as
    `masking.ObserveMask` has it. Where an episode is over or a step is lost,
    there may be no mask, which is then of zeros, as are those of last
    observations.

    Args:
        env: The vector.
        first: Index of its first environment, for errors.
    """

    def __init__(self, env: gym.vector.VectorEnv, first: int = 0):
        super().__init__(env)
        self._first = first
        self._method = find_method(env)
        self._actions = env.single_action_space
        self._inner = env.single_observation_space
        self._count = sum(choices.sizes(self._actions))
        self.single_observation_space = choices.observed_space(self._inner, self._actions)
        self.observation_space = gym.vector.utils.batch_space(
            self.single_observation_space, self.num_envs
        )

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        mask = (options or {}).get('reset_mask')
        began = None if mask is None else mask.copy()
        return self.add(*self.env.reset(seed=seed, options=options), began)

    def step(self, actions: Nest) -> tuple:
        observ, reward, terminated, truncated, info = self.env.step(actions)
        needed = ~(terminated | truncated)
        if infos.LOST in info:
            needed &= ~info[infos.LOST]
        if infos.LAST_OBSERV in info:
            last = self._add_zeros(info[infos.LAST_OBSERV])
            info = {**info, infos.LAST_OBSERV: last}
        observ = self._add(observ, info, needed, 'step')
        return observ, reward, terminated, truncated, info

    def add(self, observ: Nest, info: dict, began: np.ndarray | None = None) -> tuple[Any, dict]:
        """Complete what a reset returned, of all or where an episode began."""
        needed = np.ones(self.num_envs, bool) if began is None else began
        return self._add(observ, info, needed, 'reset'), info

    def _add(self, observ: Nest, info: dict, needed: np.ndarray, method: str) -> dict:
        told, given = self._find(info)
        missing = needed & ~given
        if missing.any():
            what = choices.describe_missing(self._source, method)
            raise self._told(int(np.argmax(missing)), what)
        masks = self._read(told, given, method)
        return {**choices.beside(self._inner, observ), KEY: masks}

    def _find(self, info: dict) -> tuple[Any, np.ndarray]:
        """What tells the masks, and of which environments it does."""
        told = self._method() if self._method else info.get(KEY)
        given = np.full(self.num_envs, told is not None)
        if isinstance(told, list):
            given[:] = [mask is not None for mask in told]
        elif not self._method and infos.MASK + KEY in info:
            given &= np.asarray(info[infos.MASK + KEY], bool)
        return told, given

    @property
    def _source(self) -> str:
        return f'{ObserveMask.METHOD}()' if self._method else f'info[{KEY!r}]'

    def _read(self, told: Any, given: np.ndarray, method: str) -> np.ndarray:
        """Bytes `[env, choice]` of the masks that are given."""
        shape = self.num_envs, self._count
        is_plain = isinstance(told, np.ndarray) and told.dtype.kind in 'biuf'
        if is_plain and told.shape == shape and not np.isnan(told).any():
            return ((told != 0) & given[:, None]).view(np.uint8)
        masks = np.zeros(shape, np.uint8)
        for row in np.flatnonzero(given).tolist():
            try:
                mask = tuple(part[row] for part in told) if isinstance(told, tuple) else told[row]
                masks[row] = choices.flatten(mask, self._actions)
            except (ValueError, LookupError) as error:
                raise self._told(row, f'After {method}, {error}.') from None
        return masks

    def _add_zeros(self, last: Any) -> Nest:
        """Complete last observations, which come in one of several forms."""
        zeros = np.zeros((self.num_envs, self._count), np.uint8)
        is_dict = isinstance(self._inner, gym.spaces.Dict)
        if is_dict and not isinstance(last, Mapping):
            return [
                {**observ, KEY: zeros[0]} if isinstance(observ, Mapping) else observ
                for observ in last
            ]
        return {**choices.beside(self._inner, last), KEY: zeros}

    def _told(self, row: int, what: str) -> errors.EnvError:
        return errors.EnvError(f'Environment {self._first + row}: {what}')


def find_method(env: gym.vector.VectorEnv) -> Callable[[], Any] | None:
    """What returns the masks of all environments, if a vector has it."""
    name = ObserveMask.METHOD
    method = getattr(env, name, None)
    if callable(method):
        return method
    members = getattr(env.unwrapped, 'envs', None) or []
    if members and all(each.has_wrapper_attr(name) for each in members):
        return lambda: [each.get_wrapper_attr(name)() for each in members]
    return None
