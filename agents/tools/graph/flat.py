"""Tensors, weights and gradients as one flat vector."""

from collections.abc import Sequence
from typing import Any

from agents.tools.graph.backend import keras, tf


def concat(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Concatenate tensors into one vector."""
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)


def split(vector: tf.Tensor, like: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Split a vector into tensors with the shapes of others; the inverse of `concat`."""
    sizes = [tensor.shape.num_elements() for tensor in like]
    parts = tf.split(vector, sizes)
    return [tf.reshape(p, t.shape) for p, t in zip(parts, like, strict=True)]


class Weights:
    """Weights of a network, read and changed as one vector.

    No `tf.Module`, as the variables belong to the network.

    Args:
        variables: Weights, as variables of Keras or TensorFlow.
    """

    def __init__(self, variables: Sequence[Any]):
        self._variables = [v.value if isinstance(v, keras.Variable) else v for v in variables]
        self._names = [getattr(v, 'path', v.name) for v in variables]
        self._sizes = [v.shape.num_elements() for v in self._variables]

    @property
    def size(self) -> int:
        """Number of elements of all weights."""
        return sum(self._sizes)

    def read(self) -> tf.Tensor:
        """Return all weights as one vector."""
        return concat(self._variables)

    def assign(self, vector: tf.Tensor) -> None:
        """Set all weights from one vector."""
        for weight, part in self._pairs(vector):
            weight.assign(part)

    def subtract(self, vector: tf.Tensor) -> None:
        """Subtract a vector from all weights."""
        for weight, part in self._pairs(vector):
            weight.assign_sub(part)

    def gradient(self, tape: tf.GradientTape, value: Any, factors: Any = None) -> tf.Tensor:
        """Return the gradient of a scalar, zero for weights that it does not depend on.

        Args:
            tape: Tape that recorded the computation.
            value: Scalar, or tensors to be summed.
            factors: Factors of the tensors in the sum.
        """
        return concat(
            tape.gradient(
                value, self._variables, output_gradients=factors, unconnected_gradients='zero'
            )
        )

    def name_at(self, position: int) -> str:
        """Return the name of the weight at a position of the vector."""
        for name, size in zip(self._names, self._sizes, strict=True):
            position -= size
            if position < 0:
                return name
        raise IndexError('The position is beyond the weights.')

    def _pairs(self, vector: tf.Tensor) -> zip:
        parts = split(vector, self._variables)
        return zip(self._variables, parts, strict=True)
