"""Losses that several algorithms share, and measures of fit."""

from agents.parts import moments
from agents.tools.graph.backend import tf
from agents.tools.graph.communicator import ALONE, Communicator


def score_loss(log_prob: tf.Tensor, advantage: tf.Tensor) -> tf.Tensor:
    """−E[Â ln π(a|s)], whose gradient is the score-function estimate.

    The mean is over rows, not over episodes. So the gradients of parts of a batch, weighted by
    their number of rows, average to the gradient of the whole, however long the episodes are.

    Williams 1992, Simple statistical gradient-following algorithms for connectionist
    reinforcement learning.
    """
    return -tf.reduce_mean(advantage * log_prob)


def value_loss(
    value: tf.Tensor, target: tf.Tensor, old_value: tf.Tensor, clip_range: float | None
) -> tf.Tensor:
    """½ E[(R − V)²], or the larger of that and the loss with V clipped to V_old ± ε."""
    error = (target - value) ** 2
    if clip_range is not None:
        change = tf.clip_by_value(value - old_value, -clip_range, clip_range)
        error = tf.maximum(error, (target - old_value - change) ** 2)
    return 0.5 * tf.reduce_mean(error)


def explained_variance(
    value: tf.Tensor, target: tf.Tensor, ranks: Communicator = ALONE
) -> tf.Tensor:
    """1 − Var[R − V] / Var[R]: 1 is perfect, 0 no better than a constant."""
    _, residual = moments.mean_and_variance(target - value, ranks=ranks)
    _, variance = moments.mean_and_variance(target, ranks=ranks)
    return tf.cast(1 - residual / (variance + 1e-8), tf.float32)
