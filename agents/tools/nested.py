"""Functions over nested tuples, named tuples, lists and dictionaries.

Dictionaries are traversed by sorted key, like in `tf.nest`. Anything else is a leaf.
"""

import builtins
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

# Nested containers of leaves, such as the tensors of an observation.
Nest: TypeAlias = Any


def zip(*structures: Nest) -> Nest:
    """Combine structures of the same shape into one of tuples of leaves.

    >>> zip({'a': 1, 'b': [2]}, {'a': 3, 'b': [4]})
    {'a': (1, 3), 'b': [(2, 4)]}
    """
    return map(lambda *leaves: leaves, *structures)


def map(function: Callable, *structures: Nest) -> Nest:
    """Apply a function to the leaves of structures of the same shape.

    The result has the types of the first structure.

    >>> map(lambda x, y: x + y, (1, [2, 3]), (10, [20, 30]))
    (11, [22, 33])
    """
    first = structures[0]
    if not _is_container(first):
        if any(_is_container(other) for other in structures[1:]):
            raise TypeError(f'Structures differ: a leaf and {structures[1:]}.')
        return function(*structures)
    children = [_children(structure) for structure in structures]
    keys = [[key for key, _ in child] for child in children]
    for other, structure in builtins.zip(keys[1:], structures[1:]):
        if other != keys[0] or not _is_container(structure):
            raise TypeError(
                f'Structures differ: one has the parts {keys[0]}, another '
                f'{other if _is_container(structure) else "is a leaf"}.'
            )
    results = {
        group[0][0]: map(function, *[value for _, value in group])
        for group in builtins.zip(*children)
    }
    return _rebuild(first, results)


def flatten(structure: Nest) -> list:
    """Return the leaves of a structure in order.

    >>> flatten({'b': 3, 'a': [1, (2,)]})
    [1, 2, 3]
    """
    if not _is_container(structure):
        return [structure]
    return [leaf for _, part in _children(structure) for leaf in flatten(part)]


def filter(predicate: Callable[[Any], bool], structure: Nest) -> Nest:
    """Keep the leaves for which the predicate is true.

    Containers are kept even if empty. Named tuples become tuples, as fields may be missing.

    >>> filter(lambda x: x > 1, {'a': 1, 'b': (1, 2)})
    {'b': (2,)}
    """
    if not _is_container(structure):
        raise TypeError(f'Expected a structure to filter, not {structure!r}.')
    results = {
        key: filter(predicate, part) if _is_container(part) else part
        for key, part in _children(structure)
        if _is_container(part) or predicate(part)
    }
    if isinstance(structure, Mapping):
        return {key: results[key] for key in structure if key in results}
    kind = list if isinstance(structure, list) else tuple
    return kind(results.values())


def names(structure: Nest, prefix: str = '') -> list[str]:
    """Return the path of every leaf, in the order of `flatten`.

    >>> names({'b': 3, 'a': [1, (2,)]})
    ['a/0', 'a/1/0', 'b']
    """
    if not _is_container(structure):
        return [prefix]
    return [
        path
        for key, part in _children(structure)
        for path in names(part, f'{prefix}/{key}' if prefix else str(key))
    ]


def _is_container(structure: Nest) -> bool:
    return isinstance(structure, (tuple, list, Mapping))


def _children(structure: Nest) -> list[tuple[Any, Any]]:
    if isinstance(structure, Mapping):
        return [(key, structure[key]) for key in sorted(structure)]
    if hasattr(structure, '_fields'):
        return list(builtins.zip(structure._fields, structure))
    if isinstance(structure, (tuple, list)):
        return list(enumerate(structure))
    return []


def _rebuild(structure: Nest, results: dict) -> Nest:
    if isinstance(structure, Mapping):
        return {key: results[key] for key in structure}
    # TensorFlow's modules wrap tuples, but for what they say of their class.
    kind = structure.__class__
    if hasattr(structure, '_fields'):
        return kind(*results.values())
    return kind(list(results.values()))
