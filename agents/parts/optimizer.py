"""Optimizers: gradient steps that cannot poison the weights."""

from collections.abc import Callable, Sequence
from typing import Any

from agents.parts import gradients
from agents.tools.attr_dict import AttrDict
from agents.tools.graph import state
from agents.tools.graph.backend import compile_part, tf
from agents.tools.graph.communicator import ALONE, Communicator
from agents.tools.graph.flat import Weights
from agents.tools.nested import Nest

Loss = Callable[[Any], dict[str, tf.Tensor]]

# Name of statistics of the layers among the means of a loss.
STATISTICS = 'factors'


class Optimizer(tf.Module):
    """Changes weights by the gradients of losses that are means over rows.

    A gradient that is not finite changes no weight and is counted by the guard.

    Attributes:
        guard: Counts gradients that are not finite.

    Args:
        weights: Weights of a network.
        ranks: Ranks whose gradients are averaged.
        by_epoch: Average the weights of all ranks at the end of an epoch instead of the gradients
            of each step.
    """

    def __init__(self, weights: Weights, ranks: Communicator = ALONE, by_epoch: bool = False):
        super().__init__()
        self._weights = weights
        self._all_ranks = ranks
        self._by_epoch = by_epoch
        self.guard = gradients.NonFiniteGuard(weights)

    @property
    def ranks(self) -> Communicator:
        """Ranks whose gradients are averaged in each step."""
        return ALONE if self._by_epoch else self._all_ranks

    @property
    def skipped(self) -> tf.Tensor:
        """Number of consecutive steps without a finite gradient."""
        return self.guard.skipped

    def failure(self) -> Exception | None:
        """Return an error if too many gradients in a row were not finite."""
        return self.guard.failure()

    def saved(self) -> dict[str, Any]:
        """Return the contents of a checkpoint by name, without the weights."""
        return self.guard.saved()

    def summary(self, owner: str) -> dict[str, tf.Tensor]:
        """Return tensors for histograms by name, for the network of an owner."""
        return {f'weights/{owner}': self._weights.read()}

    def minimize(
        self,
        loss: Loss,
        rows: Nest,
        learning_rate_scale: tf.Tensor | float = 1.0,
        part_rows: int | None = None,
    ) -> dict[str, tf.Tensor]:
        """Take one step down the gradient of a loss.

        Args:
            loss: Function of rows, see `gradients.of_rows`.
            rows: Nest of tensors `[row, ...]`.
            learning_rate_scale: Factor of the learning rate.
            part_rows: Rows for which the gradient is computed at a time.

        Returns:
            Means that the loss returned, and the norm of the gradient.
        """
        gradient, means = gradients.of_rows(
            self._observe(loss), self._weights, rows, part_rows, self.ranks
        )
        norm = self._apply(gradient, means.pop(STATISTICS, None), learning_rate_scale)
        return {**means, 'gradient_norm': norm}

    def _apply(self, gradient: tf.Tensor, statistics: Any, scale: tf.Tensor | float) -> tf.Tensor:
        """Change the weights by a gradient, the same on all ranks; returns its norm.

        Args:
            gradient: Gradient as one vector.
            statistics: Statistics of the layers, see `_observe`; else None.
            scale: Factor of the learning rate.
        """
        raise NotImplementedError

    def _observe(self, loss: Loss) -> Loss:
        """Return the loss, which may add statistics of the layers to its means as STATISTICS."""
        return loss

    def end_epoch(self, means: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Average the weights over the ranks, if each rank took steps of its own.

        Args:
            means: Metrics of this rank.

        Returns:
            Metrics, averaged over the ranks.
        """
        ranks = self._all_ranks
        if not self._by_epoch or ranks.size == 1:
            return means
        numbers = [v for v in self.variables if v.dtype.is_floating]
        mine = {
            'weights': self._weights.read(),
            'numbers': state.read(numbers),
            'skipped': tf.cast(self.skipped, tf.float32),
            'means': means,
        }
        found = ranks.mean(mine)
        self._weights.assign(found['weights'])
        state.assign(numbers, found['numbers'])
        # Their sum, so that all ranks stop when one would.
        self.guard.assign(tf.round(found['skipped'] * ranks.size))
        return found['means']


class Adam(Optimizer):
    """Adam with gradients clipped by their norm.

    With the gradient g, all weights as one vector, at step t:

        m ← β₁ m + (1 − β₁) g,  v ← β₂ v + (1 − β₂) g²
        w ← w − α √(1 − β₂ᵗ) / (1 − β₁ᵗ) · m / (√v + ε)

    All weights are one vector. The optimizers of Keras loop over weights, which compiled is a third
    slower and takes twice as long to trace.

    Kingma and Ba 2015, Adam: a method for stochastic optimization.

    Args:
        weights: Weights of a network.
        learning_rate: Step size α before the schedule.
        max_norm: Norm at which gradients are clipped, or None.
        epsilon: Term ε that keeps the denominator from zero.
        beta_1: Decay rate β₁ of the mean gradient.
        beta_2: Decay rate β₂ of the mean squared gradient.
        ranks: Ranks whose gradients are averaged.
        by_epoch: Average weights after an epoch instead of gradients.
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
        """Return the weights of an owner and the running mean of their gradients."""
        return {**super().summary(owner), f'gradients/{owner}': self._mean.read_value()}

    def _apply(self, gradient: tf.Tensor, statistics: Any, scale: tf.Tensor | float) -> tf.Tensor:
        # One program, also in a graph that is not compiled as a whole.
        return compile_part(self._step_down)(gradient, scale)

    def _step_down(self, gradient: tf.Tensor, learning_rate_scale: tf.Tensor | float) -> tf.Tensor:
        """Take one step down a gradient; returns its norm before clipping."""
        norm = tf.sqrt(tf.reduce_sum(gradient**2))
        # Before clipping, as a norm of NaN would make everything NaN.
        is_finite = self.guard.count(gradient, norm)
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
        # Selection is faster than a branch.
        self._step.assign(tf.where(is_finite, step, self._step))
        self._mean.assign(tf.where(is_finite, mean, self._mean))
        self._square.assign(tf.where(is_finite, square, self._square))
        self._weights.subtract(tf.where(is_finite, change, 0.0))
        return norm


def define_adam(
    variables: Sequence[Any],
    learning_rate: float,
    config: AttrDict,
    ranks: Communicator = ALONE,
    by_epoch: bool = False,
) -> Adam:
    """Make Adam with the settings of a configuration."""
    return Adam(
        Weights(variables),
        learning_rate,
        config.gradient_clip,
        config.adam_epsilon,
        ranks=ranks,
        by_epoch=by_epoch,
    )
