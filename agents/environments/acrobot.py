"""Two links to be swung up by the joint between them."""

import math

import gymnasium as gym
import numpy as np

from agents.environments.native_env import NativeEnv
from agents.tools.graph import random
from agents.tools.graph.backend import tf

TURN = 2 * math.pi
GRAVITY = 9.8
INTERVAL = 0.2
MAX_SPEED = 4 * math.pi
MAX_LOWER_SPEED = 9 * math.pi
BOUNDS = np.array([1, 1, 1, 1, MAX_SPEED, MAX_LOWER_SPEED], np.float32)


class Acrobot(NativeEnv):
    """Swing the tip of two links above a line, by a torque between them.

    The state is the angle of the upper link, zero where it hangs, that of the
    lower link relative to it, and their angular speeds; the observation has
    the cosine and the sine of each angle instead. See `_rates` for the
    dynamics, which one step of the classic Runge-Kutta method integrates. The
    reward is −1 for every step but the last.

    Sutton 1996, Generalization in reinforcement learning: successful examples
    using sparse coarse coding. The same as Acrobot-v1 of Gymnasium, step by
    step; over a whole episode the motion is chaotic, and two programs that
    round differently part ways: with 32 bits here and 64 there, observations
    are 1e-4 apart after 72 steps at the earliest, after 150 in a typical
    episode and in a third of them never. More bits would only delay it.
    """

    observation_space = gym.spaces.Box(-BOUNDS, BOUNDS)
    action_space = gym.spaces.Discrete(3)
    max_length = 500
    twin = 'Acrobot-v1'

    def reset(self, key: tf.Tensor, count: int) -> tf.Tensor:
        return 0.2 * random.uniform(key, (count, 4)) - 0.1

    def step(
        self, state: tf.Tensor, action: tf.Tensor, key: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        torque = tf.cast(action - 1, tf.float32)
        one = _rates(state, torque)
        two = _rates(state + INTERVAL / 2 * one, torque)
        three = _rates(state + INTERVAL / 2 * two, torque)
        four = _rates(state + INTERVAL * three, torque)
        state += INTERVAL / 6 * (one + 2 * two + 2 * three + four)
        upper, lower, speed, lower_speed = tf.unstack(state, axis=-1)
        upper, lower = _within_turn(upper), _within_turn(lower)
        speed = tf.clip_by_value(speed, -MAX_SPEED, MAX_SPEED)
        lower_speed = tf.clip_by_value(lower_speed, -MAX_LOWER_SPEED, MAX_LOWER_SPEED)
        state = tf.stack([upper, lower, speed, lower_speed], -1)
        terminated = -tf.cos(upper) - tf.cos(upper + lower) > 1
        return state, tf.where(terminated, 0.0, -1.0), terminated

    def observe(self, state: tf.Tensor) -> tf.Tensor:
        upper, lower, speed, lower_speed = tf.unstack(state, axis=-1)
        angles = tf.cos(upper), tf.sin(upper), tf.cos(lower), tf.sin(lower)
        return tf.stack([*angles, speed, lower_speed], -1)


def _rates(state: tf.Tensor, torque: tf.Tensor) -> tf.Tensor:
    """Return the time derivative of the state.

    The links have length, mass and moment of inertia 1 and their mass in the
    middle. With the angles θ₁ and θ₂, the torque τ, and

        d₁ = 7/2 + cos θ₂
        d₂ = 5/4 + ½ cos θ₂
        φ₂ = ½ g sin(θ₁ + θ₂)
        φ₁ = −(½ θ̇₂² + θ̇₁ θ̇₂) sin θ₂ + 3/2 g sin θ₁ + φ₂,

    the accelerations are

        θ̈₂ = (τ + φ₁ d₂ / d₁ − ½ θ̇₁² sin θ₂ − φ₂) / (5/4 − d₂² / d₁)
        θ̈₁ = −(d₂ θ̈₂ + φ₁) / d₁.

    Sutton and Barto 1998, Reinforcement learning: an introduction, section
    11.3.
    """
    upper, lower, speed, lower_speed = tf.unstack(state, axis=-1)
    sin, cos = tf.sin(lower), tf.cos(lower)
    d1, d2 = 3.5 + cos, 1.25 + 0.5 * cos
    phi2 = 0.5 * GRAVITY * tf.sin(upper + lower)
    phi1 = 1.5 * GRAVITY * tf.sin(upper) + phi2
    phi1 -= (0.5 * lower_speed + speed) * lower_speed * sin
    ratio = d2 / d1
    force = torque + ratio * phi1 - 0.5 * speed**2 * sin - phi2
    lower_rate = force / (1.25 - d2 * ratio)
    rate = -ratio * lower_rate - phi1 / d1
    return tf.stack([speed, lower_speed, rate, lower_rate], -1)


def _within_turn(angle: tf.Tensor) -> tf.Tensor:
    """Wrap an angle to [−π, π]."""
    return angle - TURN * tf.round(angle / TURN)
