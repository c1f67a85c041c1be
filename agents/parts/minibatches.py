"""Passes over the rows of a rollout in random order."""

from collections.abc import Callable
from typing import Any

from agents.tools import layout, nested
from agents.tools.graph import loops, random
from agents.tools.graph.backend import tf

Metrics = dict[str, tf.Tensor]


def train(
    minibatch_step: Callable[[Any], Metrics],
    rows: Any,
    batch_size: int,
    epochs: int,
    key: tf.Tensor,
    stop: Callable[[Metrics], tf.Tensor] | None = None,
) -> Metrics:
    """Apply a step to minibatches of shuffled rows, for several epochs.

    All columns of the rows are laid side by side, so that one gather an epoch
    shuffles them and a minibatch is a slice.

    Args:
        minibatch_step: Changes variables by a minibatch and returns numbers.
        rows: Nest of tensors `[row, ...]`.
        batch_size: Rows of a minibatch, a divisor of their number.
        epochs: How often to go through all rows at most.
        key: Random key; the epochs count on from it.
        stop: Whether to leave out the epochs that remain, given the means of
            the numbers over one epoch.

    Returns:
        The means over the last epoch, and the number of `epochs`.
    """
    columns = layout.Layout(nested.map(_spec, rows))
    matrices = columns.pack(rows)
    size = nested.flatten(rows)[0].shape[0]
    count = size // batch_size

    def epoch_step(epoch: tf.Tensor) -> Metrics:
        order = random.permutation(key + tf.stack([0, epoch]), size)
        shuffled = [tf.gather(matrix, order) for matrix in matrices]

        def numbered_step(number: tf.Tensor) -> Metrics:
            begin = number * batch_size
            some = [_rows(x, begin, batch_size) for x in shuffled]
            return minibatch_step(columns.unpack(some))

        sums = loops.add_up(numbered_step, count)
        return nested.map(lambda x: x / count, sums)

    done, means = loops.repeat(
        epoch_step, epochs, stop or (lambda means: tf.constant(False))
    )
    return {**means, 'epochs': tf.cast(done, tf.float32)}


def _rows(matrix: tf.Tensor, begin: tf.Tensor, count: int) -> tf.Tensor:
    return tf.slice(matrix, [begin, 0], [count, matrix.shape[1]])


def _spec(leaf: tf.Tensor) -> layout.Spec:
    return layout.Spec(tuple(leaf.shape[1:]), leaf.dtype.name)
