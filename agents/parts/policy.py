"""The way from an observation to an action."""

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
        visible: What networks see: normalized, and without a mask.
        mask: Which choices are possible, `[..., choice]`, or () if there is no
            mask.
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
    """Make a policy with the normalizer that a configuration asks for."""
    normalizer = normalize.NormalizeObserv(
        masks.visible_space(observ_space, action_space),
        config.normalize_observ,
        config.observ_clip,
        ranks,
    )
    masked = masks.has_mask(observ_space, action_space)
    return Policy(network, normalizer, action_space, masked, encoder)


class Policy(tf.Module):
    """Normalizes observations and turns them into distributions of actions.

    All that is needed to act, in training, in evaluation and afterwards.

    Args:
        network: Maps observations, or what an encoder makes of them, to
            `distributions.output_size` numbers.
        normalizer: Normalizes the observations.
        action_space: Space of the actions.
        masked: Whether observations have a mask of the actions.
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
        """Whether programs are not to be compiled around it."""
        return layers.has_convolutions(self.network, self.encoder)

    @property
    def weights(self) -> list[Any]:
        """The weights, those of the encoder first."""
        encoder = [] if self.encoder is None else [self.encoder]
        parts = [*encoder, self.network]
        return [weight for part in parts for weight in part.trainable_variables]

    def saved(self) -> dict[str, Any]:
        """Return what a checkpoint holds, by name."""
        return {'network': self.network, 'encoder': self.encoder, 'normalizer': self.normalizer}

    def normalize(self, observ: Nest) -> Inputs:
        """Normalize observations `[..., *shape]` as environments return them.

        The statistics that this is done by change by `update_statistics` alone.
        """
        visible, mask = masks.split(observ) if self._masked else (observ, ())
        return Inputs(self.normalizer.transform(visible), mask)

    def update_statistics(self, observ: Nest, sound: tf.Tensor | bool = True) -> None:
        """Add observations to the statistics, if they are sound."""
        visible, _ = masks.split(observ) if self._masked else (observ, ())
        self.normalizer.update(visible, sound)

    def step(self, observ: Nest, state: Nest) -> tuple[distributions.Distribution, Any]:
        """The distributions for observations `[agent, ...]`.

        Args:
            observ: Observations as environments return them.
            state: State of the network before the step.

        Returns:
            The distributions, and the state of the network for the next step.
        """
        inputs = self.normalize(observ)
        features = self.encode(inputs.visible)
        output, state = sequences.step(self.network, features, state)
        return self.distribution(output, inputs.mask), state

    def encode(self, visible: Nest) -> Nest:
        """What networks are given for what is visible, `[agent, ...]`."""
        return visible if self.encoder is None else self.encoder(visible)

    def encode_all(self, visible: Nest) -> Nest:
        """The same for many steps, `[time, agent, ...]`."""
        if self.encoder is None:
            return visible
        features, _ = sequences.step_all(self.encoder, visible, ())
        return features

    def unroll(self, inputs: Inputs, begins: tf.Tensor, state: Nest) -> distributions.Distribution:
        """The distributions for observations `[time, agent, ...]`.

        Args:
            inputs: Observations that `normalize` has returned.
            begins: Where an episode begins, `[time, agent]`.
            state: State of the network before the first step.
        """
        features = self.encode_all(inputs.visible)
        return self.unroll_features(features, inputs.mask, begins, state)

    def unroll_features(
        self, features: Nest, mask: Nest, begins: tf.Tensor, state: Nest
    ) -> distributions.Distribution:
        """The same for what `encode_all` has made of what is visible."""
        output, _ = sequences.unroll(self.network, features, begins, state)
        return self.distribution(output, mask)

    def distribution(self, output: tf.Tensor, mask: Nest) -> distributions.Distribution:
        """The distributions that outputs of the network stand for."""
        mask = mask if self._masked else None
        return distributions.from_output(self.action_space, output, mask)
