"""A falling block to be caught, seen as pixels."""

from typing import NamedTuple

import gymnasium as gym
import numpy as np

from agents.environments.native_env import NativeEnv
from agents.tools import errors, nested
from agents.tools.graph import random
from agents.tools.graph.backend import tf

# Pixels of the board along each side.
SIZE = 10

# Most channels, as settings may come from a stranger.
MOST_FRAMES = 64

# Pixels in a frame of each one of the board.
SCALE = 20


class State(NamedTuple):
    """Position of the block, and columns `[agent, frames]` of the paddle, the latest first."""

    row: tf.Tensor
    column: tf.Tensor
    paddle: tf.Tensor


class Catch(NativeEnv):
    """Move a paddle at the bottom to where a block is going to land.

    The board has 10×10 pixels, of which the block and the paddle are one each.
    The block falls by one each step from a random place at the top; the actions
    move the paddle, from the middle, to the left, not at all and to the right.
    After 9 steps the block is at the bottom, and the reward is 1 if the paddle
    is there, otherwise −1.

    The observation shows the board as bytes. It can have earlier ones as
    further channels, the last first; before the start of an episode stands its
    first frame.

    Mnih, Heess, Graves and Kavukcuoglu 2014, Recurrent models of visual
    attention; this form is that of Osband et al. 2020, Behaviour suite for
    reinforcement learning, on a square board.

    Args:
        frames: Number of channels, 1 to 64.
    """

    action_space = gym.spaces.Discrete(3)
    max_length = SIZE - 1

    def __init__(self, frames: int = 1):
        errors.require_integer('frames', frames, 1, MOST_FRAMES)
        self._frames = frames
        shape = SIZE, SIZE, frames
        self.observation_space = gym.spaces.Box(0, 255, shape, np.uint8)

    def reset(self, key: tf.Tensor, count: int) -> State:
        column = tf.cast(SIZE * random.uniform(key, (count,)), tf.int32)
        middle = tf.fill([count, self._frames], SIZE // 2)
        return State(tf.zeros_like(column), column, middle)

    def step(
        self, state: State, action: tf.Tensor, key: tf.Tensor
    ) -> tuple[State, tf.Tensor, tf.Tensor]:
        row = state.row + 1
        paddle = state.paddle[:, 0] + action - 1
        paddle = tf.clip_by_value(paddle, 0, SIZE - 1)
        outcome = tf.where(paddle == state.column, 1.0, -1.0)
        terminated = row == SIZE - 1
        reward = tf.where(terminated, outcome, 0.0)
        paddles = tf.concat([paddle[:, None], state.paddle[:, :-1]], 1)
        return State(row, state.column, paddles), reward, terminated

    def observe(self, state: State) -> tf.Tensor:
        index = tf.range(SIZE)
        rows, columns = index[:, None, None], index[:, None]
        frame = tf.range(self._frames)
        row = tf.maximum(state.row[:, None] - frame, 0)[:, None, None]
        column = state.column[:, None, None, None]
        block = (rows == row) & (columns == column)
        paddle = (rows == SIZE - 1) & (columns == state.paddle[:, None, None])
        return 255 * tf.cast(block | paddle, tf.uint8)

    def render(self, state: State) -> np.ndarray:
        batch = nested.map(lambda leaf: tf.convert_to_tensor(leaf)[None], state)
        board = self.observe(batch)[0, :, :, 0].numpy()
        frame = np.kron(board, np.ones((SCALE, SCALE), np.uint8))
        return np.stack([frame] * 3, -1)
