"""Checkpoints that are complete, or not there at all."""

import pathlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from agents.tools import errors
from agents.tools.graph.backend import tf
from agents.tools.runs import bundle, checkpoints

# How often to try to write a checkpoint, and the time between.
TRIES = 3
PAUSE_SECONDS = 0.5

# How many variables that do not fit are named.
MOST_DIFFERENCES = 8


class Saver:
    """Saves variables by name and restores them.

    How their files stay whole is told in `agents.tools.runs.checkpoints`.

    Args:
        directory: Directory of the checkpoints.
        variables: The variables by name.
        keep: How many checkpoints to keep.
        partial: Whether checkpoints may hold more than these variables.
        place: Name of the variable that tells where the loop is. A checkpoint
            from within an evaluation has the same number of training steps as
            that after it, by which it is replaced.
    """

    def __init__(
        self,
        directory: str | pathlib.Path,
        variables: Mapping[str, tf.Variable],
        keep: int = 5,
        partial: bool = False,
        place: str | None = None,
    ):
        self._directory = pathlib.Path(directory)
        self._variables = dict(variables)
        self._keep = max(keep, 2)
        self._partial = partial
        self._place = place

    def steps(self) -> list[int]:
        """The steps of the checkpoints there are, in order."""
        return checkpoints.steps(self._directory)

    def save(self, step: int) -> pathlib.Path:
        """Write a checkpoint; the oldest make room only once it is whole."""
        final = self._path(step)
        if self._is_current(final):
            return final
        self._require_finite()
        for attempt in range(1, TRIES + 1):
            try:
                with checkpoints.replacing(final) as new:
                    self._write(new)
                break
            except OSError as error:
                if attempt == TRIES:
                    raise errors.UserError(
                        f'The checkpoint {final} cannot be written: '
                        f'{str(error).rstrip(".")}. Those written before are '
                        'intact.'
                    ) from error
                time.sleep(PAUSE_SECONDS)
        # Those of later steps were found to be damaged when it was resumed.
        older = [other for other in self.steps() if other < step]
        for old in older[: 1 - self._keep]:
            checkpoints.remove(self._path(old))
        return final

    def restore(
        self,
        step: int | None = None,
        warn: Callable[[str], None] = print,
    ) -> int | None:
        """Set the variables to those of a checkpoint.

        Args:
            step: Which one; by default the last that is whole.
            warn: Told of checkpoints that are damaged and passed over.

        Returns:
            The step, or None if there are no checkpoints.
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
                    f'The checkpoint {path} changed while it was read; try '
                    'again.'
                ) from error
        return chosen

    def require_fit(self, step: int | None = None) -> None:
        """Refuse a checkpoint that `restore` would refuse; sets no variable.

        The variables may be those of a graph that is never run, in which they
        take no memory.

        Args:
            step: Which one; by default the last that is whole.
        """
        chosen = self._choose(step, lambda _: None)
        if chosen is not None:
            self._match(self._path(chosen))

    def _choose(
        self, step: int | None, warn: Callable[[str], None]
    ) -> int | None:
        """Find the checkpoint that is asked for, or the last that is whole."""
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
        """Whether a checkpoint is whole and the loop still where it was."""
        if not checkpoints.is_whole(path):
            return False
        if self._place is None:
            return True
        prefix, place = path / checkpoints.BUNDLE, self._variables[self._place]
        stored = bundle.variables(prefix).get(self._place)
        if stored is None or _kind(stored) != _kind(place):
            return False
        (value,) = bundle.values(prefix, [stored])
        return value == place.numpy()

    def _require_finite(self) -> None:
        for name, variable in self._variables.items():
            if variable.dtype.is_floating and not np.isfinite(variable).all():
                raise errors.UserError(
                    f'{name} holds values that are not finite, so that it is '
                    'not saved. The checkpoints written before are intact.'
                )

    def _write(self, path: pathlib.Path) -> None:
        names = sorted(self._variables)
        try:
            tf.raw_ops.SaveV2(
                prefix=str(path / checkpoints.BUNDLE),
                tensor_names=names,
                shape_and_slices=[''] * len(names),
                tensors=[self._variables[name].read_value() for name in names],
            )
        except tf.errors.OpError as error:
            raise OSError(errors.in_an_operation(error.message)) from error

    def _read(self, path: pathlib.Path) -> None:
        stored = self._match(path)
        values = list(bundle.values(path / checkpoints.BUNDLE, stored))
        for variable, value in zip(
            self._variables.values(), values, strict=True
        ):
            variable.assign(value)

    def _match(self, path: pathlib.Path) -> list[bundle.Variable]:
        """Find in a checkpoint what fits each of the variables."""
        found = bundle.variables(path / checkpoints.BUNDLE)
        stored = {
            name: _kind(variable)
            for name, variable in found.items()
            if name in self._variables or not self._partial
        }
        expected = {
            name: _kind(variable) for name, variable in self._variables.items()
        }
        if stored != expected:
            raise errors.ConfigError(
                f'The checkpoint {path} does not fit the configuration: '
                f'{_describe_difference(stored, expected)}.'
            )
        return [found[name] for name in expected]


def _kind(variable: Any) -> tuple[str, list[int]]:
    return tf.as_dtype(variable.dtype).name, list(variable.shape)


def _describe_difference(
    stored: Mapping[str, Any], expected: Mapping[str, Any]
) -> str:
    """Say which variables differ, the first of them if they are many."""
    found = [
        f'{name}: {stored.get(name, "missing")}, '
        f'expected {expected.get(name, "none")}'
        for name in sorted({*stored, *expected})
        if stored.get(name) != expected.get(name)
    ]
    rest = len(found) - MOST_DIFFERENCES
    more = [f'and {rest} more'] if rest > 0 else []
    return '; '.join([*found[:MOST_DIFFERENCES], *more])
