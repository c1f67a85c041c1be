"""Passes over the rows of a rollout in random order."""

from collections.abc import Callable, Sequence
from typing import Any

from agents.tools import layout, nested
from agents.tools.graph import random
from agents.tools.graph.backend import tf

Metrics = dict[str, tf.Tensor]


def train(
    minibatch_step: Callable[[Any], Metrics],
    names: Sequence[str],
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
        names: Their names.
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

    def named(means: tf.Tensor) -> Metrics:
        return dict(zip(names, tf.unstack(means), strict=True))

    def epoch_step(epoch: tf.Tensor, _: Any, __: Any) -> tuple:
        order = random.permutation(key + tf.stack([0, epoch]), size)
        shuffled = [tf.gather(matrix, order) for matrix in matrices]

        def numbered_step(number: tf.Tensor, sums: tf.Tensor) -> tuple:
            minibatch = columns.unpack(
                [_rows(x, number * batch_size, batch_size) for x in shuffled]
            )
            metrics = minibatch_step(minibatch)
            return number + 1, sums + tf.stack(
                [metrics[name] for name in names]
            )

        _, sums = tf.while_loop(
            lambda number, _: number < count,
            numbered_step,
            [tf.constant(0), tf.zeros(len(names))],
            parallel_iterations=1,
        )
        means = sums / count
        stopped = tf.constant(False) if stop is None else stop(named(means))
        return epoch + 1, stopped, means

    done, _, means = tf.while_loop(
        lambda epoch, stopped, _: (epoch < epochs) & ~stopped,
        epoch_step,
        [tf.constant(0), tf.constant(False), tf.zeros(len(names))],
        parallel_iterations=1,
    )
    return {**named(means), 'epochs': tf.cast(done, tf.float32)}


def _rows(matrix: tf.Tensor, begin: tf.Tensor, count: int) -> tf.Tensor:
    return tf.slice(matrix, [begin, 0], [count, matrix.shape[1]])


def _spec(leaf: tf.Tensor) -> layout.Spec:
    return layout.Spec(tuple(leaf.shape[1:]), leaf.dtype.name)
