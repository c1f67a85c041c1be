"""Action masks of vector environments."""

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
    """Adds action masks to observations, see `agents.tools.choices`.

    Masks come from a method `action_masks` of the vector environment or of each of its
    environments, or from `info['action_mask']`: an array `[env, choice]`, for `MultiDiscrete`
    actions a tuple of one array per part, or an array of objects with a mask each. The observations
    are those of `masking.ObserveMask`. At the end of an episode and in lost steps the mask may be
    missing; it is zero there, as in last observations.

    Args:
        env: Vector environment.
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
        """Add masks to the observations of a reset, of all or where an episode began."""
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
        """Return the masks of an info, and for which environments there are any."""
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
        """Convert masks to bytes `[env, choice]`."""
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
        """Add zero masks to last observations, in any of their forms."""
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
    """Return the method for the masks of all environments, if there is one."""
    name = ObserveMask.METHOD
    method = getattr(env, name, None)
    if callable(method):
        return method
    members = getattr(env.unwrapped, 'envs', None) or []
    if members and all(each.has_wrapper_attr(name) for each in members):
        return lambda: [each.get_wrapper_attr(name)() for each in members]
    return None
