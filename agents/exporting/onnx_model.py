"""Policies as ONNX models."""

import json
import pathlib
from typing import Any

import numpy as np

from agents.exporting.function import Function
from agents.exporting.quiet import quietly
from agents.tools import errors

# Of 2021 and later, which all that runs ONNX knows.
OPSET = 15

# Where the description is found among the metadata.
DESCRIPTION = 'policy'


def require_packages() -> None:
    """Refuse to continue without the packages for ONNX."""
    try:
        with quietly():
            import onnxruntime  # noqa: F401
            import tf2onnx  # noqa: F401
    except ImportError as error:
        raise errors.ConfigError(
            f'ONNX needs the package {error.name}: pip install "agents[onnx]"'
        ) from error


def write(function: Function, path: pathlib.Path) -> None:
    """Write a policy to a file."""
    with quietly():
        import onnx
        import tf2onnx

        handlers: dict[str, Any] = {'Erfc': (_erfc, []), 'Expm1': (_expm1, [])}
        model, _ = tf2onnx.convert.from_function(
            _Traced(function.program), (), OPSET, custom_op_handlers=handlers
        )
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        reason = str(error).strip().partition('\n')[0]
        raise errors.ConfigError(
            f'The policy has operations that ONNX does not know: {reason}'
        ) from error
    entry = model.metadata_props.add()
    entry.key = DESCRIPTION
    entry.value = json.dumps(function.described, allow_nan=False)
    path.write_bytes(model.SerializeToString())


def _erfc(graph: Any, node: Any, name: str, _: Any) -> None:
    """Convert 1 − erf(x), which the activation gelu has."""
    _subtract(graph, node, name, 'Erf', one_first=True)


def _expm1(graph: Any, node: Any, name: str, _: Any) -> None:
    """Convert exp(x) − 1, which the activation celu has."""
    _subtract(graph, node, name, 'Exp', one_first=False)


def _subtract(graph: Any, node: Any, name: str, operation: str, one_first: bool) -> None:
    """Replace a node by another operation and a subtraction of 1, or from 1."""
    node.type = operation
    one = graph.make_const(f'{name}_one', np.array(1, np.float32)).output[0]
    inputs = [one, node.output[0]] if one_first else [node.output[0], one]
    graph.insert_new_node_on_output('Sub', node.output[0], f'{name}_less', inputs=inputs)


class _Traced:
    """Traced program in place of the function."""

    def __init__(self, program: Any):
        self._program = program

    def get_concrete_function(self) -> Any:
        return self._program


class Session:
    """Applies a written policy to named arrays."""

    def __init__(self, path: pathlib.Path):
        with quietly():
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            self._session = onnxruntime.InferenceSession(
                str(path), options, providers=['CPUExecutionProvider']
            )
        self._names = [each.name for each in self._session.get_outputs()]

    def __call__(self, inputs: dict[str, np.ndarray]) -> dict[str, Any]:
        found = self._session.run(self._names, inputs)
        return dict(zip(self._names, found, strict=True))
