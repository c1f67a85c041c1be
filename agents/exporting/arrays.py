"""Policies as plain arrays, for `run_policy`, which needs only NumPy.

A NumPy file (`.npz`) with the description as the JSON text `policy`, and the arrays of each layer
as `<layer>/<array>`. The description lists the layers as `network`: those of each leaf of the
observations, those after the leaves are concatenated, and those that compute the action.
"""

import io
import json
import math
import os
import pathlib
from typing import Any

import gymnasium as gym
import numpy as np

from agents.exporting import run_policy
from agents.parts import layers, masks, normalize
from agents.parts.policy import Policy
from agents.parts.sequences import Network
from agents.tools import choices, errors, spaces
from agents.tools.graph.backend import keras
from agents.tools.runs import files

RUNNER = pathlib.Path(run_policy.__file__)

# The runner's activations by name.
ACTIVATIONS = {name: keras.activations.get(name) for name in run_policy.ACTIVATIONS}


def write(
    policy: Policy, observ_space: gym.Space, described: dict[str, Any], path: pathlib.Path
) -> dict[str, Any]:
    """Write a policy to a file; returns the description in the file.

    Args:
        policy: Policy.
        observ_space: Space of its observations.
        described: Inputs and outputs, see `description`.
        path: File to write.
    """
    writer = _Writer()
    network = writer.translate(policy, observ_space, described['inputs'])
    described = {**described, 'batch': None, 'network': network}
    text = json.dumps(described, allow_nan=False)
    data = io.BytesIO()
    np.savez(data, policy=np.array(text), **writer.arrays)  # type: ignore[arg-type]
    path.write_bytes(data.getvalue())
    return described


def write_runner(directory: pathlib.Path) -> pathlib.Path:
    """Copy the runner into a directory, and replace an older one."""
    path, text = directory / RUNNER.name, RUNNER.read_bytes()
    first = text.partition(b'\n')[0]
    there = os.path.lexists(path)
    if there and not files.read(path, files.MAX_BYTES).startswith(first):
        raise errors.ConfigError(
            f'{path} must be the runner of an exported policy, but is '
            'something else. Export to another directory.'
        )
    files.write_changed(path, text)
    return path


