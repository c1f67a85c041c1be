"""Gradient steps that cannot poison the weights."""

from collections.abc import Sequence
from typing import Any

from agents.parts.flat import Weights
from agents.parts.optimizer import Optimizer
from agents.tools.attr_dict import AttrDict
from agents.tools.graph.backend import compile_part, tf
from agents.tools.graph.communicator import ALONE, Communicator


def define(
    variables: Sequence[Any],
    learning_rate: float,
    config: AttrDict,
    ranks: Communicator = ALONE,
    by_epoch: bool = False,
) -> 'Adam':
    """Make the optimizer of some weights that a configuration asks for."""
    return Adam(
        Weights(variables),
        learning_rate,
        config.gradient_clip,
        config.adam_epsilon,
        ranks=ranks,
        by_epoch=by_epoch,
    )


class Adam(Optimizer):
    """Adam with gradients clipped by their norm.

    With the gradient g, all weights as one vector, at step t:

        m ← β₁ m + (1 − β₁) g,  v ← β₂ v + (1 − β₂) g²
        w ← w − α √(1 − β₂ᵗ) / (1 − β₁ᵗ) · m / (√v + ε)

    One vector rather than the optimizer of Keras, which goes from weight to
    weight: compiled, that is a third slower and takes twice as long to build.
    A gradient that is not finite changes no weight and is counted.

    Another `Optimizer` can take its place. It sees the network that it is made
    for, and may have the loss return statistics of the layers beside the
    gradient, see `gradients.of_rows`.

    Kingma and Ba 2015, Adam: a method for stochastic optimization.

    Args:
        weights: The weights of a network.
        learning_rate: The step size α at the beginning.
        max_norm: The largest norm of a gradient, or None.
        epsilon: The term ε that keeps the division from zero.
        beta_1: How much of the mean of gradients is kept.
        beta_2: How much of the mean of their squares is kept.
        ranks: Those that take the same steps.
        by_epoch: Whether they average weights rather than gradients.
    """

    def __init__(
        self,
        weights: Weights,
        learning_rate: float,
        max_norm: float | None = None,
        epsilon: float = 1e-7,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        ranks: Communicator = ALONE,
        by_epoch: bool = False,
    ):
        super().__init__(weights, ranks, by_epoch)
        self._learning_rate = learning_rate
        self._max_norm = max_norm
        self._epsilon = epsilon
        self._betas = beta_1, beta_2
        self._mean = tf.Variable(tf.zeros(weights.size), trainable=False)
        self._square = tf.Variable(tf.zeros(weights.size), trainable=False)
        self._step = tf.Variable(0.0, trainable=False)

    def saved(self) -> dict[str, Any]:
        return {**super().saved(), 'mean': self._mean, 'square': self._square, 'step': self._step}

    def summary(self, owner: str) -> dict[str, tf.Tensor]:
        """The weights of an owner, and the running mean of their gradients."""
        return {**super().summary(owner), f'gradients/{owner}': self._mean.read_value()}

    def apply(
        self,
        gradient: tf.Tensor,
        means: dict[str, Any],
        learning_rate_scale: tf.Tensor | float = 1.0,
    ) -> dict[str, tf.Tensor]:
        # At once where it is not within a program, as there are many numbers.
        norm = compile_part(self._apply)(gradient, learning_rate_scale)
        return {**means, 'gradient_norm': norm}

    def _apply(self, gradient: tf.Tensor, learning_rate_scale: tf.Tensor | float) -> tf.Tensor:
        """Take one step down a gradient; returns its norm before clipping."""
        norm = tf.sqrt(tf.reduce_sum(gradient**2))
        # Before clipping, which by a norm of NaN makes everything NaN.
        useful = self.guard.count(gradient, norm)
        if self._max_norm is not None:
            gradient *= tf.minimum(1.0, self._max_norm / (norm + 1e-8))
        beta_1, beta_2 = self._betas
        step = self._step + 1
        mean = beta_1 * self._mean + (1 - beta_1) * gradient
        square = beta_2 * self._square + (1 - beta_2) * gradient**2
        rate = learning_rate_scale * self._learning_rate
        rate *= tf.sqrt(1 - beta_2**step)
        rate /= 1 - beta_1**step
        change = rate * mean / (tf.sqrt(square) + self._epsilon)
        # Selects rather than branches, which would take longer.
        self._step.assign(tf.where(useful, step, self._step))
        self._mean.assign(tf.where(useful, mean, self._mean))
        self._square.assign(tf.where(useful, square, self._square))
        self._weights.subtract(tf.where(useful, change, 0.0))
        return norm
