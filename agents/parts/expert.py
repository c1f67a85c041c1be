"""Demonstrations as tensors."""

from typing import NamedTuple

import gymnasium as gym
import numpy as np

from agents.parts import distributions
from agents.tools import nested
from agents.tools.attr_dict import AttrDict
from agents.tools.graph import bounds, random, state
from agents.tools.graph.backend import tf
from agents.tools.nested import Nest
from agents.tools.runs import demonstrations


class Steps(NamedTuple):
    """Pairs of observation and action, leaves `[row, ...]`.

    Attributes:
        observ: Observations as environments return them.
        action: Actions as distributions are over them; bounded boxes are scaled to [-1, 1].
    """

    observ: Nest
    action: tf.Tensor


class Expert(tf.Module):
    """Demonstrated steps.

    Attributes:
        deaths: Number of episodes that terminated.
        steps: Number of steps of all episodes.

    Args:
        config: Settings; `demonstrations` names the file.
        observ_space: Space of the observations.
        action_space: Space of the actions.
    """

    def __init__(self, config: AttrDict, observ_space: gym.Space, action_space: gym.Space):
        super().__init__()
        found = demonstrations.read(config.demonstrations, observ_space, action_space)
        if config.demonstration_episodes is not None:
            found = found.first(config.demonstration_episodes)
        self.deaths = int(np.sum(found.terminated))
        self.steps = len(found.reward)
        found = found.thinned(config.demonstration_every, config.seed)
        self._count = len(found.reward)
        # Variables, as numbers within a program would be compiled with it.
        self._shown = state.variables(
            (
                nested.map(tf.constant, found.observ),
                flat_action(tf.constant(found.action), action_space),
            )
        )

    def read(self) -> Steps:
        """Return all steps."""
        return Steps(*state.read(self._shown))

    def draw(self, key: tf.Tensor, count: int) -> Steps:
        """Draw `count` steps uniformly, with replacement."""
        uniform = random.uniform(key, (count,))
        rows = tf.cast(uniform * self._count, tf.int32)
        return nested.map(lambda x: tf.gather(x, rows), self.read())


def flat_action(action: tf.Tensor, space: gym.Space) -> tf.Tensor:
    """Convert actions of the environment to the form that distributions are over."""
    return distributions.flatten(space, bounds.from_bounds(action, space))


def given_action(action: tf.Tensor, space: gym.Space) -> tf.Tensor:
    """Clip sampled actions to their bounds, as environments receive them."""
    chosen = distributions.unflatten(space, action)
    return flat_action(bounds.to_bounds(chosen, space), space)
