"""Networks, by the name that a configuration gives them.

A network is a function of the spaces and the configuration that returns two
Keras models, one for the policy and one for the value:

    from agents.tools.graph.backend import keras  # Quiet, and set up for this.

    def linear(observ_space, action_space, config):
        size = distributions.output_size(action_space)
        policy = keras.Sequential([Flatten(observ_space), Dense(size)])
        value = keras.Sequential([Flatten(observ_space), Dense(1)])
        return Networks(policy, value)

The models map a batch of normalized observations to numbers: to those that
describe a distribution over actions, see `agents.parts.distributions`, and to
the value. A model that remembers has an attribute `state_size` and maps
(observations, state) to (numbers, state), see `agents.parts.sequences`. Models
are applied as for inference, so that Dropout, for one, does nothing.
"""

import math
from collections.abc import Sequence
from typing import Any

import gymnasium as gym

from agents.algorithms.on_policy import Networks
from agents.parts import distributions, sequences
from agents.tools import errors, nested, spaces
from agents.tools.attr_dict import AttrDict
from agents.tools.graph.backend import keras, tf

# What layers keep that normalize by statistics of their own.
STATISTICS = 'moving_mean', 'moving_variance'


def feed_forward_gaussian(
    observ_space: gym.Space, action_space: gym.Space, config: AttrDict
) -> Networks:
    """Separate dense layers; the deviation of an action is a weight of its own.

    For boxes of actions.
    """
    _require_actions(action_space, [gym.spaces.Box], 'feed_forward_categorical')
    policy = [
        Flatten(observ_space),
        *_dense_layers(config.policy_layers, config.activation),
        GaussianHead(math.prod(spaces.shape(action_space)), config),
    ]
    return Networks(keras.Sequential(policy), _value(observ_space, config))


def feed_forward_categorical(
    observ_space: gym.Space, action_space: gym.Space, config: AttrDict
) -> Networks:
    """Separate dense layers; logits for each choice.

    For discrete, multi-discrete and multi-binary actions.
    """
    _require_actions(action_space, COUNTED, 'feed_forward_gaussian')
    policy = [
        Flatten(observ_space),
        *_dense_layers(config.policy_layers, config.activation),
        _output(
            distributions.output_size(action_space), config.init_output_factor
        ),
    ]
    return Networks(keras.Sequential(policy), _value(observ_space, config))


def recurrent_gaussian(
    observ_space: gym.Space, action_space: gym.Space, config: AttrDict
) -> Networks:
    """Like `feed_forward_gaussian` with a gated recurrent unit."""
    _require_actions(action_space, [gym.spaces.Box], 'recurrent_categorical')
    head = GaussianHead(math.prod(spaces.shape(action_space)), config)
    return _recurrent(observ_space, head, config)


def recurrent_categorical(
    observ_space: gym.Space, action_space: gym.Space, config: AttrDict
) -> Networks:
    """Like `feed_forward_categorical` with a gated recurrent unit."""
    _require_actions(action_space, COUNTED, 'recurrent_gaussian')
    size = distributions.output_size(action_space)
    head = _output(size, config.init_output_factor)
    return _recurrent(observ_space, head, config)


def convolutional_categorical(
    observ_space: gym.Space, action_space: gym.Space, config: AttrDict
) -> Networks:
    """Separate convolutions over an image of bytes, then dense layers.

    Of 3×3 pixels each, for small images `[height, width, channel]`.
    """
    _require_actions(action_space, COUNTED, 'feed_forward_gaussian')
    _require_image(observ_space)
    size = distributions.output_size(action_space)
    return Networks(
        keras.Sequential(
            [
                *_convolutions(config.convolution_filters),
                *_dense_layers(config.policy_layers, config.activation),
                _output(size, config.init_output_factor),
            ]
        ),
        keras.Sequential(
            [
                *_convolutions(config.convolution_filters),
                *_dense_layers(config.value_layers, config.activation),
                _output(1, 1.0),
            ]
        ),
    )


