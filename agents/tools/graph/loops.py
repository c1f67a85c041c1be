"""Loops in a graph whose results may be any nest.

Loops of TensorFlow need the structure of their results in advance. These loops trace the body
once to find it. Outside of a graph they are Python loops.
"""

from collections.abc import Callable
from typing import Any

from agents.tools import nested
from agents.tools.graph.backend import tf
from agents.tools.nested import Nest

NUMBER = tf.TensorSpec((), tf.int32)


def add_up(function: Callable[[tf.Tensor], Any], count: int) -> Nest:
    """Return the sum of the results of a function for the numbers 0 to count - 1.

    Args:
        function: Function of a number that returns a nest of numbers.
        count: Number of calls, at least one.
    """
    if not tf.inside_function():
        total = _convert(function(tf.constant(0)))
        for number in range(1, count):
            total = _add(total, function(tf.constant(number)))
        return total
    piece, zeros = _trace(function)

    def step(number: tf.Tensor, total: Any) -> tuple:
        return number + 1, _add(total, piece(number))

    _, total = tf.while_loop(
        lambda number, _: number < count, step, (tf.constant(0), zeros), parallel_iterations=1
    )
    return total


def repeat(
    function: Callable[[tf.Tensor], Any], count: int, stop: Callable[[Any], tf.Tensor]
) -> tuple[tf.Tensor, Any]:
    """Call a function for the numbers 0 to count - 1, or until stopped.

    Args:
        function: Function of a number that returns a nest of numbers.
        count: Maximum number of calls, at least one.
        stop: Function of a result that returns whether to stop.

    Returns:
        Number of calls, and the last result.
    """
    if not tf.inside_function():
        for number in range(count):
            result = _convert(function(tf.constant(number)))
            if stop(result):
                break
        return tf.constant(number + 1), result
    piece, zeros = _trace(function)

    def step(number: tf.Tensor, _: Any, __: Any) -> tuple:
        result = piece(number)
        return number + 1, stop(result), result

    calls, _, result = tf.while_loop(
        lambda number, stopped, _: (number < count) & ~stopped,
        step,
        (tf.constant(0), tf.constant(False), zeros),
        parallel_iterations=1,
    )
    return calls, result


def _trace(function: Callable) -> tuple[Callable, Any]:
    """Trace a function; returns it with zeros in the structure of its results."""
    traced = tf.function(function, autograph=False)
    piece = traced.get_concrete_function(NUMBER)
    zeros = nested.map(lambda x: tf.zeros(x.shape, x.dtype), piece.structured_outputs)
    return piece, zeros


def _convert(nest: Nest) -> Nest:
    return nested.map(tf.convert_to_tensor, nest)


def _add(total: Any, nest: Nest) -> Nest:
    return nested.map(lambda x, y: x + y, total, nest)
