"""Natural gradient steps with a Kronecker-factored curvature."""

from typing import Any

from agents.parts import kronecker
from agents.parts.optimizer import STATISTICS, Loss, Optimizer
from agents.parts.sequences import Network
from agents.tools.graph import flat
from agents.tools.graph.backend import tf
from agents.tools.graph.communicator import ALONE, Communicator
from agents.tools.graph.flat import Weights
from agents.tools.nested import Nest


class Kronecker(Optimizer):
    """Descends natural gradients within a trust region.

    With the gradient ∇ and the curvature F in Kronecker factors, the direction is u = F⁻¹∇. The
    step has the size α, or less to keep the predicted KL divergence ½ α² uᵀFu at most δ.

    Factors are running means. During the first `cold_steps`, steps follow the plain gradient,
    clipped by its norm. Gradients and inverses that are not finite are not used; gradients are
    counted.

    The loss must also return a mean `score`, see `kronecker.measure`.

    Args:
        network: Network whose weights are changed.
        learning_rate: Maximum step size α.
        max_kl: KL divergence δ of a step.
        damping: Number added to the curvature.
        decay: Decay rate of the running means of the factors.
        inverse_every: Steps between inversions of the factors.
        cold_steps: Steps along the plain gradient at first.
        momentum: Momentum coefficient.
        max_norm: Norm at which plain gradients are clipped, or None.
        ranks: Ranks whose gradients are averaged.
        by_epoch: Average weights after an epoch instead of gradients.
    """

    def __init__(
        self,
        network: Network,
        learning_rate: float,
        max_kl: float,
        damping: float,
        decay: float,
        inverse_every: int,
        cold_steps: int,
        momentum: float = 0.0,
        max_norm: float | None = None,
        ranks: Communicator = ALONE,
        by_epoch: bool = False,
    ):
        blocks = kronecker.find_blocks(network)
        weights = Weights([v for block in blocks for v in block.variables])
        super().__init__(weights, ranks, by_epoch)
        self._blocks = blocks
        self._learning_rate = learning_rate
        self._max_kl = max_kl
        self._damping = damping
        self._decay = decay
        self._inverse_every = inverse_every
        self._cold_steps = cold_steps
        self._momentum = momentum
        self._max_norm = max_norm
        sizes = [(block.inputs, block.outputs) for block in self._blocks]
        self._factors = [tuple(map(_define_matrix, pair)) for pair in sizes]
        self._inverses = [tuple(map(_define_matrix, pair)) for pair in sizes]
        self._last = tf.Variable(tf.zeros(self._weights.size), trainable=False)
        self._step = tf.Variable(0, trainable=False)

    def saved(self) -> dict[str, Any]:
        return {
            **super().saved(),
            'factors': self._factors,
            'inverses': self._inverses,
            'last_change': self._last,
            'step': self._step,
        }

    def summary(self, owner: str) -> dict[str, tf.Tensor]:
        """Return the weights of an owner, and their last change."""
        return {**super().summary(owner), f'steps/{owner}': self._last.read_value()}

    def _apply(self, gradient: tf.Tensor, statistics: Any, scale: tf.Tensor | float) -> tf.Tensor:
        norm = tf.sqrt(tf.reduce_sum(gradient**2))
        useful = self.guard.count(gradient, norm)
        self._update_factors(statistics, useful)
        change = self._define_change(gradient, norm, scale)
        change = tf.where(useful, change, 0.0)
        self._last.assign(tf.where(useful, change, self._last))
        self._step.assign_add(tf.cast(useful, tf.int32))
        self._weights.subtract(change)
        return norm

    def _observe(self, loss: Loss) -> Loss:
        """Return the loss with the Kronecker factors of its rows beside its means."""

        def observed(rows: Nest) -> dict[str, Any]:
            with tf.GradientTape() as tape, kronecker.tapped(self._blocks):
                means = loss(rows)
            factors = kronecker.measure(self._blocks, tape, means.pop('score'))
            return {**means, STATISTICS: factors}

        return observed

    def _update_factors(self, found: list, useful: tf.Tensor) -> None:
        """Update the running means of the factors, and invert them when due.

        The first factors are averaged with equal weights.
        """
        count = tf.cast(self._step + 1, tf.float32)
        part = tf.maximum(1.0 - self._decay, 1.0 / count)
        due = useful & (self._step % self._inverse_every == 0)
        for factors, news, inverses in zip(self._factors, found, self._inverses, strict=True):
            means = [
                factor + part * (new - factor) for factor, new in zip(factors, news, strict=True)
            ]
            _assign_sound(factors, means, useful)
            self._invert(factors, inverses, due)

    def _invert(self, factors: Any, inverses: Any, due: tf.Tensor) -> None:
        """Invert the factors of a block if due."""
        first, second = factors
        found = tf.cond(
            due,
            lambda: kronecker.invert(first, second, self._damping),
            lambda: tuple(inverse.read_value() for inverse in inverses),
        )
        _assign_sound(inverses, found, due)

    def _define_change(
        self, gradient: tf.Tensor, norm: tf.Tensor, scale: tf.Tensor | float
    ) -> tf.Tensor:
        """Return the vector to subtract from the weights."""
        rate = scale * self._learning_rate
        natural = self._precondition(gradient)
        square = tf.reduce_sum(natural * gradient)  # That of uᵀFu.
        bound = tf.sqrt(2 * self._max_kl / tf.maximum(square, 1e-30))
        # By rounding alone, and then nothing is known of how far it would go.
        bound = tf.where(square < 0, 0.0, bound)
        change = tf.minimum(rate, bound) * natural
        plain = gradient
        if self._max_norm is not None:
            plain *= tf.minimum(1.0, self._max_norm / (norm + 1e-8))
        change = tf.where(self._step < self._cold_steps, rate * plain, change)
        return self._momentum * self._last + change

    def _precondition(self, gradient: tf.Tensor) -> tf.Tensor:
        """Multiply the gradient by the inverse of the curvature."""
        weights = [v for block in self._blocks for v in block.variables]
        parts = flat.split(gradient, weights)
        result = []
        for block, inverses in zip(self._blocks, self._inverses, strict=True):
            count = len(block.variables)
            matrix, parts = block.join(parts[:count]), parts[count:]
            first, second = inverses
            result += block.split(first @ matrix @ second)
        return flat.concat(result)


def _define_matrix(size: int) -> tf.Variable:
    return tf.Variable(tf.eye(size), trainable=False)


def _assign_sound(variables: Any, values: Any, useful: tf.Tensor) -> None:
    """Assign values that are useful and finite; keep the others."""
    for variable, value in zip(variables, values, strict=True):
        sound = useful & tf.reduce_all(tf.math.is_finite(value))
        variable.assign(tf.where(sound, value, variable))
