"""The contract of an algorithm."""

from typing import Any

from agents.tools.graph.backend import tf
from agents.tools.transition import Transition


class Algorithm(tf.Module):
    """What `agents.tools.simulate` and a phase of training ask for.

        for _ in range(update_every):                   # agents.tools.rollout
            algo.begin_episode(batch_env.begins)        # agents.tools.simulate
            action = algo.perform(batch_env.observ)
            batch_env.simulate(action)
            algo.experience(observ, action, batch_env.transition)
            algo.end_episode(batch_env.transition.done)
        algo.update()

    All of it runs in the graph and is compiled: state is in variables, shapes
    are static, and agents are told apart by boolean masks `[agent]`. Nothing
    here knows whether the environments are external or native.
    """

    def restart(self) -> None:
        """Forget the episodes under way, which will not be continued."""

    def begin_episode(self, begins: tf.Tensor) -> None:
        """Forget the episode before, where the mask is true."""

    def perform(self, observ: Any) -> tf.Tensor:
        """Choose actions `[agent, ...]` for observations `[agent, ...]`."""
        raise NotImplementedError

    def experience(
        self, observ: Any, action: tf.Tensor, transition: Transition
    ) -> None:
        """Take in what came of the actions."""

    def end_episode(self, done: tf.Tensor) -> None:
        """Conclude the episode, where the mask is true."""

    def update(self) -> dict[str, tf.Tensor]:
        """Learn from the experience since the last update.

        Returns:
            Numbers by name for the log.
        """
        return {}

    def is_sound(self) -> tf.Tensor:
        """Whether to go on within a program of several updates."""
        return tf.constant(True)

    def failure(self) -> Exception | None:
        """Why to give up, if there is reason to; asked after each update."""
        return None

    def summary(self) -> dict[str, tf.Tensor]:
        """Tensors by name that are worth a histogram."""
        return {}
