"""Layers that networks of the spaces of Gymnasium are made of."""

import math
from typing import Any

import gymnasium as gym

from agents.parts import products
from agents.tools import nested, spaces
from agents.tools.graph.backend import keras, tf

# Images of at least so many pixels in height and width are made smaller by the
# first filters, as (size, stride) in pixels of each layer; others stay large.
LARGE = 36
LARGE_FILTERS = (8, 4), (4, 2), (3, 1)
SMALL_FILTERS = ((3, 1),)


def dense(sizes: list[int], activation: Any) -> list[keras.layers.Layer]:
    """Dense layers behind each other."""
    return [
        Dense(
            size,
            activation,
            kernel_initializer=keras.initializers.Orthogonal(math.sqrt(2)),
        )
        for size in sizes
    ]


def output(size: int, factor: float = 1.0) -> keras.layers.Layer:
    """A dense layer whose first weights have the scale of a factor."""
    initializer = keras.initializers.Orthogonal(factor)
    return Dense(size, kernel_initializer=initializer)


class Dense(keras.layers.Dense):
    """That of Keras, with a gradient that compiles into a quicker program."""

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> Any:
        if len(inputs.shape) != 2:
            return super().call(inputs, training=training)
        kernel = tf.convert_to_tensor(self.kernel)
        values = products.product(inputs, kernel)
        if self.use_bias:
            values += tf.convert_to_tensor(self.bias)
        return values if self.activation is None else self.activation(values)


class Encoder(keras.layers.Layer):
    """Makes a vector of observations, each leaf by an encoder for its space.

    Images go through convolutions, everything else is flattened.

    Args:
        space: Space of the observations.
        filters: Numbers of filters of the convolutions.
    """

    def __init__(self, space: gym.Space, filters: list[int]):
        super().__init__()
        self._encoders = [
            Convolutions(leaf, filters)
            if is_image(leaf, filters)
            else Flatten(leaf)
            for leaf in spaces.leaves(space)
        ]

    def call(self, observ: Any) -> tf.Tensor:
        leaves = nested.flatten(observ)
        pairs = zip(self._encoders, leaves, strict=True)
        parts = [encoder(leaf) for encoder, leaf in pairs]
        return tf.concat(parts, -1) if len(parts) > 1 else parts[0]


class Flatten(keras.layers.Layer):
    """Joins the leaves of observations to a vector, choices as one-hot."""

    def __init__(self, space: gym.Space):
        super().__init__()
        self._space = space

    def call(self, observ: Any) -> tf.Tensor:
        parts = [
            self._flat(space, leaf)
            for space, leaf in zip(
                spaces.leaves(self._space), nested.flatten(observ), strict=True
            )
        ]
        return tf.concat(parts, -1) if len(parts) > 1 else parts[0]

    def _flat(self, space: gym.Space, leaf: tf.Tensor) -> tf.Tensor:
        match space:
            # Sequential models of Keras turn what they are given into floats.
            case gym.spaces.Discrete():
                return tf.one_hot(tf.cast(leaf, tf.int32), int(space.n))
            case gym.spaces.MultiDiscrete():
                leaf = tf.reshape(leaf, [leaf.shape[0], -1])
                leaf = tf.cast(leaf, tf.int32)
                counts = space.nvec.reshape(-1).tolist()
                columns = tf.unstack(leaf, axis=-1)
                pairs = zip(columns, counts, strict=True)
                return tf.concat([tf.one_hot(*pair) for pair in pairs], -1)
        leaf = tf.cast(leaf, tf.float32)
        if space.dtype == 'uint8':
            leaf = leaf / 255
        return tf.reshape(leaf, [leaf.shape[0], math.prod(leaf.shape[1:])])


