"""Loops of a graph whose results are nests that nobody has to list.

A loop of TensorFlow has to be told the structure of its results before it
begins. These find it by tracing the function that is repeated, once. Outside
of a graph they are loops of Python.
"""

from collections.abc import Callable
from typing import Any

from agents.tools import nested
from agents.tools.graph.backend import tf
from agents.tools.nested import Nest

NUMBER = tf.TensorSpec((), tf.int32)


def add_up(function: Callable[[tf.Tensor], Any], count: int) -> Nest:
    """The sum of what a function returns for the numbers below a count.

    Args:
        function: Returns a nest of numbers for a number.
        count: How many numbers there are, at least one.
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
    """Call a function for the numbers below a count, unless stopped before.

    Args:
        function: Returns a nest of numbers for a number.
        count: How many numbers there are, at least one.
        stop: Whether to leave out the numbers that remain, given a result.

    Returns:
        How often the function was called, and its last result.
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
    """A piece of the graph that is called in it, and zeros like its results."""
    traced = tf.function(function, autograph=False)
    piece = traced.get_concrete_function(NUMBER)
    zeros = nested.map(lambda x: tf.zeros(x.shape, x.dtype), piece.structured_outputs)
    return piece, zeros


def _convert(nest: Nest) -> Nest:
    return nested.map(tf.convert_to_tensor, nest)


def _add(total: Any, nest: Nest) -> Nest:
    return nested.map(lambda x, y: x + y, total, nest)
