"""Weights and gradients as one vector."""

from collections.abc import Sequence
from typing import Any

from agents.tools.graph import vectors
from agents.tools.graph.backend import keras, tf


class Weights:
    """The weights of a network, to be read and changed as one vector.

    They belong to the network: this is no `tf.Module`, so that who has one of
    these does not seem to have the weights as well.

    Args:
        variables: The weights, variables of Keras or TensorFlow.
    """

    def __init__(self, variables: Sequence[Any]):
        self._variables = [v.value if isinstance(v, keras.Variable) else v for v in variables]
        self._names = [getattr(v, 'path', v.name) for v in variables]
        self._sizes = [v.shape.num_elements() for v in self._variables]

    @property
    def size(self) -> int:
        """How many numbers the weights are."""
        return sum(self._sizes)

    def read(self) -> tf.Tensor:
        """All weights as one vector."""
        return vectors.concat(self._variables)

    def assign(self, vector: tf.Tensor) -> None:
        """Set all weights."""
        for weight, part in self._pairs(vector):
            weight.assign(part)

    def subtract(self, vector: tf.Tensor) -> None:
        """Change all weights by what is subtracted from each."""
        for weight, part in self._pairs(vector):
            weight.assign_sub(part)

    def gradient(self, tape: tf.GradientTape, value: Any, factors: Any = None) -> tf.Tensor:
        """The gradient of a number, zero for weights it does not depend on.

        Args:
            tape: What has recorded how the number came about.
            value: The number; or tensors, of which the sum is meant.
            factors: What each of the tensors is multiplied by in the sum.
        """
        return vectors.concat(
            tape.gradient(
                value, self._variables, output_gradients=factors, unconnected_gradients='zero'
            )
        )

    def name_at(self, position: int) -> str:
        """The name of the weight that a position of the vector is within."""
        for name, size in zip(self._names, self._sizes, strict=True):
            position -= size
            if position < 0:
                return name
        raise IndexError('The vector of the weights is shorter than that.')

    def _pairs(self, vector: tf.Tensor) -> zip:
        parts = vectors.split(vector, self._variables)
        return zip(self._variables, parts, strict=True)
