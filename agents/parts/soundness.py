"""Whether what was recorded are numbers that can be learnt from."""

from collections.abc import Iterable

import numpy as np

from agents.tools.graph.backend import tf

# From here on, the square of a number is at the end of what 32 bits can tell.
LIMIT = 2.0**63
_LIMIT_BITS = int(np.float32(LIMIT).view(np.int32))


def is_finite(values: Iterable[tf.Tensor]) -> tf.Tensor:
    """Whether all are finite, and so are the squares of floats.

    By their bits without the sign: as whole numbers these are in the same
    order, with infinity and NaN as the largest, and unlike floats, many of them
    are compared at once.
    """
    largest = [
        tf.reduce_max(tf.bitcast(value, tf.int32) & 0x7FFFFFFF)
        for value in values
        if value.dtype == tf.float32
    ]
    return tf.reduce_max([0, *largest]) < _LIMIT_BITS


def first_nonfinite(leaves: Iterable[np.ndarray]) -> tuple[int, int, int] | None:
    """Where the first value that is not sound is.

    Args:
        leaves: Arrays `[time, agent, ...]` in the order of what happens.

    Returns:
        The time, the number of the leaf and the agent; None if all are sound.
    """
    places = []
    for number, leaf in enumerate(leaves):
        with np.errstate(invalid='ignore'):
            wrong = ~(np.abs(leaf) < LIMIT)
        for time, agent, *_ in np.argwhere(wrong)[:1].tolist():
            places.append((time, number, agent))
    return min(places, default=None)
