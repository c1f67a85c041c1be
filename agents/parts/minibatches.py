"""Epochs of shuffled minibatches."""

from collections.abc import Callable
from typing import Any

from agents.tools import layout, nested
from agents.tools.graph import loops, random
from agents.tools.graph.backend import tf
from agents.tools.nested import Nest

Metrics = dict[str, tf.Tensor]


def train(
    step: Callable[[Any], Metrics],
    rows: Nest,
    batch_size: int,
    epochs: int,
    key: tf.Tensor,
    end_epoch: Callable[[Metrics], Metrics] = lambda means: means,
    stop: Callable[[Metrics], tf.Tensor] = lambda means: tf.constant(False),
) -> Metrics:
    """Go through minibatches of shuffled rows, for several epochs.

    All columns of the rows lie side by side in one matrix per type, so that one gather shuffles
    them and a minibatch is a slice.

    Args:
        step: Learns from a minibatch; returns its metrics.
        rows: Nest of tensors `[row, ...]`.
        batch_size: Rows of a minibatch, a divisor of their number.
        epochs: Maximum number of passes over the rows.
        key: Random key; epochs count on from it.
        end_epoch: Called after each epoch with the mean metrics; returns those to use.
        stop: Returns whether to skip the remaining epochs, given the mean metrics.

    Returns:
        The mean metrics of the last epoch, and the number of `epochs`.
    """
    columns = layout.Layout(nested.map(_spec, rows))
    matrices = columns.pack(rows)
    count = matrices[0].shape[0] // batch_size

    def epoch(number: tf.Tensor) -> Metrics:
        order = random.permutation(key + tf.stack([0, number]), count * batch_size)
        shuffled = [tf.gather(matrix, order) for matrix in matrices]

        def minibatch(number: tf.Tensor) -> Metrics:
            begin = number * batch_size
            return step(columns.unpack([_slice(x, begin, batch_size) for x in shuffled]))

        sums = loops.add_up(minibatch, count)
        return end_epoch(nested.map(lambda x: x / count, sums))

    done, means = loops.repeat(epoch, epochs, stop)
    return {**means, 'epochs': tf.cast(done, tf.float32)}


def _slice(matrix: tf.Tensor, begin: tf.Tensor, count: int) -> tf.Tensor:
    return tf.slice(matrix, [begin, 0], [count, matrix.shape[1]])


def _spec(leaf: tf.Tensor) -> layout.Spec:
    return layout.Spec(tuple(leaf.shape[1:]), leaf.dtype.name)
