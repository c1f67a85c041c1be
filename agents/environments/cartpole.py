"""A pole to be balanced on a cart."""

import math

import gymnasium as gym
import numpy as np

from agents.environments.native_env import NativeEnv
from agents.tools.graph import random
from agents.tools.graph.backend import tf

GRAVITY = 9.8
POLE_MASS = 0.1
TOTAL_MASS = 1.1
HALF_LENGTH = 0.5
FORCE = 10.0
INTERVAL = 0.02
MAX_POSITION = 2.4
MAX_ANGLE = math.radians(12)

# Twice as far as an episode goes on, so that the last observation is inside.
BOUNDS = np.array([2 * MAX_POSITION, np.inf, 2 * MAX_ANGLE, np.inf], np.float32)


class CartPole(NativeEnv):
    """Keep a pole upright by pushing the cart that it stands on left or right.

    The state is the position x of the cart, its speed, the angle θ of the pole
    and its angular speed, and so is the observation. With the mass m and half
    the length l of the pole, the mass M of both, and the force F,

        a = (F + m l θ̇² sin θ) / M
        θ̈ = (g sin θ − a cos θ) / (l (4/3 − m cos² θ / M))
        ẍ = a − m l θ̈ cos θ / M,

    integrated by Euler's method. The reward is 1 for every step.

    Barto, Sutton and Anderson 1983, Neuronlike adaptive elements that can solve
    difficult learning control problems; Florian 2007, Correct equations for the
    dynamics of the cart-pole system. The same as CartPole-v1 of Gymnasium.
    """

    observation_space = gym.spaces.Box(-BOUNDS, BOUNDS)
    action_space = gym.spaces.Discrete(2)
    max_length = 500
    twin = 'CartPole-v1'

    def reset(self, key: tf.Tensor, count: int) -> tf.Tensor:
        return 0.1 * random.uniform(key, (count, 4)) - 0.05

    def step(
        self, state: tf.Tensor, action: tf.Tensor, key: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        _, speed, angle, spin = tf.unstack(state, axis=-1)
        force = tf.where(action == 1, FORCE, -FORCE)
        sin, cos = tf.sin(angle), tf.cos(angle)
        moment = POLE_MASS * HALF_LENGTH
        push = (force + moment * spin**2 * sin) / TOTAL_MASS
        inertia = HALF_LENGTH * (4 / 3 - POLE_MASS * cos**2 / TOTAL_MASS)
        spin_rate = (GRAVITY * sin - push * cos) / inertia
        speed_rate = push - moment * spin_rate * cos / TOTAL_MASS
        rates = tf.stack([speed, speed_rate, spin, spin_rate], -1)
        state = state + INTERVAL * rates
        position, angle = tf.abs(state[:, 0]), tf.abs(state[:, 2])
        terminated = (position > MAX_POSITION) | (angle > MAX_ANGLE)
        return state, tf.ones_like(position), terminated

    def observe(self, state: tf.Tensor) -> tf.Tensor:
        return state
