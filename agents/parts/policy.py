"""From an observation to an action distribution."""

from typing import Any, NamedTuple

import gymnasium as gym

from agents.parts import distributions, layers, masks, normalize, sequences
from agents.parts.sequences import Network
from agents.tools.attr_dict import AttrDict
from agents.tools.graph.backend import tf
from agents.tools.graph.communicator import ALONE, Communicator
from agents.tools.nested import Nest


class Inputs(NamedTuple):
    """Observations as the policy and the value network take them.

    Attributes:
        visible: Normalized observations without the action mask.
        mask: Action mask `[..., choice]`, or ().
    """

    visible: Nest
    mask: Nest


def define(
    network: Network,
    observ_space: gym.Space,
    action_space: gym.Space,
    config: AttrDict,
    ranks: Communicator = ALONE,
    encoder: Network = None,
) -> 'Policy':
    """Make a policy with the normalizer that the settings ask for."""
    normalizer = normalize.NormalizeObserv(
        masks.visible_space(observ_space, action_space),
        config.normalize_observ,
        config.observ_clip,
        ranks,
    )
    masked = masks.has_mask(observ_space, action_space)
    return Policy(network, normalizer, action_space, masked, encoder)


class Policy(tf.Module):
    """Maps observations to action distributions; all that acting needs, after training as well.

    Args:
        network: Maps observations, or their features, to `distributions.output_size` numbers.
        normalizer: Normalizes observations.
        action_space: Space of the actions.
        masked: Whether observations have an action mask.
        encoder: Encoder that the policy shares with the value network, or None.
    """

    def __init__(
        self,
        network: Network,
        normalizer: normalize.NormalizeObserv,
        action_space: gym.Space,
        masked: bool = False,
        encoder: Network = None,
    ):
        super().__init__()
        self.network = network
        self.encoder = encoder
        self.normalizer = normalizer
        self.action_space = action_space
        self._masked = masked

    @property
    def convolutional(self) -> bool:
        """True if networks have convolutions, so that XLA does not compile them."""
        return layers.has_convolutions(self.network, self.encoder)

    @property
    def weights(self) -> list[Any]:
        """Weights of the encoder and the network."""
        encoder = [] if self.encoder is None else [self.encoder]
        parts = [*encoder, self.network]
        return [weight for part in parts for weight in part.trainable_variables]

    def saved(self) -> dict[str, Any]:
        """Return the contents of a checkpoint by name."""
        return {'network': self.network, 'encoder': self.encoder, 'normalizer': self.normalizer}

    def normalize(self, observ: Nest) -> Inputs:
        """Split the mask off observations `[..., *shape]` and normalize the rest.

        The statistics change in `update_statistics` only.
        """
        visible, mask = masks.split(observ) if self._masked else (observ, ())
        return Inputs(self.normalizer.transform(visible), mask)

    def update_statistics(self, observ: Nest, sound: tf.Tensor | bool = True) -> None:
        """Add observations to the statistics of the normalizer if `sound`."""
        visible, _ = masks.split(observ) if self._masked else (observ, ())
        self.normalizer.update(visible, sound)

    def step(self, observ: Nest, state: Nest) -> tuple[distributions.Distribution, Any]:
        """Return the action distributions for observations `[agent, ...]`.

        Args:
            observ: Observations as the environments return them.
            state: Recurrent state before the step.

        Returns:
            Distributions, and the recurrent state after the step.
        """
        inputs = self.normalize(observ)
        features = self.encode(inputs.visible)
        output, state = sequences.step(self.network, features, state)
        return self.distribution(output, inputs.mask), state

    def encode(self, visible: Nest) -> Nest:
        """Return the features of normalized observations `[agent, ...]`."""
        return visible if self.encoder is None else self.encoder(visible)

    def encode_all(self, visible: Nest) -> Nest:
        """Return the features of normalized observations `[time, agent, ...]`."""
        if self.encoder is None:
            return visible
        features, _ = sequences.step_all(self.encoder, visible, ())
        return features

    def unroll(self, inputs: Inputs, begins: tf.Tensor, state: Nest) -> distributions.Distribution:
        """Return the action distributions for a rollout.

        Args:
            inputs: Normalized observations `[time, agent, ...]`.
            begins: Mask of the first steps of episodes, `[time, agent]`.
            state: Recurrent state before the first step.
        """
        features = self.encode_all(inputs.visible)
        return self.unroll_features(features, inputs.mask, begins, state)

    def unroll_features(
        self, features: Nest, mask: Nest, begins: tf.Tensor, state: Nest
    ) -> distributions.Distribution:
        """Return the action distributions for features from `encode_all`."""
        output, _ = sequences.unroll(self.network, features, begins, state)
        return self.distribution(output, mask)

    def distribution(self, output: tf.Tensor, mask: Nest) -> distributions.Distribution:
        """Return the action distributions for outputs of the network."""
        mask = mask if self._masked else None
        return distributions.from_output(self.action_space, output, mask)
