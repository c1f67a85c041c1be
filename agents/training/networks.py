"""Networks, by the name in the settings.

A network is a function of the spaces and the settings that returns two Keras models, one for the
policy and one for the value:

    from agents.tools.graph.backend import keras  # Quiet, and set up for this.

    def linear(observ_space, action_space, config):
        size = distributions.output_size(action_space)
        policy = keras.Sequential([layers.Flatten(observ_space), Dense(size)])
        value = keras.Sequential([layers.Flatten(observ_space), Dense(1)])
        return Networks(policy, value)

The models map a batch of normalized observations to the parameters of an action distribution, see
`agents.parts.distributions`, and to the value. A recurrent model has an attribute `state_size` and
maps (observations, state) to (outputs, state), see `agents.parts.sequences`. Models are called in
inference mode: Dropout, for one, does nothing.

The networks here consist of an encoder by the space of the observations, optionally a recurrent
cell, and a head by the space of the actions. Each can be replaced:

    def with_my_encoder(observ_space, action_space, config):
        return compose(observ_space, action_space, config, encoder=my_encoder)

where `my_encoder` has the arguments and the result of `define_encoder`. Policy and value can share
an encoder: a function may return it as a third model, and the first two map its output.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym

from agents.algorithms.algorithm import Networks
from agents.parts import distributions, encodings, layers, masks, sequences
from agents.parts.sequences import Network
from agents.tools import errors, nested, spaces
from agents.tools.attr_dict import AttrDict
from agents.tools.graph.backend import keras, tf
from agents.tools.nested import Nest

# What layers keep that normalize by statistics of their own.
STATISTICS = 'moving_mean', 'moving_variance'


def define_encoder(
    observ_space: gym.Space, sizes: list[int], config: AttrDict
) -> keras.layers.Layer:
    """Make the encoder from observations to a vector.

    Encodes each leaf by its space, see `agents.parts.encodings`, followed by dense layers.

    Args:
        observ_space: Space of the observations.
        sizes: Sizes of the dense layers.
        config: Settings.
    """
    first = layers.Encoder(observ_space, config)
    if not sizes:  # Sequential models would turn bytes into floats.
        return first
    return keras.Sequential([first, *layers.dense(sizes, config.activation)])


def define_gru(config: AttrDict) -> keras.layers.Layer:
    """Make a gated recurrent unit."""
    return keras.layers.GRUCell(config.recurrent_units)


def define_head(action_space: gym.Space, config: AttrDict) -> keras.layers.Layer:
    """Make the layer that outputs the parameters of the action distribution.

    For boxes, means and log standard deviations that do not depend on the input; else logits.
    """
    factor = config.init_output_factor
    if isinstance(action_space, gym.spaces.Box):
        size = math.prod(spaces.shape(action_space))
        return layers.GaussianHead(size, factor, config.init_std)
    return layers.output(distributions.output_size(action_space), factor)


def compose(
    observ_space: gym.Space,
    action_space: gym.Space,
    config: AttrDict,
    encoder: Callable[..., Any] = define_encoder,
    memory: Callable[..., Any] | None = None,
    head: Callable[..., Any] = define_head,
) -> Networks:
    """Make the networks of policy and value from an encoder, a cell and a head.

    The encoder may be shared, see the setting `shared_encoder`.

    Args:
        observ_space: Space of the observations.
        action_space: Space of the actions.
        config: Settings.
        encoder: Makes the encoder of a network, see `define_encoder`.
        memory: Makes a recurrent cell, see `define_gru`; None for feed-forward networks.
        head: Makes the head of the policy, see `define_head`.
    """
    shared = None
    if encodings.shares_encoder(observ_space, config):
        shared = encoder(observ_space, [], config)

    def join(sizes: list[int], define_last: Callable[[], Any]) -> keras.Model:
        if shared is None:
            first = [encoder(observ_space, sizes, config)]
        else:
            first = layers.dense(sizes, config.activation)
        if memory is None:
            return keras.Sequential([*first, define_last()])
        before = keras.Sequential(first or [keras.layers.Identity()])
        return layers.Recurrent(before, memory(config), define_last())

    return Networks(
        join(config.policy_layers, lambda: head(action_space, config)),
        join(config.value_layers, lambda: layers.output(1)),
        shared,
    )


def feed_forward(observ_space: gym.Space, action_space: gym.Space, config: AttrDict) -> Networks:
    """Make feed-forward networks."""
    return compose(observ_space, action_space, config)


def recurrent(observ_space: gym.Space, action_space: gym.Space, config: AttrDict) -> Networks:
    """Make networks with a gated recurrent unit."""
    return compose(observ_space, action_space, config, memory=define_gru)


NETWORKS = {function.__name__: function for function in (feed_forward, recurrent)}


def define(
    observ_space: gym.Space,
    action_space: gym.Space,
    config: AttrDict,
    value_device: str | None = None,
) -> Networks:
    """Build the networks of a configuration, with seeded weights.

    Args:
        observ_space: Space of the observations; an action mask in it is hidden from the networks.
        action_space: Space of the actions.
        config: Settings.
        value_device: Device for a copy of the value network, if one is needed to learn on.
    """
    observ_space = masks.visible_space(observ_space, action_space)
    function = config.network
    if not callable(function):
        errors.require_known('network', function, NETWORKS)
        function = NETWORKS[function]
    arguments = function, observ_space, action_space, config
    networks = _make(*arguments)
    size = distributions.output_size(action_space)
    inputs = _zeros(observ_space)
    if networks.encoder is not None:
        _require_no_memory(networks.encoder)
        encode = functools.partial(networks.encoder, inputs)
        inputs = encode()
        _require_known_weights('encoder', networks.encoder, encode)
    _build('policy', networks.policy, inputs, size)
    # Layers that they share have weights by now.
    _require_separate(networks)
    _build('value', networks.value, inputs, 1)
    if value_device is not None and networks.are_apart:
        with tf.device(value_device):
            networks = networks._replace(value_copy=_make(*arguments).value)
            _build('value', networks.value_copy, inputs, 1)
    for name, network in networks._asdict().items():
        _require_no_statistics(name, network)
    return networks


def _zeros(observ_space: gym.Space) -> Nest:
    """Return a batch of one observation of zeros."""
    return nested.map(
        lambda spec: tf.zeros((1, *spec.shape), spec.dtype), spaces.specs(observ_space)
    )


def _make(
    function: Any, observ_space: gym.Space, action_space: gym.Space, config: AttrDict
) -> Networks:
    keras.utils.set_random_seed(config.seed)
    made = function(observ_space, action_space, config)
    if isinstance(made, Networks):
        return made
    if not isinstance(made, Sequence) or len(made) not in (2, 3):
        raise errors.ConfigError(
            f'The network {_name(function)} must return two models, for the policy and '
            f'the value, or a third one, an encoder for both, got {made!r}. Return them '
            'as a tuple.'
        )
    return Networks(*made)


def _name(function: Any) -> str:
    return getattr(function, '__name__', repr(function))


def _require_no_memory(encoder: Network) -> None:
    if sequences.is_recurrent(encoder):
        raise errors.ConfigError(
            'The encoder must not be recurrent, but has a state_size. Make policy and '
            'value recurrent instead.'
        )


def _require_separate(networks: Networks) -> None:
    made = networks._asdict().items()
    parts = [(name, network) for name, network in made if network is not None]
    for (one, network), (other, another) in itertools.combinations(parts, 2):
        weights = {id(weight) for weight in network.weights}
        for weight in another.weights:
            if id(weight) in weights:
                raise errors.ConfigError(
                    f'The {one} and the {other} share the weight '
                    f'{weight.path}. Return two models that have layers of '
                    'their own, and what is before both as a third one, an '
                    'encoder.'
                )


def _build(name: str, network: Network, inputs: Nest, size: int) -> None:
    """Create the weights of a network by applying it once."""
    state = sequences.zero_state(network, 1)
    output, _ = sequences.step(network, inputs, state)
    _require_known_weights(name, network, lambda: sequences.step(network, inputs, state))
    if tuple(output.shape) != (1, size):
        raise errors.ConfigError(
            f'The {name} network puts out {tuple(output.shape[1:])} numbers '
            f'for an observation where {size} were expected, see '
            'agents.parts.distributions.output_size.'
        )


def _require_known_weights(name: str, network: Network, apply: Callable[[], Any]) -> None:
    """Refuse a network that uses weights which Keras does not track.

    They would be neither trained nor saved, without any notice.

    Args:
        name: Name of the network.
        network: Network with weights.
        apply: Applies the network.
    """
    with tf.GradientTape() as tape:
        apply()
    known = {id(weight.value) for weight in network.weights}
    for variable in tape.watched_variables():
        if id(variable) not in known:
            raise errors.ConfigError(
                f'The weights of the {name} network must all be in its '
                f'`weights`, got {variable.name} outside of them. Assign each '
                'layer to an attribute of its own after super().__init__(), '
                'with a name other than `_layers`, which Keras uses.'
            )


def _require_no_statistics(name: str, network: Network) -> None:
    for weight in network.non_trainable_weights if network else []:
        if weight.path.rpartition('/')[2] in STATISTICS:
            raise errors.ConfigError(
                f'The {name} network has {weight.path}, which nothing would '
                'update. Leave BatchNormalization out: observations are '
                'normalized already, and LayerNormalization is fine.'
            )
