"""A car that is too weak for its hill, to be rocked over it."""

import gymnasium as gym
import numpy as np

from agents.environments.native_env import NativeEnv
from agents.tools.graph import random
from agents.tools.graph.backend import tf

GRAVITY = 0.0025
MIN_POSITION = -1.2
MAX_POSITION = 0.6
MAX_SPEED = 0.07
BOUNDS = np.array([[MIN_POSITION, -MAX_SPEED], [MAX_POSITION, MAX_SPEED]], np.float32)


class _Hill(NativeEnv):
    """Base of both cars: states, observations and dynamics."""

    observation_space = gym.spaces.Box(*BOUNDS)

    def reset(self, key: tf.Tensor, count: int) -> tf.Tensor:
        position = 0.2 * random.uniform(key, (count,)) - 0.6
        return tf.stack([position, tf.zeros_like(position)], -1)

    def observe(self, state: tf.Tensor) -> tf.Tensor:
        return state

    def _move(self, state: tf.Tensor, thrust: tf.Tensor) -> tf.Tensor:
        position, speed = tf.unstack(state, axis=-1)
        speed += thrust - GRAVITY * tf.cos(3 * position)
        speed = tf.clip_by_value(speed, -MAX_SPEED, MAX_SPEED)
        position = tf.clip_by_value(position + speed, MIN_POSITION, MAX_POSITION)
        at_wall = position <= MIN_POSITION
        speed = tf.where(at_wall, tf.maximum(speed, 0.0), speed)
        return tf.stack([position, speed], -1)


class MountainCar(_Hill):
    """Reach the top of the hill soon, by thrust to the left, none or the right.

    The reward is −1 for every step.

    Moore 1990, Efficient memory-based learning for robot control, as in Sutton
    1996, Generalization in reinforcement learning: successful examples using
    sparse coarse coding. The same as MountainCar-v0 of Gymnasium.
    """

    action_space = gym.spaces.Discrete(3)
    max_length = 200
    twin = 'MountainCar-v0'

    def step(
        self, state: tf.Tensor, action: tf.Tensor, key: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        state = self._move(state, 0.001 * tf.cast(action - 1, tf.float32))
        position, speed = tf.unstack(state, axis=-1)
        return state, -tf.ones_like(speed), (position >= 0.5) & (speed >= 0)


class MountainCarContinuous(_Hill):
    """Reach the top of the hill with little effort, by thrust of any strength.

    The reward is 100 at the top and −0.1 u² for every step with an action u.

    After Moore 1990, see `MountainCar`. The same as MountainCarContinuous-v0 of
    Gymnasium.
    """

    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    max_length = 999
    twin = 'MountainCarContinuous-v0'

    def step(
        self, state: tf.Tensor, action: tf.Tensor, key: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        thrust = action[:, 0]
        state = self._move(state, 0.0015 * thrust)
        position, speed = tf.unstack(state, axis=-1)
        terminated = (position >= 0.45) & (speed >= 0)
        reward = tf.where(terminated, 100.0, 0.0) - 0.1 * thrust**2
        return state, reward, terminated
