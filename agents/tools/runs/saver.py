"""Saving and restoring of variables in checkpoints."""

import math
import pathlib
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from agents.tools import errors
from agents.tools.graph.backend import tf
from agents.tools.runs import checkpoints, tensors
from agents.tools.runs.checkpoints import Scored
from agents.tools.runs.tensors import Spec

# How often to try to write a checkpoint, and the time between.
TRIES = 3
PAUSE_SECONDS = 0.5

# How many variables that do not fit are named.
MOST_DIFFERENCES = 8

# How many checkpoints are kept: with fewer than two there would be none to
# fall back to.
KEEP, FEWEST = 5, 2


class _Held(NamedTuple):
    """Values to be saved later."""

    scored: Scored
    values: dict[str, tf.Tensor]


class Saver:
    """Saves variables by name and restores them.

    See `agents.tools.runs.checkpoints` for the files.

    Keeps the last checkpoints and the one after the evaluation with the highest score; the first of
    equal ones. If there is no time to write the best one, it is held in memory and written before
    any later one. So the best checkpoint does not depend on the speed of the disk.

    Args:
        directory: Directory of the checkpoints.
        variables: Variables by name.
        keep: Number of checkpoints to keep beside the best, at least two.
        partial: Accept checkpoints with more than these variables.
        place: Name of the variable with the position of the loop. A checkpoint from within an
            evaluation has the same number of training steps as the one after it, which replaces it.
        per_agent_variables: Axis of the agents by name of the variable. Those variables are not
            restored from a checkpoint with another number of agents.

    Attributes:
        anew: Variables that were not restored for that reason, with the number of agents stored.
    """

    def __init__(
        self,
        directory: str | pathlib.Path,
        variables: Mapping[str, tf.Variable],
        keep: int = KEEP,
        partial: bool = False,
        place: str | None = None,
        per_agent_variables: Mapping[str, int] | None = None,
    ):
        self._directory = pathlib.Path(directory)
        self._variables = dict(variables)
        self._keep = max(keep, FEWEST)
        self._partial = partial
        self._place = place
        self._of_agents = dict(per_agent_variables or {})
        self.anew: dict[str, int] = {}
        self._best: Scored | None = None
        self._held: _Held | None = None

    @property
    def best(self) -> Scored | None:
        """Highest score so far and its step, including a held one."""
        return self._best

    def steps(self) -> list[int]:
        """Return the steps of all checkpoints in order."""
        return checkpoints.steps(self._directory)

    def is_better(self, score: float) -> bool:
        """Return whether a score is higher than those of all checkpoints so far."""
        best = -math.inf if self._best is None else self._best.score
        return math.isfinite(score) and score > best

    def hold(self, step: int, score: float) -> None:
        """Keep the current values in memory, to save them later as the best."""
        self._best = Scored(step, score)
        # Copies, as what is read of a variable may share its memory.
        copies = {name: tf.constant(value.numpy()) for name, value in self._values().items()}
        self._held = _Held(self._best, copies)

    def save(self, step: int, score: float | None = None) -> pathlib.Path:
        """Write a checkpoint; the oldest are removed once it is complete.

        Args:
            step: Training step.
            score: Mean score of the evaluation before, if there was one.
        """
        final = self._path(step)
        if self._is_current(final):
            return final
        if self._held and self._held.scored.step == step:
            score = self._held.scored.score
        elif self._held:
            scored, values = self._held
            self._write(self._path(scored.step), values, scored.score)
        self._held = None
        if score is not None and not math.isfinite(score):
            score = None
        self._write(final, self._values(), score)
        if score is not None and self.is_better(score):
            self._best = Scored(step, score)
        self._make_room(step)
        return final

    def restore(self, step: int | None = None, warn: Callable[[str], None] = print) -> int | None:
        """Restore the variables from a checkpoint.

        Args:
            step: Step of the checkpoint, by default the last undamaged one.
            warn: Called about damaged checkpoints that are skipped.

        Returns:
            Step, or None if there are no checkpoints.
        """
        chosen = self._choose(step, warn)
        if chosen is not None:
            path = self._path(chosen)
            try:
                self._read(path)
            except errors.UserError as error:
                if checkpoints.is_whole(path):
                    raise
                raise errors.UserError(
                    f'The checkpoint {path} changed while it was read; try again.'
                ) from error
            if not self._partial:
                self._best = checkpoints.find_best(self._directory, warn, chosen)
        return chosen

    def require_fit(self, step: int | None = None) -> None:
        """Refuse a checkpoint that `restore` would refuse; changes no variable.

        The variables may be those of a graph that is never run, where they use no memory.

        Args:
            step: Step of the checkpoint, by default the last undamaged one.
        """
        chosen = self._choose(step, lambda _: None)
        if chosen is not None:
            self._match(self._path(chosen))

    def _choose(self, step: int | None, warn: Callable[[str], None]) -> int | None:
        """Return the requested checkpoint, or the last undamaged one."""
        steps = self.steps()
        if step is not None:
            if step not in steps:
                raise errors.UserError(
                    f'There is no checkpoint {step} in {self._directory}; '
                    f'there are {", ".join(map(str, steps)) or "none"}.'
                )
            steps = [step]
        for candidate in reversed(steps):
            path = self._path(candidate)
            try:
                checkpoints.verify(path)
            except errors.UserError as error:
                if step is not None or candidate == steps[0]:
                    raise
                warn(f'{error} Falling back to the one before.')
            else:
                return candidate
        return None

    def _path(self, step: int) -> pathlib.Path:
        return checkpoints.path_of(self._directory, step)

    def _is_current(self, path: pathlib.Path) -> bool:
        """Return whether a checkpoint is undamaged and at the current position."""
        if not checkpoints.is_whole(path):
            return False
        if self._place is None:
            return True
        file, place = path / checkpoints.TENSORS, self._variables[self._place]
        if tensors.specs(file).get(self._place) != _spec(place):
            return False
        return tensors.read(file, [self._place])[self._place] == place.numpy()

    def _values(self) -> dict[str, tf.Tensor]:
        return {name: variable.read_value() for name, variable in self._variables.items()}

    def _write(
        self, final: pathlib.Path, values: Mapping[str, tf.Tensor], score: float | None
    ) -> None:
        """Write a checkpoint, with retries."""
        _require_finite(values)
        for attempt in range(1, TRIES + 1):
            try:
                with checkpoints.replacing(final, score) as new:
                    tensors.write(new / checkpoints.TENSORS, values)
                return
            except OSError as error:
                if attempt == TRIES:
                    raise errors.UserError(
                        f'The checkpoint {final} cannot be written: '
                        f'{str(error).rstrip(".")}. Those written before are '
                        'intact.'
                    ) from error
                time.sleep(PAUSE_SECONDS)

    def _make_room(self, step: int) -> None:
        """Remove the oldest checkpoints but the best."""
        # Those of later steps were found to be damaged when it was resumed.
        older = [other for other in self.steps() if other < step]
        for old in older[: 1 - self._keep]:
            if self._best is None or old != self._best.step:
                checkpoints.remove(self._path(old))

    def _read(self, path: pathlib.Path) -> None:
        stored = self._match(path)
        names = [
            name for name, variable in self._variables.items() if stored[name] == _spec(variable)
        ]
        values = tensors.read(path / checkpoints.TENSORS, names)
        for name, value in values.items():
            if value.dtype.kind == 'f' and not np.isfinite(value).all():
                raise errors.ConfigError(
                    f'The checkpoint {path} must hold finite numbers, got '
                    f'others in {name}. Take another checkpoint.'
                )
        for name, value in values.items():
            self._variables[name].assign(value)
        self.anew = {
            name: stored[name].shape[axis]
            for name, axis in self._of_agents.items()
            if name not in names
        }

    def _match(self, path: pathlib.Path) -> dict[str, Spec]:
        """Match the tensors of a checkpoint with the variables."""
        stored = {
            name: spec
            for name, spec in tensors.specs(path / checkpoints.TENSORS).items()
            if name in self._variables or not self._partial
        }
        expected = {name: self._expect(name, stored.get(name)) for name in self._variables}
        if stored != expected:
            raise errors.MisfitError(
                f'The checkpoint {path} does not fit the configuration: '
                f'{_describe_difference(stored, expected)}.'
            )
        return stored

    def _expect(self, name: str, stored: Spec | None) -> Spec:
        """Return the expected spec of a variable, for the stored number of agents."""
        dtype, shape = _spec(self._variables[name])
        axis = self._of_agents.get(name)
        if stored and axis is not None and len(stored.shape) == len(shape):
            shape[axis] = stored.shape[axis]
        return Spec(dtype, shape)


def _require_finite(values: Mapping[str, tf.Tensor]) -> None:
    for name, value in values.items():
        if value.dtype.is_floating and not np.isfinite(value).all():
            raise errors.UserError(
                f'{name} holds values that are not finite, so that it is not '
                'saved. The checkpoints written before are intact.'
            )


def _spec(variable: Any) -> Spec:
    return Spec(tf.as_dtype(variable.dtype).name, list(variable.shape))


def _describe_difference(stored: Mapping[str, Spec], expected: Mapping[str, Spec]) -> str:
    """Describe which variables differ, abbreviated."""
    found = [
        f'{name}: {_describe(stored.get(name), "missing")}, '
        f'expected {_describe(expected.get(name), "none")}'
        for name in sorted({*stored, *expected})
        if stored.get(name) != expected.get(name)
    ]
    rest = len(found) - MOST_DIFFERENCES
    more = [f'and {rest} more'] if rest > 0 else []
    return '; '.join([*found[:MOST_DIFFERENCES], *more])


def _describe(spec: Spec | None, otherwise: str) -> str:
    return f'{spec.dtype} {spec.shape}' if spec else otherwise
