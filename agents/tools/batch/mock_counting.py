"""Environments for tests that count, and do what they are told."""

import os
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from agents.tools.nested import Nest


class Counting(gym.Env):
    """Observes the number of the episode and its step; 10 × step as reward.

    Episodes end after a number of steps, by termination if it is even.

    Attributes:
        actions: The actions so far.
        closed: Whether it has been closed.

    Args:
        length: The number of steps.
    """

    observation_space = gym.spaces.Box(0.0, 100.0, (2,), np.float32)
    action_space: gym.Space = gym.spaces.Discrete(3)

    def __init__(self, length: int):
        self.length = length
        self.episode = self.time = 0
        self.actions: list[Any] = []
        self.closed = False

    def reset(
        self, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[np.ndarray, dict]:
        self.episode, self.time = self.episode + 1, 0
        return self.observ(), {}

    def step(self, action: Nest) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.actions.append(action)
        self.time += 1
        over, even = self.time == self.length, self.length % 2 == 0
        reward = 10.0 * self.time
        return self.observ(), reward, over and even, over and not even, {}

    def close(self) -> None:
        self.closed = True

    def pid(self) -> int:
        return os.getpid()

    def observ(self) -> np.ndarray:
        return np.array([self.episode, self.time], np.float32)


class Acting(Counting):
    """Has a space of actions of one's choice, and does something in steps.

    Args:
        action_space: The space.
        act: What it does.
    """

    def __init__(
        self, action_space: gym.Space = Counting.action_space, act: Callable[[], Any] = bool
    ):
        super().__init__(length=100)
        self.action_space = action_space
        self.act = act

    def step(self, action: Nest) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.act()
        return super().step(action)


class Replying(Counting):
    """Returns what it is given in its steps or resets.

    Args:
        step: What steps return, or None if they are right.
        reset: What resets return.
    """

    observation_space = gym.spaces.Box(-9.0, 9.0, (4,), np.float32)

    def __init__(self, step: Any = None, reset: Any = None):
        super().__init__(length=100)
        self.replies = step, reset

    def reset(self, **kwargs: Any) -> Any:
        reply = self.replies[1]
        return (np.zeros(4, np.float32), {}) if reply is None else reply

    def step(self, action: Nest) -> Any:
        observ = np.zeros(4, np.float32)
        return self.replies[0] or (observ, 0.0, False, False, {})
