"""Formats of exported policies."""

import contextlib
import json
import pathlib
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np

from agents.exporting import arrays, description, litert_model, onnx_model, run_policy, saved_model
from agents.exporting.function import Function
from agents.parts.policy import Policy
from agents.tools.nested import Nest
from agents.tools.runs import files

# What writes and opens programs, by format.
PROGRAMS: dict[str, Any] = {'saved_model': saved_model, 'litert': litert_model, 'onnx': onnx_model}


@contextlib.contextmanager
def replacing(path: pathlib.Path, kind: str) -> Iterator[pathlib.Path]:
    """Yield a new file or directory, which gets its final name when complete."""
    if kind == 'saved_model':
        with saved_model.replacing(path) as directory:
            yield directory
        return
    with files.replacing(path) as file:
        yield pathlib.Path(file.name)


def write(
    policy: Policy, observ_space: gym.Space, about: dict[str, Any], path: pathlib.Path, kind: str
) -> dict[str, Any]:
    """Write a policy.

    Args:
        policy: Policy.
        observ_space: Space of its observations.
        about: Further entries of the description.
        path: Path from `replacing`.
        kind: Format.

    Returns:
        Inputs and outputs, see `description`.
    """
    described = description.describe(policy, observ_space, about)
    if kind == 'npz':
        return arrays.write(policy, observ_space, described, path)
    has_doubles = kind != 'litert'
    function = Function(policy, observ_space, described, has_doubles)
    PROGRAMS[kind].write(function, path)
    return function.described


def write_beside(path: pathlib.Path, kind: str, described: dict[str, Any]) -> list[pathlib.Path]:
    """Write the files that are needed beside the policy."""
    if kind == 'npz':
        return [arrays.write_runner(path.parent)]
    if kind == 'litert':  # Which has no place for it.
        beside = path.with_name(f'{path.stem}.json')
        text = json.dumps(described, indent=2, allow_nan=False)
        files.write(beside, f'{text}\n'.encode())
        return [beside]
    return []


def read(path: pathlib.Path, kind: str, described: dict[str, Any]) -> Any:
    """Open an exported policy, with a state of its own."""
    if kind == 'npz':
        return run_policy.Policy(path)
    return Stateful(PROGRAMS[kind].Session(path), described)


class Stateful:
    """Keeps the recurrent state of a program.

    Args:
        program: Maps named arrays to named arrays.
        described: Inputs and outputs of the program.
    """

    def __init__(self, program: Any, described: dict[str, Any]):
        self._program, self._described = program, described
        self.reset()

    def reset(self) -> None:
        """Start an episode."""
        self._state: dict[str, np.ndarray] = {}

    def __call__(self, observ: Nest, mask: Nest = None) -> np.ndarray:
        """Choose the action for an observation."""
        inputs = description.named_arrays(self._described, observ, mask, self._state)
        found = self._program(inputs)
        action = found.pop(description.ACTION)
        self._state = {name.removeprefix(description.NEXT): array for name, array in found.items()}
        return action[0]
