"""Native environments stepped from Python, with the interface of `BatchEnv`."""

from typing import Any

import numpy as np

from agents.environments.native_batch_env import NativeBatchEnv
from agents.tools import nested
from agents.tools.graph.backend import tf
from agents.tools.nested import Nest


class NativeSteps:
    """Steps a batch of native environments in eager mode.

    For a few episodes, compiling a program takes longer than playing them.

    Attributes:
        lost: Mask of lost steps, always false.

    Args:
        batch_env: Environments.
    """

    def __init__(self, batch_env: NativeBatchEnv):
        self._batch_env = batch_env
        self.observation_space = batch_env.observation_space
        self.action_space = batch_env.action_space
        self.lost = np.zeros(len(batch_env), bool)

    def __len__(self) -> int:
        return len(self._batch_env)

    def reset(self) -> Any:
        """Start new episodes; returns the observations."""
        self._batch_env.reset()
        return self._arrays(self._batch_env.observ)

    def step(self, actions: np.ndarray) -> tuple:
        """Step all environments, and reset those whose episode ends; see `BatchEnv`."""
        failure = self._batch_env.failure()
        if failure is not None:
            raise failure
        return self._arrays(self._step(tf.constant(actions)))

    def cancel(self) -> None:
        """Make the next step raise `Cancelled`."""
        self._batch_env.cancel()

    def close(self) -> None:
        self._batch_env.close()

    @tf.function(autograph=False)
    def _step(self, actions: tf.Tensor) -> tuple:
        self._batch_env.step(actions)
        outcome = self._batch_env.transition
        return (
            self._batch_env.observ,
            outcome.reward,
            outcome.terminated,
            outcome.truncated,
            outcome.next_observ,
        )

    def _arrays(self, nest: Nest) -> Nest:
        return nested.map(np.asarray, nest)
