"""Products of matrices whose gradients compile into quick programs."""

from collections.abc import Callable

from agents.tools.graph.backend import tf

# Up to so many columns, a sum of outer products takes a tenth of the time that
# a product of matrices does, as it becomes part of what comes before and after.
FEW_COLUMNS = 3

# Up to so many columns, the columns of a product are put side by side quickly.
SOME_COLUMNS = 16


@tf.custom_gradient
def product(
    x: tf.Tensor, weights: tf.Tensor
) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]]:
    """X W for `[row, in]` and `[in, out]`.

    With D for the gradient of the result, those of its factors are D Wᵀ and
    Xᵀ D. Before it multiplies by Xᵀ from the left, XLA lays it out anew, which
    takes longer than the product if there are thousands of rows and few
    columns in D, as those of a last layer. There it is the rows of Dᵀ X, for
    which D is laid out anew instead, that become the columns of the result.
    Transposed, XLA would make Xᵀ D of it again.
    """

    def gradient(change: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return _by_transposed(change, weights), _transposed_by(x, change)

    return tf.matmul(x, weights), gradient


def _by_transposed(change: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """D Wᵀ."""
    columns = change.shape[-1]
    if columns > FEW_COLUMNS:
        return tf.matmul(change, weights, transpose_b=True)
    return tf.add_n(
        [change[:, i : i + 1] * weights[:, i] for i in range(columns)]
    )


def _transposed_by(x: tf.Tensor, change: tf.Tensor) -> tf.Tensor:
    """Xᵀ D."""
    columns = change.shape[-1]
    if columns == 1 or columns > min(SOME_COLUMNS, x.shape[-1]):
        return tf.matmul(x, change, transpose_a=True)
    rows = tf.matmul(change, x, transpose_a=True)
    return tf.stack(tf.unstack(rows), 1)
