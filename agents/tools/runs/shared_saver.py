"""Checkpoints of a training on several ranks."""

import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from agents.tools.graph import mpi
from agents.tools.graph.backend import tf
from agents.tools.runs.checkpoints import Scored
from agents.tools.runs.saver import Saver
from agents.tools.world import World


class SharedSaver:
    """Saves and restores the variables of all ranks; only the first rank uses files.

    A checkpoint holds the agents of all ranks, as if one rank had them all. So a run can resume
    with another number of ranks.

    Has the methods of a `Saver`, which all ranks call in the same order.

    Args:
        define: Makes the saver of the first rank, given its variables.
        variables: Variables of this rank by name.
        per_agent_variables: Variables of its agents with the axis of the agents; equally many on
            every rank, in the same order.
        ranks: All ranks.
        check: Called before a checkpoint is written; may raise.

    Attributes:
        anew: Variables that were not restored, as of a `Saver`.
    """

    def __init__(
        self,
        define: Callable[[Mapping[str, Any]], Saver],
        variables: Mapping[str, tf.Variable],
        per_agent_variables: Sequence[tuple[tf.Variable, int]],
        ranks: World,
        check: Callable[[], None] = lambda: None,
    ):
        self._ranks = ranks
        self._check = check
        self._speaking = mpi.define(ranks)
        self.anew: dict[str, int] = {}
        names = {id(variable): name for name, variable in variables.items()}
        self._names = names
        self._parts = [
            _Parts(variable, axis, ranks)
            for variable, axis in per_agent_variables
            if id(variable) in names
        ]
        parts = {names[id(part.mine)]: part for part in self._parts}
        every = ranks.gather(sorted({*variables} - {*parts}))
        common = sorted(set.intersection(*map(set, every)))
        self._common = {name: variables[name] for name in common}
        self._saver: Saver | None = None
        if ranks.is_first:
            self._saver = define({**variables, **parts})

    @property
    def best(self) -> Scored | None:
        """Highest score so far and its step; known to the first rank only."""
        return None if self._saver is None else self._saver.best

    def is_better(self, score: float) -> bool:
        """Return whether a score is the highest; known to the first rank only."""
        return self._saver is not None and self._saver.is_better(score)

    def hold(self, step: int, score: float) -> None:
        self._gather()
        if self._saver is not None:
            self._saver.hold(step, score)

    def save(self, step: int, score: float | None = None) -> pathlib.Path | None:
        self._gather()
        if self._saver is None:
            return None
        return self._saver.save(step, score)

    def restore(self, step: int | None = None, warn: Callable[[str], None] = print) -> int | None:
        restored = None
        if self._saver is not None:
            restored = self._saver.restore(step, warn)
        restored = self._ranks.share(restored)
        if restored is None:
            return None
        read = [variable.read_value() for variable in self._common.values()]
        wholes = [part.read_value() for part in self._parts]
        read, wholes = self._speaking.broadcast((read, wholes))
        for variable, value in zip(self._common.values(), read, strict=True):
            variable.assign(value)
        self.anew = self._ranks.share(self._saver and self._saver.anew)
        for part, whole in zip(self._parts, wholes, strict=True):
            if self._names[id(part.mine)] not in self.anew:
                part.split(whole)
        return restored

    def _gather(self) -> None:
        """Gather the variables of all ranks at the first rank."""
        self._check()
        values = [part.mine.read_value() for part in self._parts]
        every = self._speaking.gather(values, root=0)
        if self._saver is not None:
            for part, *found in zip(self._parts, *every, strict=True):
                part.join(found)


class _Parts:
    """Variable of all agents, of which each rank has a part; looks like a variable to a `Saver`.

    Attributes:
        mine: Part of this rank.
        dtype: Type.
        shape: Shape of the whole.
    """

    def __init__(self, mine: tf.Variable, axis: int, ranks: World):
        self.mine = mine
        self.dtype = mine.dtype
        self.shape = list(mine.shape)
        self._size = self.shape[axis]
        self.shape[axis] *= ranks.size
        self._axis, self._rank = axis, ranks.rank
        self._whole = np.zeros(self.shape, self.dtype.as_numpy_dtype)

    def join(self, every: Sequence[tf.Tensor]) -> None:
        """Set the whole from the parts of all ranks."""
        self._whole = np.concatenate([x.numpy() for x in every], self._axis)

    def split(self, whole: tf.Tensor) -> None:
        """Set the part of this rank from the whole."""
        begin = self._rank * self._size
        places = range(begin, begin + self._size)
        self.mine.assign(tf.gather(whole, places, axis=self._axis))

    def read_value(self) -> tf.Tensor:
        return tf.constant(self._whole)

    def assign(self, value: np.ndarray) -> None:
        self._whole = value

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        return self._whole
