"""What one step of a batch of environments tells an algorithm."""

from typing import NamedTuple

from agents.tools.graph.backend import tf
from agents.tools.nested import Nest


class Transition(NamedTuple):
    """The outcome of an action, each field `[agent, ...]`.

    An episode that is terminated has reached a state of no further reward. One
    that is truncated was merely cut off, by a time limit for example, so that
    its return goes on with the value of `next_observ`, which is the true
    successor even if the environment has been reset since.

    A step is lost if the environment failed in it and was started anew. Its
    episode is truncated, and there is neither a reward nor a successor:
    `next_observ` is what was acted on. There is nothing to learn from it.
    """

    reward: tf.Tensor
    terminated: tf.Tensor
    truncated: tf.Tensor
    next_observ: Nest
    lost: tf.Tensor

    @property
    def done(self) -> tf.Tensor:
        """Whether the episode is over, for whatever reason."""
        return tf.logical_or(self.terminated, self.truncated)
