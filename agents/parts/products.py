"""Products of matrices whose gradients compile into quick programs."""

from agents.tools.graph.backend import tf

# XLA takes ten times as long to multiply by two or three columns as by four.
QUICK_COLUMNS = 4


def product(x: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """X W for `[row, in]` and `[in, out]`.

    With D for the gradient of the result, that of X is D Wᵀ. Where W has two
    or three columns, as that of a last layer may, some of zeros are added, so
    that D has them too.
    """
    columns = weights.shape[-1]
    if not 1 < columns < QUICK_COLUMNS:
        return tf.matmul(x, weights)
    wider = tf.pad(weights, [[0, 0], [0, QUICK_COLUMNS - columns]])
    return tf.matmul(x, wider)[:, :columns]
