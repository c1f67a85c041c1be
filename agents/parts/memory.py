"""The record of a rollout."""

from typing import Any

from agents.parts import soundness
from agents.tools import layout
from agents.tools.graph.backend import tf


class RolloutMemory(tf.Module):
    """Keeps what happened in the steps since the last update.

    Episodes run on from one rollout to the next, and every row is a real step:
    nothing is padded.

    Args:
        specs: Nest of `layout.Spec` of one agent's step.
        steps: Number of steps in a rollout.
        num_agents: Number of agents.
    """

    def __init__(self, specs: Any, steps: int, num_agents: int):
        super().__init__()
        self._layout = layout.Layout(specs)
        self._step = tf.Variable(0, trainable=False)
        self._matrices = [
            tf.Variable(
                tf.zeros((steps, num_agents, width), kind), trainable=False
            )
            for kind, width in self._layout.groups
        ]

    @property
    def length(self) -> tf.Tensor:
        """How many steps have been recorded."""
        return self._step.read_value()

    def append(self, nest: Any) -> None:
        """Record a step, leaves `[agent, ...]`."""
        for variable, matrix in zip(
            self._matrices, self._layout.pack(nest), strict=True
        ):
            row = tf.IndexedSlices(matrix[None], self._step[None])
            variable.scatter_update(row)
        self._step.assign_add(1)

    def data(self) -> Any:
        """The record, leaves `[time, agent, ...]`."""
        return self._layout.unpack(self._matrices)

    def is_sound(self) -> tf.Tensor:
        """Whether all that was recorded can be learnt from."""
        return soundness.is_sound(self._matrices)

    def clear(self) -> None:
        """Begin a new rollout."""
        self._step.assign(0)
