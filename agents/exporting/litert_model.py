"""Policies for LiteRT, formerly TensorFlow Lite."""

import pathlib
import re
from typing import Any

import numpy as np

from agents.exporting.function import Function
from agents.exporting.quiet import quietly
from agents.tools import errors
from agents.tools.graph.backend import tf


def write(function: Function, path: pathlib.Path) -> None:
    """Write a policy to a file."""
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function.program], function.module)
    try:
        with quietly():
            data = converter.convert()
    except Exception as error:  # Of any kind, from C++.
        named = re.search(r'(?:Select|Custom) ops: (.*)', str(error))
        reason = named[1] if named else str(error).strip().partition('\n')[0]
        raise errors.ConfigError(
            f'The policy has operations that LiteRT does not know: {reason}'
        ) from error
    path.write_bytes(data)


class Session:
    """Applies a written policy to named arrays."""

    def __init__(self, path: pathlib.Path):
        with quietly():
            interpreter = _interpreter()(str(path), num_threads=1)
            interpreter.allocate_tensors()  # Which is told of once.
            self._run = interpreter.get_signature_runner()

    def __call__(self, inputs: dict[str, np.ndarray]) -> dict[str, Any]:
        return self._run(**inputs)


def _interpreter() -> Any:
    """Return the interpreter of LiteRT's package, or that of TensorFlow."""
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        return tf.lite.Interpreter
    return Interpreter
