"""Gradients of means over rows, and a guard against those that are not finite."""

from collections.abc import Callable
from typing import Any

from agents.tools import errors, nested
from agents.tools.graph import loops
from agents.tools.graph.backend import tf
from agents.tools.graph.communicator import ALONE, Communicator
from agents.tools.graph.flat import Weights
from agents.tools.nested import Nest

# Consecutive gradients that may be not finite before a training ends.
MAX_SKIPPED = 20


def of_rows(
    loss: Callable[[Any], dict[str, Any]],
    weights: Weights,
    rows: Nest,
    part_rows: int | None = None,
    ranks: Communicator = ALONE,
) -> tuple[tf.Tensor, dict[str, Any]]:
    """The gradient of a loss that is a mean over rows.

    Args:
        loss: Function of rows that returns their mean `loss` and other means: metrics for the log
            or statistics of any shape for the optimizer.
        weights: Weights to differentiate by.
        rows: Nest of tensors `[row, ...]`.
        part_rows: Maximum rows of a part, see `mean_of_parts`.
        ranks: Ranks to average over.

    Returns:
        Gradient as one vector, and the means that the loss returned.
    """

    def part(some: Nest) -> tuple[tf.Tensor, dict[str, Any]]:
        with tf.GradientTape() as tape:
            means = loss(some)
        return weights.gradient(tape, means['loss']), means

    return mean_of_parts(part, rows, part_rows, ranks)


def fisher_product(
    describe: Callable[[Any], Any],
    weights: Weights,
    vector: tf.Tensor,
    rows: Nest,
    part_rows: int | None = None,
    ranks: Communicator = ALONE,
) -> tf.Tensor:
    """Fisher-vector product, without the Fisher matrix itself.

    With the Jacobian J of the parameters p of the distributions by the weights, the Fisher matrix
    is the mean over rows of Jᵀ M J, where M is the Hessian of KL(p ‖ p') by p', at p' = p. It is
    also the Hessian of the mean KL divergence by the weights; differentiating that twice takes one
    and a half times as long.

    Args:
        describe: Function of rows that returns their action distributions.
        weights: Weights of the policy.
        vector: Vector to multiply by, as long as the weights.
        rows: Nest of tensors `[row, ...]`.
        part_rows: Maximum rows of a part, see `mean_of_parts`.
        ranks: Ranks to average over.
    """

    def part(some: Nest) -> tf.Tensor:
        with tf.GradientTape(persistent=True) as tape:
            distribution = describe(some)
        parameters = nested.flatten(distribution)
        # J v is the gradient of uᵀ J v by u, at any u.
        nowhere = [tf.zeros_like(x) for x in parameters]
        with tf.GradientTape() as along:
            along.watch(nowhere)
            pulled = weights.gradient(tape, parameters, nowhere)
            product = tf.reduce_sum(pulled * vector)
        moved = along.gradient(product, nowhere)
        return weights.gradient(tape, parameters, _curvature_product(distribution, moved))

    return mean_of_parts(part, rows, part_rows, ranks)


def _curvature_product(distribution: Any, moved: list[tf.Tensor]) -> list[tf.Tensor]:
    """Multiply the Hessian M of the mean KL divergence by changes of parameters."""
    here = nested.map(tf.stop_gradient, distribution)
    there = nested.map(tf.identity, here)
    parameters = nested.flatten(there)
    with tf.GradientTape() as outer:
        outer.watch(parameters)
        with tf.GradientTape() as inner:
            inner.watch(parameters)
            divergence = tf.reduce_mean(here.kl(there))
        slopes = inner.gradient(divergence, parameters)
        pairs = zip(slopes, moved, strict=True)
        product = tf.add_n([tf.reduce_sum(s * m) for s, m in pairs])
    return outer.gradient(product, parameters)


def mean_of_parts(
    function: Callable[[Any], Any],
    rows: Nest,
    part_rows: int | None = None,
    ranks: Communicator = ALONE,
) -> Nest:
    """Compute means over rows in parts that fit the cache, one after another.

    See `sequences.rows_per_part` for their size. The function may use gradients and second
    gradients, as none flows through the loop.

    Args:
        function: Function of rows that returns a nest of means over them.
        rows: Nest of tensors `[row, ...]`.
        part_rows: Maximum rows of a part, by default all.
        ranks: Ranks to average over.
    """
    count = nested.flatten(rows)[0].shape[0]
    size = _divisor(count, part_rows or count)

    def part(number: tf.Tensor) -> Nest:
        begin = number * size
        return function(nested.map(lambda x: _slice(x, begin, size), rows))

    if size == count:
        return ranks.mean(function(rows))
    total = loops.add_up(part, count // size)
    return ranks.mean(nested.map(lambda x: x * (size / count), total))


class NonFiniteGuard(tf.Module):
    """Counts consecutive gradients that are not finite; none of them is applied.

    A mean over ranks that is not finite is so on all of them, so that all ranks count alike.

    Args:
        weights: Weights that the gradients belong to.
    """

    def __init__(self, weights: Weights):
        super().__init__()
        self._weights = weights
        # Their number, and the position of the first element that was not finite.
        self._skipped = tf.Variable(0, trainable=False)
        self._culprit = tf.Variable(0, trainable=False)

    @property
    def skipped(self) -> tf.Tensor:
        """Number of consecutive gradients that were not finite."""
        return self._skipped.read_value()

    def count(self, gradient: tf.Tensor, norm: tf.Tensor) -> tf.Tensor:
        """Count a gradient by its norm; returns whether it is finite."""
        finite = tf.math.is_finite(norm)

        def find_first() -> tf.Tensor:
            # Squared as in the norm, as squares may overflow.
            finite = tf.math.is_finite(gradient**2)
            return tf.argmin(finite, output_type=tf.int32)

        self._culprit.assign(tf.cond(finite, self._culprit.read_value, find_first))
        self._skipped.assign(tf.where(finite, 0, self._skipped + 1))
        return finite

    def saved(self) -> dict[str, Any]:
        """Return the contents of a checkpoint by name."""
        return {'skipped': self._skipped, 'skipped_weight': self._culprit}

    def assign(self, skipped: tf.Tensor) -> None:
        """Set the number of consecutive gradients that were not finite."""
        self._skipped.assign(tf.cast(skipped, tf.int32))

    def culprit(self) -> str:
        """Return the name of the weight whose gradient was not finite."""
        return self._weights.name_at(int(self._culprit))

    def failure(self) -> Exception | None:
        """Return an error if too many gradients in a row were not finite."""
        skipped = int(self._skipped)
        if skipped < MAX_SKIPPED:
            return None
        return errors.UserError(
            f'{skipped} gradients in a row were not finite, the last at the weight '
            f'{self.culprit()!r}. None of them was applied. Lower the learning rate, or check '
            'the scale of the rewards and the outputs of the network.'
        )


def _slice(x: tf.Tensor, begin: tf.Tensor, size: int) -> tf.Tensor:
    rest = x.shape[1:]
    return tf.slice(x, [begin, *[0] * rest.rank], [size, *rest])


def _divisor(count: int, most: int) -> int:
    """Return the largest divisor of a number that is at most another."""
    return max(n for n in range(1, min(count, most) + 1) if count % n == 0)
