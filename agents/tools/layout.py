"""Where the leaves of a nest lie within a row of plain memory.

One matrix per storage type carries everything that belongs together: the
shared memory between the processes, the record of a rollout and the rows that
an update shuffles. A single copy, scatter or gather then moves all of it.

Four-byte leaves share a `float32` matrix. Integers lie there bit by bit, so
that every value is exact, and booleans as 0 or 1. Images of bytes have a
`uint8` matrix of their own, because as floats they would be four times as
large.
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
    """The place of a leaf: columns `start` to `stop` of a group's matrix."""

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
        """NumPy views of the leaves, `[rows, ...]`, to read and write.

        Booleans appear as the floats that they are stored as.
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
        """Lay tensors `[..., *shape]` side by side in `[..., width]`."""
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
        """The inverse of `pack`."""
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
