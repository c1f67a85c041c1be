"""A cue to be remembered until it is asked for."""

from typing import NamedTuple

import gymnasium as gym
import numpy as np

from agents.environments.native_env import NativeEnv
from agents.tools import errors, nested
from agents.tools.graph import random
from agents.tools.graph.backend import tf

# Limits for settings that may come from a stranger.
MOST_STEPS, MOST_SYMBOLS = 1_000_000, 1_000

# Pixels of a symbol in a frame.
TILE = 64


class State(NamedTuple):
    """The symbol to remember and the steps taken, integers `[agent]`."""

    cue: tf.Tensor
    time: tf.Tensor


class Memory(NativeEnv):
    """Repeat in the last step the symbol that the first one showed.

    An episode of length 4 with the symbols A and B:

        observation   A    blank  blank  question
        action        any  any    any    A or B
        reward        0    0      0      1 for A, −1 for B

    Observations are one-hot vectors of the symbols, the blank and the question.
    Without a memory one can but guess, which among two symbols scores 0 on
    average.

    The T-maze of Bakker 2002, Reinforcement learning with long short-term
    memory, without the corridor.

    Args:
        length: Steps of an episode, 2 to 1,000,000: a cue and a question.
        symbols: Number of symbols, 2 to 1,000.
    """

    def __init__(self, length: int = 5, symbols: int = 2):
        errors.require_integer('length', length, 2, MOST_STEPS)
        errors.require_integer('symbols', symbols, 2, MOST_SYMBOLS)
        self._length, self._symbols = length, symbols
        size = symbols + 2
        self.observation_space = gym.spaces.Box(0.0, 1.0, (size,), np.float32)
        self.action_space = gym.spaces.Discrete(symbols)
        self.max_length = length

    def reset(self, key: tf.Tensor, count: int) -> State:
        cue = self._symbols * random.uniform(key, (count,))
        return State(tf.cast(cue, tf.int32), tf.zeros(count, tf.int32))

    def step(
        self, state: State, action: tf.Tensor, key: tf.Tensor
    ) -> tuple[State, tf.Tensor, tf.Tensor]:
        terminated = state.time == self._length - 1
        outcome = tf.where(action == state.cue, 1.0, -1.0)
        reward = tf.where(terminated, outcome, 0.0)
        return state._replace(time=state.time + 1), reward, terminated

    def observe(self, state: State) -> tf.Tensor:
        blank, question = self._symbols, self._symbols + 1
        later = tf.where(state.time < self._length - 1, blank, question)
        shown = tf.where(state.time == 0, state.cue, later)
        return tf.one_hot(shown, self._symbols + 2)

    def render(self, state: State) -> np.ndarray:
        """A row of squares, one for each element of the observation."""
        batch = nested.map(lambda leaf: tf.convert_to_tensor(leaf)[None], state)
        row = np.uint8(255 * self.observe(batch).numpy())
        frame = np.kron(row, np.ones((TILE, TILE), np.uint8))
        return np.stack([frame] * 3, -1)
