"""Means and variances that are right however far from zero the values are."""

from agents.tools.graph.backend import tf
from agents.tools.graph.communicator import ALONE, Communicator


def mean_and_variance(
    values: tf.Tensor,
    shape: tuple[int, ...] = (),
    ranks: Communicator = ALONE,
    counts: tf.Tensor | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """The mean and the variance of values `[..., *shape]`, in float64.

    A compiled sum adds one value after the other. In float32 that goes astray,
    so that the mean of 131,072 values near 3e4 with a deviation of 1 is off by
    as much as 7. Float64 has the digits to add them up without an error.

    Args:
        values: The values of this rank, as many as on any other.
        shape: Shape of one value.
        ranks: Those whose values are meant.
        counts: Which values count, a mask of single numbers; by default all.
    """
    values = tf.cast(values, tf.float64)
    if counts is None:
        mean = ranks.mean(_mean(values, len(shape)))
        return mean, ranks.mean(_mean((values - mean) ** 2, len(shape)))
    assert len(shape) == 0
    some = tf.maximum(share(counts, ranks), 1e-300)  # Not zero by zero.
    mean = ranks.mean(_mean(tf.where(counts, values, 0.0), 0)) / some
    squares = tf.where(counts, (values - mean) ** 2, 0.0)
    return mean, ranks.mean(_mean(squares, 0)) / some


def share(mask: tf.Tensor, ranks: Communicator = ALONE) -> tf.Tensor:
    """Where a mask is true, as a part of all its elements on all ranks."""
    return ranks.mean(_mean(tf.cast(mask, tf.float64), 0))


def _mean(values: tf.Tensor, rank: int) -> tf.Tensor:
    """Take the mean over one axis after the other until so many are left.

    Over several at once, compiled code reads column by column, which takes
    twice the time for many of them.
    """
    while values.shape.rank > rank:
        values = tf.reduce_mean(values, 0)
    return values
