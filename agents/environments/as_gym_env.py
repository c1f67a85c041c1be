"""An environment written in TensorFlow as one of Gymnasium."""

from typing import Any

import gymnasium as gym
import numpy as np

from agents.environments.native_env import NativeEnv
from agents.tools import nested, spaces
from agents.tools.graph import random
from agents.tools.graph.backend import tf
from agents.tools.nested import Nest


class AsGymEnv(gym.Env):
    """Steps a single agent outside of the graph, for videos and for trials.

    Args:
        env: The environment.
    """

    metadata = {'render_modes': ['rgb_array'], 'render_fps': 30}  # noqa: RUF012
    render_mode = 'rgb_array'

    def __init__(self, env: NativeEnv):
        self._env = env
        self.observation_space = env.observation_space
        self.action_space = env.action_space
        self._seed, self._count = 0, 0
        self._state: Any = None

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        if seed is not None:
            self._seed, self._count = seed, 0
        self._state = self._env.reset(self._key(), 1)
        return self._observ(), {}

    def step(self, action: Nest) -> tuple[Any, float, bool, bool, dict]:
        action = np.asarray(action)[None] - spaces.start(self.action_space)
        dtype = spaces.specs(self.action_space).dtype
        self._state, reward, terminated = self._env.step(
            self._state, tf.constant(action, dtype), self._key()
        )
        over = bool(terminated[0])
        return self._observ(), float(reward[0]), over, False, {}

    def render(self) -> Nest:
        return self._env.render(_first(self._state))

    def _observ(self) -> Nest:
        return _first(self._env.observe(self._state))

    def _key(self) -> tf.Tensor:
        self._count += 1
        return random.key(self._seed, 'alone', self._count)


def _first(nest: Nest) -> Any:
    return nested.map(lambda leaf: np.asarray(leaf[0]), nest)
