"""Kronecker factors of the curvature of a network, layer by layer.

The Fisher matrix of all weights is too large to store. For one layer, which maps rows a to
s = [a, 1] W, it is approximately A ⊗ G with A = E[aᵀa] and G = E[gᵀg], where g is the gradient by
s of the log-probability of a sampled output of the network. Its inverse, times the gradient ∇ of
W, is A⁻¹ ∇ G⁻¹.

Martens and Grosse 2015, Optimizing neural networks with Kronecker-factored approximate curvature;
for convolutions Grosse and Martens 2016, A Kronecker-factored approximate Fisher matrix for
convolution layers.
"""

import contextlib
import math
from collections.abc import Iterator
from typing import Any

from agents.parts import layers
from agents.parts.sequences import Network
from agents.tools import errors
from agents.tools.graph.backend import keras, tf
from agents.tools.nested import Nest

# The smallest mean of the diagonal of a factor, so that it can be divided by.
TINY = 1e-12


class Block:
    """Weights of one layer with a pair of factors.

    Attributes:
        variables: Kernel, bias or both.
        inputs: Number of inputs, with the one for the bias.
        outputs: Number of outputs.
        taken: Inputs `[row, place, input]` and outputs of the layer, recorded while it is tapped;
            empty before.
    """

    def __init__(self, layer: keras.layers.Layer, kernel: Any, bias: Any):
        self._layer = layer
        weights = [weight for weight in (kernel, bias) if weight is not None]
        self.variables = [weight.value for weight in weights]
        self.outputs = self.variables[0].shape[-1]
        self._heights = [math.prod(variable.shape[:-1]) for variable in self.variables]
        self.inputs = sum(self._heights)
        self._has_bias = bias is not None
        self.taken: tuple[tf.Tensor, ...] = ()
        self._count = 0

    @contextlib.contextmanager
    def tapped(self) -> Iterator[None]:
        """Record inputs and outputs of the layer within this context."""
        raise NotImplementedError

    def measure(self, gradient: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the factors A and G as means over the recorded rows.

        Args:
            gradient: Gradient of the mean log-probability by the outputs of the layer.
        """
        inputs, _ = self.taken
        rows, places = inputs.shape[:2]
        gradient = rows * tf.reshape(gradient, [rows * places, self.outputs])
        inputs = tf.reshape(inputs, [rows * places, self.inputs])
        return (
            tf.matmul(inputs, inputs, transpose_a=True) / rows,
            tf.matmul(gradient, gradient, transpose_a=True) / (rows * places),
        )

    def join(self, gradients: list[tf.Tensor]) -> tf.Tensor:
        """Return the gradients of the weights as one matrix `[input, output]`."""
        return tf.concat([tf.reshape(part, [-1, self.outputs]) for part in gradients], 0)

    def split(self, matrix: tf.Tensor) -> list[tf.Tensor]:
        """Split a matrix into gradients of the weights; the inverse of `join`."""
        parts = zip(tf.split(matrix, self._heights), self.variables, strict=True)
        return [tf.reshape(part, weight.shape) for part, weight in parts]

    def begin(self) -> None:
        """Forget recorded inputs and outputs."""
        self.taken, self._count = (), 0

    def require_once(self) -> None:
        """Refuse a layer that was not applied exactly once while tapped.

        Not raised within the layer, as Keras would wrap the error.
        """
        if self._count != 1:
            raise errors.ConfigError(
                f'The layer {self._layer.name!r} is applied {self._count} '
                'times, and there are Kronecker factors for one only. Make '
                'a layer for each, or choose another algorithm.'
            )

    def _take(self, inputs: tf.Tensor, outputs: tf.Tensor) -> None:
        self._count += 1
        rows, *places, width = inputs.shape
        inputs = tf.reshape(inputs, [rows, math.prod(places), width])
        if self._has_bias:
            ones = tf.ones((*inputs.shape[:2], 1))
            inputs = tf.concat([inputs, ones], -1)
        self.taken = inputs, outputs


class DenseBlock(Block):
    """Dense layer, ours or that of Keras, also applied to several places.

    Records the output before the activation by replacing the activation.
    """

    def __init__(self, layer: keras.layers.Layer):
        super().__init__(layer, layer.kernel, layer.bias)

    @contextlib.contextmanager
    def tapped(self) -> Iterator[None]:
        layer = self._layer
        call, activation = layer.call, layer.activation
        given = []

        def take_input(inputs: Nest, *args: Any, **kwargs: Any) -> Any:
            given.append(inputs)
            return call(inputs, *args, **kwargs)

        def take_output(outputs: tf.Tensor) -> Any:
            self._take(self._arrange(given.pop()), outputs)
            return activation(outputs)

        layer.call, layer.activation = take_input, take_output
        try:
            yield
        finally:
            layer.activation = activation
            del layer.call

    def _arrange(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return the inputs of the kernel, `[row, ..., input]`."""
        return inputs


class ConvolutionBlock(DenseBlock):
    """Convolution of Keras, as a matrix product over patches."""

    def _arrange(self, inputs: tf.Tensor) -> tf.Tensor:
        layer = self._layer
        return tf.image.extract_patches(
            inputs,
            [1, *layer.kernel_size, 1],
            [1, *layer.strides, 1],
            [1, *layer.dilation_rate, 1],
            layer.padding.upper(),
        )


class DeviationBlock(Block):
    """Log standard deviations of a Gaussian policy, which have no input."""

    def __init__(self, layer: keras.layers.Layer):
        super().__init__(layer, None, layer.log_std)

    @contextlib.contextmanager
    def tapped(self) -> Iterator[None]:
        layer = self._layer
        spread = layer.spread

        def take(mean: tf.Tensor) -> tf.Tensor:
            outputs = spread(mean)
            self._take(tf.zeros((mean.shape[0], 0)), outputs)
            return outputs

        layer.spread = take
        try:
            yield
        finally:
            del layer.spread


def find_blocks(network: Network) -> list[Block]:
    """Return the blocks of a network in the order of its layers.

    Raises:
        ConfigError: If a layer is of no known kind.
    """
    return [
        _define_block(layer)
        for layer in network._flatten_layers()
        if layer._trainable_variables and layer.trainable
    ]


def _define_block(layer: keras.layers.Layer) -> Block:
    kinds = {
        keras.layers.Dense: DenseBlock,
        keras.layers.Conv2D: ConvolutionBlock,
        layers.GaussianHead: DeviationBlock,
    }
    for kind, define in kinds.items():
        if isinstance(layer, kind) and _is_plain(layer):
            block = define(layer)
            # One that somebody has derived may have other weights as well.
            if len(block.variables) == len(layer._trainable_variables):
                return block
    names = ', '.join(v.path for v in layer._trainable_variables)
    raise errors.ConfigError(
        f'There are no Kronecker factors for the layer {layer.name!r}, a '
        f'{type(layer).__name__}, which has the weights {names}. There are '
        'some for Dense, Conv2D without groups, and the deviations of '
        'GaussianHead. Choose other layers, or another algorithm.'
    )


def _is_plain(layer: keras.layers.Layer) -> bool:
    """Return whether a convolution is of a supported kind."""
    if not isinstance(layer, keras.layers.Conv2D):
        return True
    return layer.groups == 1 and layer.data_format == 'channels_last'


@contextlib.contextmanager
def tapped(blocks: list[Block]) -> Iterator[None]:
    """Record inputs and outputs of all blocks within this context."""
    with contextlib.ExitStack() as stack:
        for block in blocks:
            block.begin()
            stack.enter_context(block.tapped())
        yield
    for block in blocks:
        block.require_once()


def measure(
    blocks: list[Block], tape: tf.GradientTape, score: tf.Tensor
) -> list[tuple[tf.Tensor, tf.Tensor]]:
    """Return the factors of all blocks from their recorded inputs and outputs.

    Args:
        blocks: Blocks that were tapped.
        tape: Gradient tape of the computation.
        score: Mean log-probability of sampled outputs of the network.
    """
    outputs = [block.taken[1] for block in blocks]
    found = tape.gradient(score, outputs, unconnected_gradients='zero')
    pairs = zip(blocks, found, strict=True)
    return [block.measure(gradient) for block, gradient in pairs]


def invert(first: tf.Tensor, second: tf.Tensor, damping: float) -> tuple[tf.Tensor, tf.Tensor]:
    """Invert two factors with a common damping.

    (A + π√λ 1)⁻¹ and (G + √λ/π 1)⁻¹, where π² is the ratio of the mean diagonals of A and G. In 64
    bits, as factors are nearly singular.
    """
    first, second = tf.cast(first, tf.float64), tf.cast(second, tf.float64)
    sizes = [_mean_of_diagonal(matrix) for matrix in (first, second)]
    ratio = tf.sqrt(sizes[0] / sizes[1])
    root = math.sqrt(damping)
    return (
        tf.cast(_inverse(first, root * ratio), tf.float32),
        tf.cast(_inverse(second, root / ratio), tf.float32),
    )


def _mean_of_diagonal(matrix: tf.Tensor) -> tf.Tensor:
    return tf.maximum(tf.linalg.trace(matrix) / matrix.shape[0], TINY)


def _inverse(matrix: tf.Tensor, damping: tf.Tensor) -> tf.Tensor:
    unit = tf.eye(matrix.shape[0], dtype=matrix.dtype)
    inverse = tf.linalg.inv(matrix + damping * unit)
    return 0.5 * (inverse + tf.transpose(inverse))
