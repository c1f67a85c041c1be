"""Nests of variables."""

from typing import Any

from agents.tools import nested
from agents.tools.graph.backend import tf
from agents.tools.nested import Nest


def variables(nest: Nest) -> Nest:
    """Make a nest of variables with the values of a nest of tensors."""
    return nested.map(lambda x: tf.Variable(x, trainable=False), nest)


def assign(variables: Any, values: Any) -> None:
    """Assign values to a nest of variables."""
    nested.map(lambda variable, value: variable.assign(value), variables, values)


def read(variables: Any) -> Nest:
    """Read the values of a nest of variables at this point of the program."""
    return nested.map(lambda variable: variable.read_value(), variables)
