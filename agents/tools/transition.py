"""Outcome of a step of a batch of environments."""

from typing import NamedTuple

from agents.tools.graph.backend import tf
from agents.tools.nested import Nest


class Transition(NamedTuple):
    """Outcome of actions, each field `[agent, ...]`.

    A terminated episode has reached a state without further reward. A truncated one was cut off,
    for example by a time limit; its return bootstraps from the value of `next_observ`, the true
    successor even if the environment has been reset since.

    A step is lost if the environment failed in it and was restarted. The episode is truncated, and
    there is neither reward nor successor: `next_observ` is the observation that was acted on.
    Nothing is learnt from it.
    """

    reward: tf.Tensor
    terminated: tf.Tensor
    truncated: tf.Tensor
    next_observ: Nest
    lost: tf.Tensor

    @property
    def done(self) -> tf.Tensor:
        """Mask of the agents whose episode ended, terminated or truncated."""
        return tf.logical_or(self.terminated, self.truncated)
