"""An environment for tests that counts."""

import gymnasium as gym
import numpy as np

from agents.tools.nested import Nest


class MockEnvironment(gym.Env):
    """Returns random observations and rewards for episodes of random length.

    An episode is given a duration, the number of steps that it will take, and
    terminates after as many.

    Attributes:
        steps: The number of steps that each episode so far has taken.
        durations: The duration of each.

    Args:
        observ_shape: Shape of the observations.
        action_shape: Shape of the actions.
        min_duration: The shortest duration.
        max_duration: The longest duration.
    """

    def __init__(
        self,
        observ_shape: tuple[int, ...] = (3,),
        action_shape: tuple[int, ...] = (2,),
        min_duration: int = 2,
        max_duration: int = 5,
    ):
        self.observation_space = gym.spaces.Box(0.0, 1.0, observ_shape, np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, action_shape, np.float32)
        self._durations = min_duration, max_duration
        self.steps: list[int] = []
        self.durations: list[int] = []

    def reset(
        self, *, seed: int | None = None, options: dict | None = None
    ) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        low, high = self._durations
        self.durations.append(int(self.np_random.integers(low, high + 1)))
        self.steps.append(0)
        return self._observ(), {}

    def step(self, action: Nest) -> tuple[np.ndarray, float, bool, bool, dict]:
        if action not in self.action_space:
            raise ValueError(f'{action} is not in {self.action_space}.')
        if self.steps[-1] >= self.durations[-1]:
            raise RuntimeError('The episode is over; reset the environment.')
        self.steps[-1] += 1
        over = self.steps[-1] >= self.durations[-1]
        return self._observ(), float(self.np_random.uniform()), over, False, {}

    def _observ(self) -> np.ndarray:
        shape = self.observation_space.shape
        return np.asarray(self.np_random.uniform(size=shape), np.float32)
