"""Environments of EnvPool as a vector environment of Gymnasium."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from agents.tools import cpu, errors


class EnvPoolVector(gym.vector.VectorEnv):
    """Environments of EnvPool, reset on request.

    By default EnvPool starts the next episode in the step after the end of the last one, which does
    nothing else. With explicit resets, no step is lost.

    EnvPool marks an episode as truncated if it ends in the last allowed step, even if it terminates
    there. So it is allowed one more step, and truncated here.

    Args:
        name: Name of the environment.
        num_envs: Number of environments.
        seed: Seed of all environments.
        max_length: Steps after which an episode is truncated; None for the limit of the
            environment.
        kwargs: Other arguments of `envpool.make`.
    """

    def __init__(self, name: str, num_envs: int, seed: int, max_length: int | None, **kwargs: Any):
        import envpool

        known = envpool.make_spec(name).config._asdict()
        for key in kwargs:
            errors.require_known(f'argument of {name}', key, known)
        given = kwargs.pop('max_episode_steps', known['max_episode_steps'])
        self._limit = min(given, max_length or given)
        self._pool: Any = envpool.make_gymnasium(
            name,
            num_envs=num_envs,
            seed=seed,
            max_episode_steps=self._limit + 1,
            **{**_threads(num_envs), **kwargs},
        )
        # After so many steps an episode may be as long as is allowed, but not
        # before.
        self._spare = 0
        self.metadata = {'autoreset_mode': AutoresetMode.DISABLED}
        self.num_envs = num_envs
        self.single_observation_space = self._pool.observation_space
        self.single_action_space = self._pool.action_space
        self.observation_space, self.action_space = (
            gym.vector.utils.batch_space(space, num_envs)
            for space in (self.single_observation_space, self.single_action_space)
        )

    def step(self, actions: np.ndarray) -> tuple:
        result = self._pool.step(actions)
        self._spare -= 1
        if self._spare > 0:
            return result
        observ, reward, terminated, truncated, info = result
        elapsed = info['elapsed_step']
        self._spare = self._limit - int(elapsed.max())
        return (observ, reward, terminated, truncated | (elapsed >= self._limit), info)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        """Reset all environments, or those where `options['reset_mask']` is true.

        Observations of the others are zero. The seed is that of `__init__`.
        """
        del seed
        mask = (options or {}).get('reset_mask')
        if mask is None or mask.all():
            return self._pool.reset()
        observ, info = self._pool.reset(np.flatnonzero(mask).astype(np.int32))
        everything = gym.vector.utils.create_empty_array(
            self.single_observation_space, self.num_envs
        )
        _scatter(everything, info['env_id'], observ)
        return everything, info

    def close_extras(self, **kwargs: Any) -> None:
        self._pool.close()


def _threads(num_envs: int) -> dict[str, int]:
    """Return the number of threads, pinned to cores if all cores have work.

    Otherwise threads that wake up together may share a core for many steps.
    """
    cores = cpu.cores()
    threads = {'num_threads': min(num_envs, len(cores))}
    in_a_row = cores[-1] - cores[0] == len(cores) - 1
    if in_a_row and num_envs >= len(cores) > 1:
        threads['thread_affinity_offset'] = cores[0]
    return threads


def _scatter(target: Any, rows: np.ndarray, values: Any) -> None:
    """Write values into rows of a nest of arrays."""
    if isinstance(target, dict):
        for key, part in target.items():
            _scatter(part, rows, values[key])
    else:
        target[rows] = values
