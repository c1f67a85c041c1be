"""Layers of the networks."""

import math
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from agents.parts import encodings
from agents.parts.sequences import Network
from agents.tools import nested, spaces
from agents.tools.graph.backend import compile_part, keras, tf
from agents.tools.nested import Nest

# XLA takes ten times as long to multiply by two or three columns as by four.
QUICK_COLUMNS = 4


def dense(sizes: list[int], activation: Any) -> list[keras.layers.Layer]:
    """Make a stack of dense layers."""
    return [
        Dense(size, activation, kernel_initializer=keras.initializers.Orthogonal(math.sqrt(2)))
        for size in sizes
    ]


def output(size: int, factor: float = 1.0) -> keras.layers.Layer:
    """Make a dense output layer with orthogonal initial weights of gain `factor`."""
    initializer = keras.initializers.Orthogonal(factor)
    return Dense(size, kernel_initializer=initializer)


class Dense(keras.layers.Dense):
    """Dense layer of Keras with a gradient that compiles into a faster program."""

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> Nest:
        if len(inputs.shape) != 2:
            return super().call(inputs, training=training)
        kernel = tf.convert_to_tensor(self.kernel)
        values = product(inputs, kernel)
        if self.use_bias:
            values += tf.convert_to_tensor(self.bias)
        return values if self.activation is None else self.activation(values)


class Encoder(keras.layers.Layer):
    """Encodes an observation as one vector, see `agents.parts.encodings`.

    Args:
        space: Space of the observations.
        config: Settings.
    """

    def __init__(self, space: gym.Space, config: Mapping[str, Any]):
        super().__init__()
        self._encoders = [
            _define_encoder(leaf, encodings.choose(leaf, config)) for leaf in spaces.leaves(space)
        ]

    @property
    def encoders(self) -> list[Any]:
        """Encoders of the leaves, in the order of `nested`."""
        return list(self._encoders)

    def call(self, observ: Nest) -> tf.Tensor:
        leaves = nested.flatten(observ)
        pairs = zip(self._encoders, leaves, strict=True)
        parts = [encoder(leaf) for encoder, leaf in pairs]
        return tf.concat(parts, -1) if len(parts) > 1 else parts[0]


def _define_encoder(
    space: gym.Space, encoding: encodings.Vector | encodings.Image
) -> keras.layers.Layer:
    if isinstance(encoding, encodings.Image):
        return Convolutions(encoding)
    return Flatten(space)


class Flatten(keras.layers.Layer):
    """Concatenates leaves to a vector: choices one-hot, bytes scaled to [0, 1]."""

    def __init__(self, space: gym.Space):
        super().__init__()
        self._space = space

    def call(self, observ: Nest) -> tf.Tensor:
        parts = [
            self._flat(space, leaf)
            for space, leaf in zip(spaces.leaves(self._space), nested.flatten(observ), strict=True)
        ]
        return tf.concat(parts, -1) if len(parts) > 1 else parts[0]

    def _flat(self, space: gym.Space, leaf: tf.Tensor) -> tf.Tensor:
        match space:
            # Sequential models of Keras turn what they are given into floats.
            case gym.spaces.Discrete():
                return tf.one_hot(tf.cast(leaf, tf.int32), int(space.n))
            case gym.spaces.MultiDiscrete():
                leaf = tf.reshape(leaf, [-1, space.nvec.size])
                leaf = tf.cast(leaf, tf.int32)
                counts = space.nvec.reshape(-1).tolist()
                columns = tf.unstack(leaf, axis=-1)
                pairs = zip(columns, counts, strict=True)
                return tf.concat([tf.one_hot(*pair) for pair in pairs], -1)
        leaf = tf.cast(leaf, tf.float32)
        if isinstance(space, gym.spaces.Box) and space.dtype == 'uint8':
            # Flags stay flags, also beside counts that go further.
            leaf = leaf / np.maximum(space.high, 1).astype(np.float32)
        width = math.prod(leaf.shape[1:])
        # The number of rows cannot be inferred where they are empty.
        return tf.reshape(leaf, [-1 if width else tf.shape(leaf)[0], width])


class Convolutions(keras.layers.Layer):
    """Stack of convolutions over byte images, and a dense layer.

    Args:
        image: Shape of the images, and the convolutions.
    """

    def __init__(self, image: encodings.Image):
        super().__init__()
        self._image = image
        # Not `_layers`, where Keras keeps the layers that it trains and saves.
        self._convolutions = [convolution(filters, image.is_large) for filters in image.filters]
        self._dense = dense([image.units] if image.units else [], 'relu')

    @property
    def image(self) -> encodings.Image:
        """Shape of the images, and the convolutions."""
        return self._image

    @property
    def convolutions(self) -> list[Any]:
        """Convolutions in order."""
        return list(self._convolutions)

    @property
    def dense(self) -> list[Any]:
        """Dense layer over the remaining pixels, flattened."""
        return list(self._dense)

    def call(self, image: tf.Tensor) -> tf.Tensor:
        values = compile_part(self._arrange)(image)
        for layer in self._convolutions:
            values = layer(values)
        width = math.prod(values.shape[1:])
        values = tf.reshape(values, [-1, width])
        for layer in self._dense:
            values = layer(values)
        return values

    def _arrange(self, image: tf.Tensor) -> tf.Tensor:
        """Transpose images to `[row, height, width, channel]` and scale them to [0, 1]."""
        order = [0, *[1 + axis for axis in self._image.order]]
        if order != sorted(order):
            image = tf.transpose(image, order)
        shape = -1, *self._image.size, self._image.channels
        scale = 1 / self._image.largest
        return tf.cast(tf.reshape(image, shape), tf.float32) * scale


