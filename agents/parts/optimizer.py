"""What changes the weights of a network."""

from collections.abc import Callable
from typing import Any

from agents.parts import gradients
from agents.parts.flat import Weights
from agents.tools.graph import state
from agents.tools.graph.backend import tf
from agents.tools.graph.communicator import ALONE, Communicator
from agents.tools.nested import Nest

Loss = Callable[[Any], dict[str, tf.Tensor]]


class Optimizer(tf.Module):
    """Takes steps down the gradients of means over rows.

    A gradient that is not finite changes no weight and is counted by the guard.

    Args:
        weights: The weights of a network.
        ranks: Those that take the same steps.
        by_epoch: Whether each rank takes steps of its own, and their weights
            are averaged by `end_epoch`.
    """

    def __init__(self, weights: Weights, ranks: Communicator = ALONE, by_epoch: bool = False):
        super().__init__()
        self._weights = weights
        self._all_ranks = ranks
        self._by_epoch = by_epoch
        self.guard = gradients.NonFiniteGuard(weights)

    @property
    def ranks(self) -> Communicator:
        """Those whose gradients are averaged in each step."""
        return ALONE if self._by_epoch else self._all_ranks

    @property
    def skipped(self) -> tf.Tensor:
        """The number of steps skipped in a row."""
        return self.guard.skipped

    def failure(self) -> Exception | None:
        """Why to give up, if too many gradients were useless."""
        return self.guard.failure()

    def saved(self) -> dict[str, Any]:
        """Return what a checkpoint holds, by name; not the weights."""
        return self.guard.saved()

    def summary(self, owner: str) -> dict[str, tf.Tensor]:
        """Tensors of an owner by name that are worth a histogram."""
        return {f'weights/{owner}': self._weights.read()}

    def minimize(
        self,
        loss: Loss,
        rows: Nest,
        learning_rate_scale: tf.Tensor | float = 1.0,
        part_rows: int | None = None,
    ) -> dict[str, tf.Tensor]:
        """Take one step.

        Args:
            loss: Function of rows, see `gradients.of_rows`.
            rows: Nest of tensors `[row, ...]`.
            learning_rate_scale: Factor of the learning rate.
            part_rows: Rows to compute the gradient of at a time.

        Returns:
            The means that the loss returns, and the norm of the gradient.
        """
        gradient, means = gradients.of_rows(
            self._observe(loss), self._weights, rows, part_rows, self.ranks
        )
        return self.apply(gradient, means, learning_rate_scale)

    def apply(
        self,
        gradient: tf.Tensor,
        means: dict[str, Any],
        learning_rate_scale: tf.Tensor | float = 1.0,
    ) -> dict[str, tf.Tensor]:
        """Change the weights by a gradient; the same on all ranks.

        Args:
            gradient: Gradient as one vector.
            means: What the loss returned, averaged over the rows.
            learning_rate_scale: Factor of the learning rate.

        Returns:
            The means for the log, and the norm of the gradient.
        """
        raise NotImplementedError

    def _observe(self, loss: Loss) -> Loss:
        """Return the loss, wrapped if the optimizer needs statistics of the layers."""
        return loss

    def end_epoch(self, means: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Let the ranks have the same weights, if they have their own.

        Args:
            means: Numbers for the log.

        Returns:
            Their means over the ranks.
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
        # The sum, so that all give up when one would.
        self.guard.assign(tf.round(found['skipped'] * ranks.size))
        return found['means']
