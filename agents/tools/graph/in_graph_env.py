"""Single environment as operations of a graph."""

from typing import Any

import gymnasium as gym

from agents.tools import nested
from agents.tools.batch.batch_env import BatchEnv
from agents.tools.graph.backend import tf
from agents.tools.graph.in_graph_batch_env import InGraphBatchEnv
from agents.tools.nested import Nest
from agents.tools.transition import Transition
from agents.tools.workers.external_process import ExternalProcess


class InGraphEnv(tf.Module):
    """An `InGraphBatchEnv` of one environment, without the batch dimension.

    Args:
        env: The environment, perhaps an `ExternalProcess`.
    """

    def __init__(self, env: gym.Env | ExternalProcess):
        super().__init__()
        self._batch = InGraphBatchEnv(BatchEnv([env]))
        self._step = tf.Variable(0, dtype=tf.int64, trainable=False)

    def __getattr__(self, name: str) -> Any:
        if name.startswith('_'):
            raise AttributeError(f'InGraphEnv has no attribute {name!r}.')
        return getattr(self._batch, name)

    @property
    def step(self) -> tf.Tensor:
        """Number of steps since the object was created.

        Not reset with the environment, for schedules and logs.
        """
        return self._step.read_value()

    @property
    def observ(self) -> Nest:
        return self._only(self._batch.observ)

    @property
    def reward(self) -> tf.Tensor:
        return self._only(self._batch.reward)

    @property
    def done(self) -> tf.Tensor:
        return self._only(self._batch.done)

    @property
    def begins(self) -> tf.Tensor:
        return self._only(self._batch.begins)

    @property
    def transition(self) -> Transition:
        return self._only(self._batch.transition)

    def simulate(self, action: tf.Tensor) -> None:
        """Step the environment; `observ` and `transition` change."""
        self._step.assign_add(1)
        self._batch.simulate(action[None])

    def reset(self) -> None:
        """Start a new episode."""
        self._batch.reset()

    def close(self) -> None:
        self._batch.close()

    def _only(self, nest: Nest) -> Nest:
        return nested.map(lambda leaf: leaf[0], nest)
