"""An algorithm for tests that does nothing."""

from typing import Any

from agents.tools import nested, spaces
from agents.tools.graph.backend import tf
from agents.tools.nested import Nest
from agents.tools.transition import Transition


class MockAlgorithm(tf.Module):
    """Performs zeros and counts the calls of each method.

    Attributes:
        calls: Variable of each method.
        convolutional: Whether XLA must not compile around it.

    Args:
        batch_env: Environments to act in.
    """

    convolutional = False

    def __init__(self, batch_env: Any):
        super().__init__()
        (action,) = nested.flatten(spaces.specs(batch_env.action_space))
        self._action = tf.zeros((len(batch_env), *action.shape), action.dtype)
        self.calls = {
            name: tf.Variable(0, trainable=False)
            for name in ('begin_episode', 'perform', 'experience', 'end_episode', 'update')
        }

    def begin_episode(self, begins: tf.Tensor) -> None:
        self.calls['begin_episode'].assign_add(1)

    def perform(self, observ: Nest) -> tf.Tensor:
        self.calls['perform'].assign_add(1)
        return self._action

    def experience(self, observ: Nest, action: tf.Tensor, transition: Transition) -> None:
        self.calls['experience'].assign_add(1)

    def end_episode(self, done: tf.Tensor) -> None:
        self.calls['end_episode'].assign_add(1)

    def update(self) -> dict[str, tf.Tensor]:
        self.calls['update'].assign_add(1)
        return {}

    def is_finite(self) -> tf.Tensor:
        return tf.constant(True)
