"""Linear equations whose matrix is only known by its products."""

from collections.abc import Callable

from agents.tools.graph.backend import tf

# The squared norm of a residual that is as good as none.
TOLERANCE = 1e-10


def solve(
    product: Callable[[tf.Tensor], tf.Tensor],
    vector: tf.Tensor,
    steps: int,
    tolerance: float = TOLERANCE,
) -> tf.Tensor:
    """Find x with A x = b by conjugate gradients, begun at zero.

    In exact arithmetic it is found after as many steps as A has different
    eigenvalues; before that, x is the best one within the directions that were
    looked at.

    Hestenes and Stiefel 1952, Methods of conjugate gradients for solving linear
    systems.

    Args:
        product: Multiplies a vector by the matrix A, symmetric and positive.
        vector: The right-hand side b.
        steps: How many steps to take at most, of a product each.
        tolerance: The squared norm of b − A x at which to stop.
    """

    def step(
        number: tf.Tensor,
        x: tf.Tensor,
        residual: tf.Tensor,
        direction: tf.Tensor,
        square: tf.Tensor,
    ) -> tuple:
        image = product(direction)
        length = square / _dot(direction, image)
        residual -= length * image
        new = _dot(residual, residual)
        turned = residual + new / square * direction
        return number + 1, x + length * direction, residual, turned, new

    _, x, *_ = tf.while_loop(
        lambda number, x, residual, direction, square: (number < steps) & (square > tolerance),
        step,
        (tf.constant(0), tf.zeros_like(vector), vector, vector, _dot(vector, vector)),
        parallel_iterations=1,
    )
    return x


def _dot(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(x * y)
