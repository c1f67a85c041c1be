"""The mean of numbers that arrive over time."""

from typing import Any

from agents.tools.graph.backend import tf


class StreamingMean(tf.Module):
    """Adds up values in the graph until the mean is taken.

    Args:
        shape: Shape of one value.
        dtype: Type of the values.
    """

    def __init__(self, shape: tuple[int, ...] = (), dtype: Any = tf.float32):
        super().__init__()
        self._sum = tf.Variable(tf.zeros(shape, dtype), trainable=False)
        self._count = tf.Variable(tf.zeros((), dtype), trainable=False)

    @property
    def value(self) -> tf.Tensor:
        """The mean of the values since the last `clear`, zero if none."""
        return self._sum / tf.maximum(self._count, 1)

    @property
    def count(self) -> tf.Tensor:
        """The number of values since the last `clear`."""
        return self._count.read_value()

    def submit(self, values: tf.Tensor, mask: tf.Tensor | None = None) -> None:
        """Add one value, or a batch of them.

        Args:
            values: Tensor of the shape of one value, or `[batch, ...]`.
            mask: Which of a batch to add, boolean `[batch]`.
        """
        values = tf.cast(values, self._sum.dtype)
        if values.shape.rank == self._sum.shape.rank:
            values = values[None]
        if mask is None:
            mask = tf.ones(values.shape[:1], bool)
        # Selected rather than multiplied, as zero times NaN is NaN.
        rows = tf.reshape(mask, [-1] + [1] * self._sum.shape.rank)
        values = tf.where(rows, values, tf.zeros_like(values))
        self._sum.assign_add(tf.reduce_sum(values, 0))
        self._count.assign_add(tf.reduce_sum(tf.cast(mask, values.dtype)))

    def clear(self) -> tf.Tensor:
        """Take the mean and begin anew."""
        value = self.value
        self._sum.assign(tf.zeros_like(self._sum))
        self._count.assign(tf.zeros_like(self._count))
        return value
