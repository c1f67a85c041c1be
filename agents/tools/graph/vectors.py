"""Tensors laid behind each other in one vector."""

from collections.abc import Sequence

from agents.tools.graph.backend import tf


def concat(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Lay tensors behind each other in a vector."""
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)


def split(vector: tf.Tensor, like: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """The inverse of `concat`; shapes are those of other tensors."""
    sizes = [tensor.shape.num_elements() for tensor in like]
    parts = tf.split(vector, sizes)
    return [tf.reshape(p, t.shape) for p, t in zip(parts, like, strict=True)]