def convolution(filters: encodings.Filters, is_large: bool) -> keras.layers.Layer:
    """Make a convolution with ReLU.

    Large images use the convolution of Keras, and programs are not compiled around it, see
    `compile_unless_conv` in `agents.tools.graph.backend`.
    """
    if filters.stride == 1 and not is_large:
        return Convolution(filters.number, filters.size)
    return keras.layers.Conv2D(
        filters.number,
        filters.size,
        filters.stride,
        activation='relu',
        kernel_initializer=keras.initializers.Orthogonal(math.sqrt(2)),
    )


def has_convolutions(*networks: keras.layers.Layer | None) -> bool:
    """Return whether any of some networks has convolutions of Keras."""
    return any(
        isinstance(layer, CONVOLUTIONS)
        for network in networks
        if network is not None
        for layer in network._flatten_layers()
    )


CONVOLUTIONS = (
    keras.layers.Conv1D,
    keras.layers.Conv2D,
    keras.layers.Conv3D,
    keras.layers.Conv1DTranspose,
    keras.layers.Conv2DTranspose,
    keras.layers.Conv3DTranspose,
    keras.layers.DepthwiseConv1D,
    keras.layers.DepthwiseConv2D,
    keras.layers.SeparableConv1D,
    keras.layers.SeparableConv2D,
)


class Convolution(keras.layers.Layer):
    """Convolution with ReLU over small images, as a matrix product.

    Within a compiled program that is faster than the convolution of XLA.

    Args:
        filters: Number of filters.
        size: Height and width of a filter.
    """

    def __init__(self, filters: int, size: int = 3):
        super().__init__()
        (self._dense,) = dense([filters], 'relu')
        self._size = size

    @property
    def weights_by_pixel(self) -> tuple[Any, Any]:
        """Filters `[row, column, channel, filter]`, and the biases."""
        size, kernel = self._size, tf.convert_to_tensor(self._dense.kernel)
        shape = size, size, -1, kernel.shape[-1]
        return tf.reshape(kernel, shape), self._dense.bias

    def call(self, image: tf.Tensor) -> tf.Tensor:
        height = image.shape[1] - self._size + 1
        width = image.shape[2] - self._size + 1
        shifted = [
            image[:, row : row + height, left : left + width]
            for row in range(self._size)
            for left in range(self._size)
        ]
        return self._dense(tf.concat(shifted, -1))


class Recurrent(keras.Model):
    """Recurrent network of an encoder, a cell and a head.

    Args:
        encoder: Maps observations to vectors.
        cell: Maps a vector and a list of one state to a vector and a list of the next state, as
            `keras.layers.GRUCell` does; has a `state_size`.
        head: Maps the output of the cell to the outputs of the network.
    """

    def __init__(self, encoder: Network, cell: Any, head: Any):
        super().__init__()
        self.state_size = cell.state_size
        self._encoder = encoder
        self._cell = cell
        self._head = head

    @property
    def parts(self) -> tuple[Any, Any, Any]:
        """Encoder, cell and head."""
        return self._encoder, self._cell, self._head

    def call(self, observ: Nest, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        features, (state,) = self._cell(self._encoder(observ), [state])
        return self._head(features), state


class GaussianHead(keras.layers.Layer):
    """Head of a Gaussian policy: means from a dense layer, log standard deviations from a weight.

    Args:
        size: Number of actions.
        factor: Gain of the initial weights.
        std: Initial standard deviation.
    """

    def __init__(self, size: int, factor: float, std: float):
        super().__init__()
        self._mean = output(size, factor)
        self._log_std = self.add_weight(
            shape=(size,), initializer=keras.initializers.Constant(math.log(std)), name='log_std'
        )

    @property
    def mean(self) -> Nest:
        """Layer of the means."""
        return self._mean

    @property
    def log_std(self) -> keras.Variable:
        """Log standard deviations, a weight."""
        return self._log_std

    def call(self, features: tf.Tensor) -> tf.Tensor:
        mean = self._mean(features)
        return tf.concat([mean, self.spread(mean)], -1)

    def spread(self, mean: tf.Tensor) -> tf.Tensor:
        """Broadcast the log standard deviations to the shape of the means."""
        log_std = tf.convert_to_tensor(self._log_std)
        return tf.broadcast_to(log_std, tf.shape(mean))


def product(x: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """X W for `[row, in]` and `[in, out]`.

    With the gradient D of the result, that of X is D Wᵀ. A matrix W with two or three columns, as
    in some output layers, is padded with zeros to four, which XLA multiplies faster in both
    directions.
    """
    columns = weights.shape[-1]
    if not 1 < columns < QUICK_COLUMNS:
        return tf.matmul(x, weights)
    wider = tf.pad(weights, [[0, 0], [0, QUICK_COLUMNS - columns]])
    return tf.matmul(x, wider)[:, :columns]
