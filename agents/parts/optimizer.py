"""Gradient steps that cannot poison the weights."""

from collections.abc import Callable, Sequence
from typing import Any

from agents.parts import flat
from agents.tools import nested
from agents.tools.graph.backend import keras, tf


class Optimizer(tf.Module):
    """Adam with gradients clipped by their norm.

    With the gradient g, all weights as one vector, at step t:

        m ← β₁ m + (1 − β₁) g,  v ← β₂ v + (1 − β₂) g²
        w ← w − α √(1 − β₂ᵗ) / (1 − β₁ᵗ) · m / (√v + ε)

    One vector rather than the optimizer of Keras, which goes from weight to
    weight: compiled, that is a third slower and takes twice as long to build.
    A gradient that is not finite changes no weight and is counted.

    Kingma and Ba 2015, Adam: a method for stochastic optimization.

    Args:
        variables: The weights, variables of Keras or TensorFlow.
        learning_rate: The step size α at the beginning.
        max_norm: The largest norm of a gradient, or None.
        epsilon: The term ε that keeps the division from zero.
        beta_1: How much of the mean of gradients is kept.
        beta_2: How much of the mean of their squares is kept.
    """

    def __init__(
        self,
        variables: Sequence[Any],
        learning_rate: float,
        max_norm: float | None = None,
        epsilon: float = 1e-7,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
    ):
        super().__init__()
        # A function, as the weights belong to the network alone.
        plain = [
            v.value if isinstance(v, keras.Variable) else v for v in variables
        ]
        self._weights = lambda: plain
        self._names = [getattr(v, 'path', v.name) for v in variables]
        self._learning_rate = learning_rate
        self._max_norm = max_norm
        self._epsilon = epsilon
        self._betas = beta_1, beta_2
        size = sum(weight.shape.num_elements() for weight in plain)
        self._mean = tf.Variable(tf.zeros(size), trainable=False)
        self._square = tf.Variable(tf.zeros(size), trainable=False)
        self._step = tf.Variable(0.0, trainable=False)
        # How many steps have been skipped in a row, and the position of the
        # first number that was not finite.
        self._skipped = tf.Variable(0, trainable=False)
        self._culprit = tf.Variable(0, trainable=False)

    @property
    def skipped(self) -> tf.Tensor:
        """The number of steps skipped in a row."""
        return self._skipped.read_value()

    def weights(self) -> tf.Tensor:
        """All weights as one vector."""
        return flat.concat(self._weights())

    def gradient(self) -> tf.Tensor:
        """The running mean of the gradients as one vector."""
        return self._mean.read_value()

    def culprit(self) -> str:
        """The weight whose gradient was not finite when a step was skipped."""
        position = int(self._culprit)
        for name, weight in zip(self._names, self._weights(), strict=True):
            position -= weight.shape.num_elements()
            if position < 0:
                return name
        raise AssertionError('The position lies within one of the weights.')

    def minimize(
        self,
        loss: Callable[[Any], dict[str, tf.Tensor]],
        names: Sequence[str],
        rows: Any,
        learning_rate_scale: tf.Tensor | float = 1.0,
        part_rows: int | None = None,
    ) -> dict[str, tf.Tensor]:
        """Take one step down the gradient of a mean over rows.

        The gradient may be computed for parts of the rows, one after another,
        of which it is the mean; see `sequences.rows_per_part` for the reason.

        Args:
            loss: Returns the mean `loss` of some rows, and other means.
            names: Their names.
            rows: Nest of tensors `[row, ...]`.
            learning_rate_scale: Factor of the learning rate.
            part_rows: Rows of a part at most, by default all.

        Returns:
            The means, and the norm of the gradient before clipping.
        """
        count = nested.flatten(rows)[0].shape[0]
        size = _divisor(count, part_rows or count)

        def part(begin: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            some = nested.map(lambda x: _slice(x, begin, size), rows)
            with tf.GradientTape() as tape:
                means = loss(some)
            gradient = self._gradient(tape, means['loss'])
            return gradient, tf.stack([means[name] for name in names])

        if size == count:
            gradient, means = part(tf.constant(0))
        else:
            zeros = tf.zeros_like(self._mean), tf.zeros(len(names))
            gradient, means = _mean_of_parts(part, zeros, count, size)
        norm = self._descend(gradient, learning_rate_scale)
        named = dict(zip(names, tf.unstack(means), strict=True))
        return {**named, 'gradient_norm': norm}

    def _gradient(self, tape: tf.GradientTape, value: tf.Tensor) -> tf.Tensor:
        return flat.concat(
            tape.gradient(value, self._weights(), unconnected_gradients='zero')
        )

    def _descend(
        self, gradient: tf.Tensor, learning_rate_scale: tf.Tensor | float
    ) -> tf.Tensor:
        """Take a step; returns the norm of the gradient."""
        norm = tf.sqrt(tf.reduce_sum(gradient**2))
        finite = tf.math.is_finite(norm)
        # Before clipping, which by a norm of NaN makes everything NaN.
        self._count(finite, gradient)
        if self._max_norm is not None:
            gradient *= tf.minimum(1.0, self._max_norm / (norm + 1e-8))
        self._apply(gradient, finite, learning_rate_scale)
        return norm

    def _apply(
        self, gradient: tf.Tensor, finite: tf.Tensor, scale: tf.Tensor | float
    ) -> None:
        beta_1, beta_2 = self._betas
        step = self._step + 1
        mean = beta_1 * self._mean + (1 - beta_1) * gradient
        square = beta_2 * self._square + (1 - beta_2) * gradient**2
        rate = scale * self._learning_rate * tf.sqrt(1 - beta_2**step)
        rate /= 1 - beta_1**step
        change = rate * mean / (tf.sqrt(square) + self._epsilon)
        # Selects rather than branches, which would take longer.
        self._step.assign(tf.where(finite, step, self._step))
        self._mean.assign(tf.where(finite, mean, self._mean))
        self._square.assign(tf.where(finite, square, self._square))
        weights = self._weights()
        changes = flat.split(tf.where(finite, change, 0.0), weights)
        for weight, part in zip(weights, changes, strict=True):
            weight.assign_sub(part)

    def _count(self, finite: tf.Tensor, gradient: tf.Tensor) -> None:
        def first() -> tf.Tensor:
            # Squared as in the norm, which may overflow where they do not.
            finite = tf.math.is_finite(gradient**2)
            return tf.argmin(finite, output_type=tf.int32)

        self._culprit.assign(tf.cond(finite, self._culprit.read_value, first))
        self._skipped.assign(tf.where(finite, 0, self._skipped + 1))


def _mean_of_parts(
    part: Callable[[tf.Tensor], tuple],
    zeros: Sequence[tf.Tensor],
    count: int,
    size: int,
) -> tuple[tf.Tensor, ...]:
    """The means of what a function returns for parts of so many rows."""

    def add(begin: tf.Tensor, *sums: tf.Tensor) -> tuple:
        values = part(begin)
        added = [x + y for x, y in zip(sums, values, strict=True)]
        return begin + size, *added

    _, *sums = tf.while_loop(
        lambda begin, *_: begin < count,
        add,
        [tf.constant(0), *zeros],
        parallel_iterations=1,
    )
    return tuple(x * (size / count) for x in sums)


def _slice(x: tf.Tensor, begin: tf.Tensor, size: int) -> tf.Tensor:
    rest = x.shape[1:]
    return tf.slice(x, [begin, *[0] * rest.rank], [size, *rest])


def _divisor(count: int, most: int) -> int:
    """The largest divisor of a number that is not above another."""
    return max(n for n in range(1, min(count, most) + 1) if count % n == 0)
