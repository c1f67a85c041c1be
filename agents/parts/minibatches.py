"""Passes over the rows of a rollout in random order."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from agents.tools import layout, nested
from agents.tools.graph import loops, random
from agents.tools.graph.backend import tf
from agents.tools.graph.communicator import ALONE, Communicator

Metrics = dict[str, tf.Tensor]


class Passes(NamedTuple):
    """What is to be done with the rows of a rollout.

    Attributes:
        rows: Nest of tensors `[row, ...]`.
        batch_size: Rows of a minibatch, a divisor of their number.
        epochs: How often to go through all rows at most.
        key: Random key; the epochs count on from it.
        measure: Finds means of a minibatch, a nest of numbers.
        follow: Changes variables by these, once they are of all ranks; returns
            numbers.
        end_epoch: Called after each epoch with the means of the numbers;
            returns what counts as such.
        stop: Whether to leave out the epochs that remain, given these.
    """

    rows: Any
    batch_size: int
    epochs: int
    key: tf.Tensor
    measure: Callable[[Any], Any]
    follow: Callable[[Any], Metrics]
    end_epoch: Callable[[Metrics], Metrics] = lambda means: means
    stop: Callable[[Metrics], tf.Tensor] | None = None

    @property
    def per_epoch(self) -> int:
        """How many minibatches there are in an epoch."""
        return nested.flatten(self.rows)[0].shape[0] // self.batch_size


def train(passes: Passes, ranks: Communicator = ALONE) -> Metrics:
    """Go through minibatches of shuffled rows, for several epochs.

    Args:
        passes: What is to be done.
        ranks: Those whose minibatches are measured together.

    Returns:
        The means over the last epoch, and the number of `epochs`.
    """
    return train_in_step([passes], ranks)[0]


def fit_together(every: Sequence[Passes]) -> bool:
    """Whether there are as many minibatches in all of some passes."""
    first = every[0]
    return all(
        passes.stop is None and (passes.per_epoch, passes.epochs) == (first.per_epoch, first.epochs)
        for passes in every
    )


def train_in_step(every: Sequence[Passes], ranks: Communicator = ALONE) -> list[Metrics]:
    """Go through several passes, taking a minibatch of each at a time.

    What was measured of them goes to other ranks in one message. See `train`.
    """
    assert len(every) == 1 or fit_together(every)
    columns = [_Columns(passes) for passes in every]

    def epoch_step(epoch: tf.Tensor) -> list[Metrics]:
        shuffled = [rows.shuffled(epoch) for rows in columns]

        def numbered_step(number: tf.Tensor) -> list[Metrics]:
            found = [
                passes.measure(rows.slice(order, number))
                for passes, rows, order in zip(every, columns, shuffled, strict=True)
            ]
            return [
                passes.follow(means) for passes, means in zip(every, ranks.mean(found), strict=True)
            ]

        sums = loops.add_up(numbered_step, every[0].per_epoch)
        means = nested.map(lambda x: x / every[0].per_epoch, sums)
        return [passes.end_epoch(each) for passes, each in zip(every, means, strict=True)]

    stop = every[0].stop
    done, means = loops.repeat(
        epoch_step, every[0].epochs, lambda means: stop(means[0]) if stop else tf.constant(False)
    )
    return [{**each, 'epochs': tf.cast(done, tf.float32)} for each in means]


class _Columns:
    """The rows of some passes, with all their columns side by side.

    So one gather an epoch shuffles them, and a minibatch is a slice.
    """

    def __init__(self, passes: Passes):
        self._layout = layout.Layout(nested.map(_spec, passes.rows))
        self._matrices = self._layout.pack(passes.rows)
        self._key, self._size = passes.key, passes.batch_size
        self._total = passes.per_epoch * passes.batch_size

    def shuffled(self, epoch: tf.Tensor) -> list[tf.Tensor]:
        """The rows in the order of an epoch."""
        order = random.permutation(self._key + tf.stack([0, epoch]), self._total)
        return [tf.gather(matrix, order) for matrix in self._matrices]

    def slice(self, order: list[tf.Tensor], number: tf.Tensor) -> Any:
        """The rows of a minibatch of those that are in some order."""
        begin = number * self._size
        some = [_rows(matrix, begin, self._size) for matrix in order]
        return self._layout.unpack(some)


def _rows(matrix: tf.Tensor, begin: tf.Tensor, count: int) -> tf.Tensor:
    return tf.slice(matrix, [begin, 0], [count, matrix.shape[1]])


def _spec(leaf: tf.Tensor) -> layout.Spec:
    return layout.Spec(tuple(leaf.shape[1:]), leaf.dtype.name)
