"""The way from an observation to an action."""

from typing import Any

import gymnasium as gym

from agents.parts import distributions, normalize, sequences
from agents.tools.attr_dict import AttrDict
from agents.tools.graph.backend import tf


def define(
    network: Any,
    observ_space: gym.Space,
    action_space: gym.Space,
    config: AttrDict,
) -> 'Policy':
    """Make a policy with the normalizer that a configuration asks for."""
    normalizer = normalize.NormalizeObserv(
        observ_space, config.normalize_observ, config.observ_clip
    )
    return Policy(network, normalizer, action_space)


class Policy(tf.Module):
    """Normalizes observations and turns them into distributions of actions.

    All that is needed to act, in training, in evaluation and afterwards.

    Args:
        network: Maps observations to `distributions.output_size` numbers.
        normalizer: Normalizes the observations.
        action_space: Space of the actions.
    """

    def __init__(
        self,
        network: Any,
        normalizer: normalize.NormalizeObserv,
        action_space: gym.Space,
    ):
        super().__init__()
        self.network = network
        self.normalizer = normalizer
        self.action_space = action_space

    def step(
        self, observ: Any, state: Any
    ) -> tuple[distributions.Distribution, Any]:
        """The distributions for observations `[agent, ...]`.

        Returns:
            The distributions, and the state of the network for the next step.
        """
        inputs = self.normalizer.transform(observ)
        output, state = sequences.step(self.network, inputs, state)
        return distributions.from_output(self.action_space, output), state

    def unroll(
        self, inputs: Any, begins: tf.Tensor, state: Any
    ) -> distributions.Distribution:
        """The distributions for normalized observations `[time, agent, ...]`.

        Args:
            inputs: Observations that `normalizer` has transformed.
            begins: Where an episode begins, `[time, agent]`.
            state: State of the network before the first step.
        """
        output, _ = sequences.unroll(self.network, inputs, begins, state)
        return distributions.from_output(self.action_space, output)