NETWORKS = {
    function.__name__: function
    for function in (
        feed_forward_gaussian,
        feed_forward_categorical,
        recurrent_gaussian,
        recurrent_categorical,
        convolutional_categorical,
    )
}

COUNTED = [
    gym.spaces.Discrete,
    gym.spaces.MultiDiscrete,
    gym.spaces.MultiBinary,
]


class Flatten(keras.layers.Layer):
    """Joins the leaves of observations to a vector, choices as one-hot."""

    def __init__(self, space: gym.Space):
        super().__init__()
        self._space = space

    def call(self, observ: Any) -> tf.Tensor:
        parts = [
            self._flat(space, leaf)
            for space, leaf in zip(
                _leaf_spaces(self._space), nested.flatten(observ), strict=True
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


class Convolution(keras.layers.Layer):
    """Applies filters to every 3×3 pixels of images, and rectifies.

    As a product of matrices, since that of XLA for the processor takes a
    hundred times as long within a program.
    """

    def __init__(self, filters: int):
        super().__init__()
        (self._dense,) = _dense_layers([filters], 'relu')

    def call(self, image: tf.Tensor) -> tf.Tensor:
        height, width = image.shape[1] - 2, image.shape[2] - 2
        shifted = [
            image[:, row : row + height, column : column + width]
            for row in range(3)
            for column in range(3)
        ]
        return self._dense(tf.concat(shifted, -1))


class GaussianHead(keras.layers.Layer):
    """Means from a dense layer, logarithms of deviations from a weight."""

    def __init__(self, size: int, config: AttrDict):
        super().__init__()
        self._mean = _output(size, config.init_output_factor)
        self._log_std = self.add_weight(
            shape=(size,),
            initializer=keras.initializers.Constant(math.log(config.init_std)),
            name='log_std',
        )

    def call(self, features: tf.Tensor) -> tf.Tensor:
        mean = self._mean(features)
        log_std = tf.convert_to_tensor(self._log_std)
        return tf.concat([mean, tf.broadcast_to(log_std, mean.shape)], -1)


class Recurrent(keras.Model):
    """Dense layers, a gated recurrent unit, and an output layer."""

    def __init__(
        self,
        observ_space: gym.Space,
        layers: list[int],
        head: keras.layers.Layer,
        config: AttrDict,
    ):
        super().__init__()
        self.state_size = config.recurrent_units
        self._features = keras.Sequential(
            [Flatten(observ_space), *_dense_layers(layers, config.activation)]
        )
        self._cell = keras.layers.GRUCell(config.recurrent_units)
        self._head = head

    def call(
        self, observ: Any, state: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        output, (state,) = self._cell(self._features(observ), [state])
        return self._head(output), state


def define(
    observ_space: gym.Space,
    action_space: gym.Space,
    config: AttrDict,
    value_device: str | None = None,
) -> Networks:
    """Build the networks that a configuration names, their weights seeded."""
    function = config.network
    if function is None:
        box = isinstance(action_space, gym.spaces.Box)
        function = (
            'feed_forward_gaussian' if box else 'feed_forward_categorical'
        )
    if not callable(function):
        errors.require_known('network', function, NETWORKS)
        function = NETWORKS[function]
    arguments = function, observ_space, action_space, config
    networks = _make(*arguments)
    _require_separate(networks)
    size = distributions.output_size(action_space)
    _build('policy', networks.policy, observ_space, size)
    with tf.device(value_device):
        if networks.value.weights:
            # It knows its inputs, so its weights were made elsewhere.
            networks = networks._replace(value=_make(*arguments).value)
        _build('value', networks.value, observ_space, 1)
    return networks


def _make(
    function: Any,
    observ_space: gym.Space,
    action_space: gym.Space,
    config: AttrDict,
) -> Networks:
    keras.utils.set_random_seed(config.seed)
    made = function(observ_space, action_space, config)
    if not isinstance(made, Sequence) or len(made) != 2:
        raise errors.ConfigError(
            f'The network {_name(function)} has to return two models, for '
            f'the policy and for the value, not {made!r}.'
        )
    return Networks(*made)


def _name(function: Any) -> str:
    return getattr(function, '__name__', repr(function))


def _require_separate(networks: Networks) -> None:
    weights = {id(weight) for weight in networks.policy.weights}
    for weight in networks.value.weights:
        if id(weight) in weights:
            raise errors.ConfigError(
                f'The policy and the value share the weight {weight.path}, but '
                'each is learnt on its own. Return two models that have '
                'layers of their own.'
            )


def _build(
    name: str, network: keras.Model, observ_space: gym.Space, size: int
) -> None:
    """Let a network make its weights by applying it to an observation."""
    observ = nested.map(
        lambda spec: tf.zeros((1, *spec.shape), spec.dtype),
        spaces.specs(observ_space),
    )
    output, _ = sequences.step(
        network, observ, sequences.zero_state(network, 1)
    )
    for weight in network.non_trainable_weights:
        if weight.path.rpartition('/')[2] in STATISTICS:
            raise errors.ConfigError(
                f'The {name} network has {weight.path}, which nothing would '
                'update. Leave BatchNormalization out: observations are '
                'normalized already, and LayerNormalization is fine.'
            )
    if tuple(output.shape) != (1, size):
        raise errors.ConfigError(
            f'The {name} network puts out {tuple(output.shape[1:])} numbers '
            f'for an observation where {size} were expected, see '
            'agents.parts.distributions.output_size.'
        )


def _recurrent(
    observ_space: gym.Space, head: keras.layers.Layer, config: AttrDict
) -> Networks:
    value_head = _output(1, 1.0)
    return Networks(
        Recurrent(observ_space, config.policy_layers, head, config),
        Recurrent(observ_space, config.value_layers, value_head, config),
    )


def _value(observ_space: gym.Space, config: AttrDict) -> keras.Model:
    layers = _dense_layers(config.value_layers, config.activation)
    return keras.Sequential([Flatten(observ_space), *layers, _output(1, 1.0)])


def _dense_layers(
    sizes: list[int], activation: str
) -> list[keras.layers.Layer]:
    return [
        keras.layers.Dense(
            size,
            activation,
            kernel_initializer=keras.initializers.Orthogonal(math.sqrt(2)),
        )
        for size in sizes
    ]


def _convolutions(filters: list[int]) -> list[keras.layers.Layer]:
    return [
        keras.layers.Rescaling(1 / 255),
        *[Convolution(count) for count in filters],
        keras.layers.Flatten(),
    ]


def _output(size: int, factor: float) -> keras.layers.Layer:
    initializer = keras.initializers.Orthogonal(factor)
    return keras.layers.Dense(size, kernel_initializer=initializer)


def _leaf_spaces(space: gym.Space) -> list[gym.Space]:
    """The spaces of the leaves of an observation, in the order of `nested`."""
    match space:
        case gym.spaces.Dict():
            parts = [space[key] for key in sorted(space.spaces)]
            return [leaf for part in parts for leaf in _leaf_spaces(part)]
        case gym.spaces.Tuple():
            return [leaf for part in space for leaf in _leaf_spaces(part)]
    return [space]


def _require_image(space: gym.Space) -> None:
    image = isinstance(space, gym.spaces.Box) and space.dtype == 'uint8'
    if not image or len(spaces.shape(space)) != 3:
        raise errors.ConfigError(
            'The network is for images of bytes, [height, width, channel], '
            f"not {space}; use 'feed_forward_categorical'."
        )


def _require_actions(space: gym.Space, kinds: list[type], other: str) -> None:
    if not isinstance(space, tuple(kinds)):
        names = ', '.join(kind.__name__ for kind in kinds)
        raise errors.ConfigError(
            f'The network is for actions of {names}, not {space}; use '
            f'{other!r}.'
        )
