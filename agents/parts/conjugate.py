"""Conjugate gradients: linear equations given by matrix-vector products."""

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
    """Solve A x = b by conjugate gradients, starting at zero.

    In exact arithmetic the solution takes as many steps as A has distinct eigenvalues; before that,
    x is the best one in the Krylov subspace so far.

    Hestenes and Stiefel 1952, Methods of conjugate gradients for solving linear systems.

    Args:
        product: Multiplies a vector by the matrix A, which is symmetric and positive definite.
        vector: Right-hand side b.
        steps: Maximum number of steps, of one product each.
        tolerance: Squared norm of the residual b − A x at which to stop.
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
