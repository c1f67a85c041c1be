"""Names of the variables of an algorithm, and their number."""

import math
import re
from collections.abc import Iterable
from typing import Any

from agents.tools.graph.backend import tf


def named_variables(
    thing: Any, prefix: str = '', others: Iterable[tf.Variable] = ()
) -> dict[str, tf.Variable]:
    """Return the variables of an object by the names of a checkpoint.

    A module has a method `saved`, which returns its variables, modules and
    networks by name. Other modules are named by their attributes. Variables of
    a network are numbered, followed by their names in Keras. A variable that
    is reachable in several ways has the first of its names.

    Args:
        thing: A module, network or nest of variables.
        prefix: What names begin with.
        others: Variables to leave out.
    """
    found: dict[str, Any] = {}
    _collect(thing, prefix, found, {id(variable) for variable in others})
    return {name: _plain(variable) for name, variable in found.items()}


def count_weights(thing: Any, scope: str | None = None, exclude: str | None = None) -> int:
    """Count the trainable parameters of an object.

    Args:
        thing: Module, network or nest of variables.
        scope: Count only names that begin with this path.
        exclude: Leave out names that match this regular expression.
    """
    found: dict[str, Any] = {}
    _collect(thing, '', found, set())
    total = 0
    for name, variable in found.items():
        if not variable.trainable:
            continue
        if scope and not f'{name}/'.startswith(f'{scope.rstrip("/")}/'):
            continue
        if exclude and re.match(exclude, name):
            continue
        total += math.prod(variable.shape)
    return total


def _collect(thing: Any, path: str, found: dict, seen: set[int]) -> None:
    """Collect variables by name; those of Keras as they are, as they know what is frozen."""
    plain = _plain(thing)
    if isinstance(plain, tf.Variable):
        if id(plain) not in seen:
            seen.add(id(plain))
            path = path or plain.name
            if path in found:
                raise ValueError(f'Two variables have the name {path!r}.')
            found[path] = thing
        return
    for name, part in _parts(thing):
        _collect(part, f'{path}/{name}' if path else name, found, seen)


def attributes(module: tf.Module) -> dict[str, Any]:
    """Return the attributes of a module by name, without underscores."""
    found: dict[str, Any] = {}
    for key, value in sorted(vars(module).items()):
        if key.startswith('_self_'):  # TensorFlow's own.
            continue
        name = key.strip('_')
        if name in found:
            raise ValueError(f'Two attributes have the name {name!r}.')
        found[name] = value
    return found


def _parts(thing: Any) -> list[tuple[str, Any]]:
    if isinstance(thing, (list, tuple)):
        return [(str(index), part) for index, part in enumerate(thing)]
    if isinstance(thing, dict):
        return [(str(key), thing[key]) for key in sorted(thing)]
    if _is_keras(thing):
        return [
            # Without the numbers by which Keras counts layers of the process.
            (f'{index}-{re.sub("_[0-9]+", "", variable.name)}', variable)
            for index, variable in enumerate(thing.variables)
        ]
    if hasattr(thing, 'saved') and not isinstance(thing, type):
        return [*thing.saved().items()]
    if isinstance(thing, tf.Module):
        return [*attributes(thing).items()]
    return []


def _plain(thing: Any) -> Any:
    """Return the TensorFlow variable of a Keras variable."""
    return thing.value if isinstance(thing, tf.keras.Variable) else thing


def _is_keras(thing: Any) -> bool:
    kinds = tf.keras.layers.Layer, tf.keras.optimizers.Optimizer
    return isinstance(thing, kinds)