class _Writer:
    """Converts a policy to layers of the runner.

    Attributes:
        arrays: Arrays of the layers.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._count = 0

    def translate(
        self, policy: Policy, observ_space: gym.Space, inputs: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """Convert a policy to layers of the runner.

        Args:
            policy: Policy.
            observ_space: Space of its observations.
            inputs: Described inputs, the leaves first.
        """
        action_space = policy.action_space
        encoder = [] if policy.encoder is None else _list(policy.encoder)
        first, *others = [*encoder, *_list(policy.network)]
        visible = spaces.leaves(masks.visible_space(observ_space, action_space))
        leaves = [
            {
                **{key: entry[key] for key in ('path', 'shape', 'dtype')},
                'layers': [*self._normalize(normalizer), *self._encode(space, encoder)],
            }
            for entry, space, normalizer, encoder in zip(
                inputs[: len(visible)],
                visible,
                policy.normalizer.of_leaves,
                _encoders(first, len(visible)),
                strict=True,
            )
        ]
        found = [layer for each in others for layer in self._layer(each)]
        return {
            'leaves': leaves,
            'layers': found,
            'masked': masks.has_mask(observ_space, action_space),
            'head': [self._finish(action_space)],
        }

    def _add(self, kind: str, arrays: dict[str, Any], **values: Any) -> dict[str, Any]:
        """Add a layer of the runner with its arrays and other values."""
        name = f'{kind}_{self._count}'
        self._count += 1
        for key, array in arrays.items():
            self.arrays[f'{name}/{key}'] = np.asarray(array)
        return {'kind': kind, 'name': name, **values}

    def _normalize(self, normalizer: normalize.StreamingNormalize | None) -> list[dict[str, Any]]:
        if normalizer is None:
            return []
        std = normalizer.std.numpy().astype(np.float32)
        arrays = {'mean': normalizer.mean.numpy(), 'std': std}
        return [self._add('normalize', arrays, clip=normalizer.clip)]

    def _encode(self, space: gym.Space, encoder: Network) -> list[dict[str, Any]]:
        """Convert the encoder of a leaf."""
        if isinstance(encoder, layers.Convolutions):
            return self._encode_image(encoder)
        sizes = spaces.count(space)
        if isinstance(space, gym.spaces.MultiBinary) or sizes is None:
            factor: Any = 1.0
            if isinstance(space, gym.spaces.Box) and space.dtype == np.uint8:
                factor = 1 / np.ravel(np.maximum(space.high, 1))
            return [self._flatten(spaces.shape(space), factor)]
        start = np.ravel(spaces.start(space))
        return [self._add('one_hot', {'sizes': np.ravel(sizes), 'start': start})]

    def _encode_image(self, encoder: layers.Convolutions) -> list[dict[str, Any]]:
        image = encoder.image
        shape = [*image.size, image.channels]
        factor = 1 / image.largest
        order = list(image.order)
        found = [self._scale(factor, order, shape)]
        pairs = zip(encoder.convolutions, image.filters, strict=True)
        for layer, filters in pairs:
            if isinstance(layer, layers.Convolution):
                kernel, bias = layer.weights_by_pixel
            else:
                kernel, bias = layer.kernel, layer.bias
            arrays = {'kernel': kernel, 'bias': bias}
            settings = {'stride': filters.stride, 'activation': 'relu'}
            found.append(self._add('convolve', arrays, **settings))
        last = *image.sizes[-1], image.filters[-1].number
        found.append(self._flatten(last, 1.0))
        return [*found, *[e for d in encoder.dense for e in self._layer(d)]]

    def _flatten(self, shape: tuple[int, ...], factor: Any) -> dict[str, Any]:
        return self._scale(factor, [*range(len(shape))], [math.prod(shape)])

    def _scale(self, factor: Any, order: list[int], shape: list[int]) -> dict[str, Any]:
        arrays = {'factor': np.asarray(factor, np.float32)}
        return self._add('scale', arrays, order=order, shape=shape)

    def _layer(self, layer: Network) -> list[dict[str, Any]]:
        """Convert a layer of Keras to one of the runner, or to none."""
        kind = type(layer)
        if kind in (keras.layers.Identity, keras.layers.Dropout):
            return []
        if kind in (keras.layers.Dense, layers.Dense):
            return [self._dense(layer)]
        if kind is layers.GaussianHead:  # The most probable is the mean.
            return [self._dense(layer.mean)]
        if kind is keras.layers.GRUCell and _is_usual(layer):
            names = 'kernel', 'recurrent', 'bias'
            weights = layer.kernel, layer.recurrent_kernel, layer.bias
            arrays = dict(zip(names, weights, strict=True))
            return [self._add('gru', arrays)]
        raise _refuse(layer)

    def _dense(self, layer: Network) -> dict[str, Any]:
        bias = layer.bias if layer.use_bias else np.zeros(1, np.float32)
        arrays = {'kernel': layer.kernel, 'bias': bias}
        found = layer.activation
        if found in (None, keras.activations.linear):
            return self._add('dense', arrays)
        for name, activation in ACTIVATIONS.items():
            if found is activation:
                return self._add('dense', arrays, activation=name)
        raise _refuse(layer, f' with the activation {_name(found)}')

    def _finish(self, space: gym.Space) -> dict[str, Any]:
        """Return the layer that turns outputs into an action."""
        match space:
            case gym.spaces.Box():
                arrays = {'low': space.low, 'high': space.high}
                scaled = spaces.is_bounded(space)
                return self._add('bound', arrays, scaled=scaled)
            case gym.spaces.MultiBinary():
                return self._add('decide', {}, shape=list(space.shape))
        sizes = choices.sizes(space)
        start = np.asarray(spaces.start(space))
        arrays = {'ends': np.cumsum(sizes)[:-1], 'start': start}
        return self._add('choose', arrays, dtype=str(space.dtype))


def _list(network: Network) -> list[Any]:
    """Return the layers of a network in order."""
    parts: Any = [network]
    if type(network) is keras.Sequential:
        parts = network.layers
    elif type(network) is layers.Recurrent:
        parts = network.parts
    else:
        return parts
    return [layer for part in parts for layer in _list(part)]


def _encoders(first: Any, leaves: int) -> list[Any]:
    """Return the encoder of each leaf, None where it is only flattened."""
    match first:
        case layers.Encoder():
            return first.encoders
        case layers.Flatten():
            return [None] * leaves
    raise _refuse(first)


def _is_usual(cell: Any) -> bool:
    """Return whether a gated recurrent unit has the default options of Keras."""
    return (
        cell.use_bias
        and cell.reset_after
        and cell.activation is keras.activations.tanh
        and cell.recurrent_activation is keras.activations.sigmoid
    )


def _refuse(layer: Network, detail: str = '') -> errors.ConfigError:
    return errors.ConfigError(
        f'The network has the layer {layer.name!r}, a {type(layer).__name__}'
        f'{detail}, which is not among those that an .npz can hold: of the '
        'networks feed_forward and recurrent with the activations '
        f'{", ".join(ACTIVATIONS)}. Export it as a SavedModel, .onnx or '
        '.tflite instead.'
    )


def _name(function: Any) -> str:
    return getattr(function, '__name__', repr(function))
