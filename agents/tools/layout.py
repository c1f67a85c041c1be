"""Layout of the leaves of a nest in the columns of matrices.

One matrix per storage type holds everything that belongs together: the shared memory between
processes, the record of a rollout and the rows that an update shuffles. A single copy, scatter or
gather moves all of it.

Leaves of four bytes share a `float32` matrix: integers by their bits, so that every value is
exact, booleans as 0 or 1. Byte images have a `uint8` matrix, as they would be four times as large
as floats.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from agents.tools import nested
from agents.tools.nested import Nest

# How each type of leaf is stored.
STORAGE = {'float32': 'float32', 'int32': 'float32', 'bool': 'float32', 'uint8': 'uint8'}


@dataclasses.dataclass(frozen=True)
class Spec:
    """Shape and type of one leaf; those of a layout are among `STORAGE`."""

    shape: tuple[int, ...]
    dtype: str


@dataclasses.dataclass(frozen=True)
class Column:
    """Place of a leaf: columns `start` to `stop` of the matrix of a group."""

    group: int
    start: int
    stop: int
    spec: Spec


class Layout:
    """Assigns the leaves of a nest of specs to columns of matrices.

    Attributes:
        groups: Tuple of (storage type, number of columns), one per matrix.
    """

    def __init__(self, specs: Any):
        kinds = [STORAGE[spec.dtype] for spec in nested.flatten(specs)]
        widths = dict.fromkeys(sorted(set(kinds)), 0)
        order = list(widths)

        def place(spec: Spec) -> Column:
            kind = STORAGE[spec.dtype]
            start = widths[kind]
            widths[kind] += math.prod(spec.shape)
            return Column(order.index(kind), start, widths[kind], spec)

        self.columns = nested.map(place, specs)
        self.groups = tuple(widths.items())

    def views(self, matrices: Sequence[np.ndarray]) -> Nest:
        """Return NumPy views of the leaves, `[rows, ...]`, to read and write.

        Booleans are floats of 0 or 1 there.
        """

        def view(column: Column) -> np.ndarray:
            matrix = matrices[column.group]
            leaf = matrix[:, column.start : column.stop]
            if column.spec.dtype == 'int32':
                leaf = leaf.view(np.int32)
            leaf = leaf.reshape((len(matrix), *column.spec.shape))
            assert np.shares_memory(leaf, matrix) or not leaf.size
            return leaf

        return nested.map(view, self.columns)

    def pack(self, nest: Nest) -> tuple:
        """Concatenate tensors `[..., *shape]` to matrices `[..., width]`."""
        from agents.tools.graph.backend import tf

        parts: list[list] = [[] for _ in self.groups]

        def add(column: Column, leaf: Any) -> None:
            spec = column.spec
            lead = leaf.shape[: leaf.shape.rank - len(spec.shape)]
            leaf = tf.reshape(leaf, [*lead, column.stop - column.start])
            if spec.dtype == 'int32':
                leaf = tf.bitcast(leaf, tf.float32)
            elif spec.dtype == 'bool':
                leaf = tf.cast(leaf, tf.float32)
            parts[column.group].append(leaf)

        nested.map(add, self.columns, nest)
        return tuple(tf.concat(group, -1) if len(group) > 1 else group[0] for group in parts)

    def unpack(self, matrices: Sequence) -> Nest:
        """Slice matrices into tensors; the inverse of `pack`."""
        from agents.tools.graph.backend import tf

        def take(column: Column) -> Nest:
            matrix = matrices[column.group]
            leaf = matrix[..., column.start : column.stop]
            if column.spec.dtype == 'int32':
                leaf = tf.bitcast(leaf, tf.int32)
            elif column.spec.dtype == 'bool':
                leaf = leaf > 0.5
            return tf.reshape(leaf, [*matrix.shape[:-1], *column.spec.shape])

        return nested.map(take, self.columns)
