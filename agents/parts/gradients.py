"""Gradients of means over rows, and those that are of no use."""

from collections.abc import Callable
from typing import Any

from agents.parts.flat import Weights
from agents.tools import errors, nested
from agents.tools.graph import loops
from agents.tools.graph.backend import tf
from agents.tools.graph.communicator import ALONE, Communicator
from agents.tools.nested import Nest

# How many gradients in a row may be useless.
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
        loss: Returns the mean `loss` of some rows, and other means: numbers
            for the log, or statistics of any shape for who applies the
            gradient.
        weights: What to differentiate by.
        rows: Nest of tensors `[row, ...]`.
        part_rows: Rows of a part at most, see `mean_of_parts`.
        ranks: Those whose rows are meant.

    Returns:
        The gradient as one vector, and what the loss returns.
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
    """The Fisher matrix of distributions, times a vector; never the matrix.

    With the Jacobian J of their parameters p by the weights, it is the mean
    over rows of Jᵀ M J, where M is the Hessian of KL(p ‖ p') by p', at p. This
    is also the Hessian of the mean divergence by the weights. To differentiate
    that twice gives the same, but takes one and a half times as long, as it
    goes through the network once more in each direction.

    Args:
        describe: Returns the distributions of some rows.
        weights: What they depend on.
        vector: What to multiply by, as long as the weights.
        rows: Nest of tensors `[row, ...]`.
        part_rows: Rows of a part at most, see `mean_of_parts`.
        ranks: Those whose rows are meant.
    """

    def part(some: Nest) -> tf.Tensor:
        with tf.GradientTape(persistent=True) as tape:
            distribution = describe(some)
        parameters = nested.flatten(distribution)
        # J v is how uᵀ J v grows with u, at whatever u.
        nowhere = [tf.zeros_like(x) for x in parameters]
        with tf.GradientTape() as along:
            along.watch(nowhere)
            pulled = weights.gradient(tape, parameters, nowhere)
            product = tf.reduce_sum(pulled * vector)
        moved = along.gradient(product, nowhere)
        return weights.gradient(tape, parameters, _curvature_product(distribution, moved))

    return mean_of_parts(part, rows, part_rows, ranks)


def _curvature_product(distribution: Any, moved: list[tf.Tensor]) -> list[tf.Tensor]:
    """The Hessian M of the mean divergence, times changes of parameters."""
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
    """The mean of what a function returns for parts of rows, one by one.

    What is a mean over rows may be computed for parts of them; see
    `sequences.rows_per_part` for the reason. The function may use gradients
    and gradients of gradients, as none flows through the loop.

    Args:
        function: Returns a nest of means over the rows that it is given.
        rows: Nest of tensors `[row, ...]`.
        part_rows: Rows of a part at most, by default all.
        ranks: Those whose rows are meant.
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
    """Counts gradients that are not finite, of which none is applied.

    A mean over ranks that is not finite is so on all of them, so that they
    count alike.

    Args:
        weights: What the gradients are by.
    """

    def __init__(self, weights: Weights):
        super().__init__()
        self._weights = weights
        # How many there were in a row, and the position of the first number
        # that was not finite.
        self._skipped = tf.Variable(0, trainable=False)
        self._culprit = tf.Variable(0, trainable=False)

    @property
    def skipped(self) -> tf.Tensor:
        """The number of useless gradients in a row."""
        return self._skipped.read_value()

    def count(self, gradient: tf.Tensor, norm: tf.Tensor) -> tf.Tensor:
        """Take in a gradient and its norm; returns whether it is of use."""
        finite = tf.math.is_finite(norm)

        def find_first() -> tf.Tensor:
            # Squared as in the norm, which may overflow where they do not.
            finite = tf.math.is_finite(gradient**2)
            return tf.argmin(finite, output_type=tf.int32)

        self._culprit.assign(tf.cond(finite, self._culprit.read_value, find_first))
        self._skipped.assign(tf.where(finite, 0, self._skipped + 1))
        return finite

    def saved(self) -> dict[str, Any]:
        """Return what a checkpoint holds, by name."""
        return {'skipped': self._skipped, 'skipped_weight': self._culprit}

    def assign(self, skipped: tf.Tensor) -> None:
        """Set the number of useless gradients in a row."""
        self._skipped.assign(tf.cast(skipped, tf.int32))

    def culprit(self) -> str:
        """The weight whose gradient was not finite when one was useless."""
        return self._weights.name_at(int(self._culprit))

    def failure(self) -> Exception | None:
        """Why to give up, if there were too many in a row."""
        skipped = int(self._skipped)
        if skipped < MAX_SKIPPED:
            return None
        return errors.UserError(
            f'{skipped} gradients in a row were not finite, the last at the '
            f'weight {self.culprit()!r}. They have not been applied, but there '
            'is no way on. Lower the learning rate, or look at the scale of '
            'the rewards and of what the network computes.'
        )


def _slice(x: tf.Tensor, begin: tf.Tensor, size: int) -> tf.Tensor:
    rest = x.shape[1:]
    return tf.slice(x, [begin, *[0] * rest.rank], [size, *rest])


def _divisor(count: int, most: int) -> int:
    """The largest divisor of a number that is not above another."""
    return max(n for n in range(1, min(count, most) + 1) if count % n == 0)