class Convolutions(keras.layers.Layer):
    """Convolutions over images of bytes behind each other, flattened.

    Args:
        space: Space of the images, `[height, width, channel]`.
        filters: Number of filters of each convolution.
    """

    def __init__(self, space: gym.Space, filters: list[int]):
        super().__init__()
        sizes = filter_sizes(space, len(filters))
        self._layers = [
            Convolution(count, size, stride)
            for count, (size, stride) in zip(filters, sizes, strict=True)
        ]

    def call(self, image: tf.Tensor) -> tf.Tensor:
        values = tf.cast(image, tf.float32) * (1 / 255)
        for layer in self._layers:
            values = layer(values)
        width = math.prod(values.shape[1:])
        return tf.reshape(values, [values.shape[0], width])


class Convolution(keras.layers.Layer):
    """Applies filters to squares of the pixels of images, and rectifies.

    As a product of matrices, since that of XLA for the processor takes a
    hundred times as long within a program.

    Args:
        filters: Number of filters.
        size: Height and width of a square.
        stride: Pixels from one square to the next.
    """

    def __init__(self, filters: int, size: int = 3, stride: int = 1):
        super().__init__()
        (self._dense,) = dense([filters], 'relu')
        self._size, self._stride = size, stride

    def call(self, image: tf.Tensor) -> tf.Tensor:
        size, stride = self._size, self._stride
        height = image.shape[1] - size + 1
        width = image.shape[2] - size + 1
        shifted = [
            image[:, row : row + height : stride, left : left + width : stride]
            for row in range(size)
            for left in range(size)
        ]
        return self._dense(tf.concat(shifted, -1))


class Recurrent(keras.Model):
    """A network that remembers, made of an encoder, a cell and a head.

    Args:
        encoder: Makes vectors of observations.
        cell: Maps a vector and a list of one state to a vector and such a
            list, as `keras.layers.GRUCell` does; has a `state_size`.
        head: Maps what the cell puts out to the numbers of the network.
    """

    def __init__(self, encoder: Any, cell: Any, head: Any):
        super().__init__()
        self.state_size = cell.state_size
        self._encoder = encoder
        self._cell = cell
        self._head = head

    def call(
        self, observ: Any, state: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        features, (state,) = self._cell(self._encoder(observ), [state])
        return self._head(features), state


class GaussianHead(keras.layers.Layer):
    """Means from a dense layer, logarithms of deviations from a weight.

    Args:
        size: Number of actions.
        factor: Scale of the first weights.
        std: Deviation at the beginning.
    """

    def __init__(self, size: int, factor: float, std: float):
        super().__init__()
        self._mean = output(size, factor)
        self._log_std = self.add_weight(
            shape=(size,),
            initializer=keras.initializers.Constant(math.log(std)),
            name='log_std',
        )

    @property
    def log_std(self) -> keras.Variable:
        """The logarithms of the deviations, a weight."""
        return self._log_std

    def call(self, features: tf.Tensor) -> tf.Tensor:
        mean = self._mean(features)
        return tf.concat([mean, self.spread(mean)], -1)

    def spread(self, mean: tf.Tensor) -> tf.Tensor:
        """The logarithms of the deviations, the same for all means."""
        log_std = tf.convert_to_tensor(self._log_std)
        return tf.broadcast_to(log_std, mean.shape)


def is_image(space: gym.Space, filters: list[int]) -> bool:
    """Whether a space is of images of bytes large enough for so many filters.

    Images are `[height, width, channel]`.
    """
    if not isinstance(space, gym.spaces.Box) or space.dtype != 'uint8':
        return False
    shape = spaces.shape(space)
    if len(shape) != 3:
        return False
    left = min(shape[:2])
    for size, stride in filter_sizes(space, len(filters)):
        left = (left - size) // stride + 1
    return left > 0


def filter_sizes(space: gym.Space, count: int) -> list[tuple[int, int]]:
    """Sizes and strides of so many convolutions over images of a space.

    For large images those of Mnih et al. 2015, Human-level control through
    deep reinforcement learning.
    """
    large = min(spaces.shape(space)[:2]) >= LARGE
    sizes = LARGE_FILTERS if large else SMALL_FILTERS
    return [sizes[min(index, len(sizes) - 1)] for index in range(count)]
