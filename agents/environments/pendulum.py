"""A pendulum to be swung up."""

import math

import gymnasium as gym
import numpy as np

from agents.environments.native_env import NativeEnv
from agents.tools.graph import random
from agents.tools.graph.backend import tf

TURN = 2 * math.pi
GRAVITY = 10.0
INTERVAL = 0.05
MAX_SPEED = 8.0
MAX_TORQUE = 2.0
BOUNDS = np.array([1, 1, MAX_SPEED], np.float32)


class Pendulum(NativeEnv):
    """Swing a rod up and hold it there, with a torque that cannot lift it.

    The state is the angle θ, zero at the top, and the angular speed; the
    observation has the cosine and the sine of the angle instead. With the
    torque u, for a rod of length and mass 1,

        θ̈ = 3/2 g sin θ + 3 u,

    integrated by the semi-implicit Euler method. The reward is
    −(θ² + 0.1 θ̇² + 0.001 u²); there is no end but the time limit.

    Doya 2000, Reinforcement learning in continuous time and space, has a
    pendulum of this kind. The same as Pendulum-v1 of Gymnasium, except that the
    angle of a state stays near zero, where floats are dense; what is observed
    is equal.
    """

    observation_space = gym.spaces.Box(-BOUNDS, BOUNDS)
    action_space = gym.spaces.Box(-MAX_TORQUE, MAX_TORQUE, (1,), np.float32)
    max_length = 200
    twin = 'Pendulum-v1'

    def reset(self, key: tf.Tensor, count: int) -> tf.Tensor:
        limits = tf.constant([math.pi, 1.0])
        return limits * (2 * random.uniform(key, (count, 2)) - 1)

    def step(
        self, state: tf.Tensor, action: tf.Tensor, key: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        angle, speed = tf.unstack(state, axis=-1)
        angle -= TURN * tf.round(angle / TURN)
        torque = action[:, 0]
        reward = -(angle**2 + 0.1 * speed**2 + 0.001 * torque**2)
        speed += INTERVAL * (1.5 * GRAVITY * tf.sin(angle) + 3 * torque)
        speed = tf.clip_by_value(speed, -MAX_SPEED, MAX_SPEED)
        state = tf.stack([angle + INTERVAL * speed, speed], -1)
        return state, reward, tf.zeros_like(reward, tf.bool)

    def observe(self, state: tf.Tensor) -> tf.Tensor:
        angle, speed = tf.unstack(state, axis=-1)
        return tf.stack([tf.cos(angle), tf.sin(angle), speed], -1)
