"""The losses of proximal policy optimization."""

from agents.tools.graph.backend import tf


def clipped_surrogate(
    ratio: tf.Tensor, advantage: tf.Tensor, clip_range: float | tf.Tensor
) -> tf.Tensor:
    """−E[min(r Â, clip(r, 1 − ε, 1 + ε) Â)].

    Schulman et al. 2017, Proximal policy optimization algorithms, eq. 7.
    """
    clipped = tf.clip_by_value(ratio, 1 - clip_range, 1 + clip_range)
    return -tf.reduce_mean(tf.minimum(ratio * advantage, clipped * advantage))


def penalized_surrogate(
    ratio: tf.Tensor,
    advantage: tf.Tensor,
    kl: tf.Tensor,
    penalty: tf.Tensor,
    target: float,
    cutoff_factor: float,
    cutoff_coef: float,
) -> tf.Tensor:
    """−E[r Â] + p KL + c 1[KL > k t] (KL − k t)².

    The divergence is the mean over the minibatch. The last term keeps it from
    exceeding k times the target t by far within a single update.

    Schulman et al. 2017, eq. 8, and batch-ppo for the cutoff.
    """
    excess = tf.maximum(kl - cutoff_factor * target, 0.0)
    surrogate = tf.reduce_mean(ratio * advantage)
    return -surrogate + penalty * kl + cutoff_coef * excess**2


def kl_estimate(log_ratio: tf.Tensor) -> tf.Tensor:
    """E[(r − 1) − ln r], which is KL(old ‖ new) on average over old actions.

    It needs the probabilities of the actions alone, is never negative and
    varies less than −ln r. Schulman 2020, Approximating KL divergence.
    """
    return tf.reduce_mean(tf.math.expm1(log_ratio) - log_ratio)


def adapted_penalty(penalty: tf.Tensor, kl: tf.Tensor, target: float) -> tf.Tensor:
    """The penalty for the next update.

    Half as much again where the policy changed too much, KL > 1.3 t, and
    divided by as much where too little, KL < 0.7 t. Kept within [1e-3, 1e3],
    since from zero it could never return.
    """
    penalty = tf.where(kl > 1.3 * target, penalty * 1.5, penalty)
    penalty = tf.where(kl < 0.7 * target, penalty / 1.5, penalty)
    return tf.clip_by_value(penalty, 1e-3, 1e3)
