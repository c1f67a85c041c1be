"""Base of the learners that improve a policy or a value network."""

from typing import Any

from agents.algorithms.algorithm import Task
from agents.parts import returns, sequences
from agents.parts.optimizer import Optimizer
from agents.parts.policy import Policy
from agents.parts.record import Rollout
from agents.tools.attr_dict import AttrDict
from agents.tools.graph.backend import tf
from agents.tools.graph.communicator import ALONE, Communicator
from agents.tools.nested import Nest


class Learner(tf.Module):
    """Improves a network by rollouts; `update` is compiled.

    Attributes:
        draws: Number of random keys that an update uses.

    Args:
        optimizer: Changes the weights, see `agents.parts.optimizer`.
        task: Settings and ranks of the algorithm.
    """

    draws = 1

    def __init__(self, optimizer: Optimizer, task: Task):
        super().__init__()
        self.optimizer = optimizer
        self._config = task.config
        self._ranks = task.ranks

    def update(
        self, rollout: Rollout, key: tf.Tensor, learning_rate_scale: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Learn from a rollout.

        Args:
            rollout: Rollout with normalized inputs, advantages and returns.
            key: First of `draws` consecutive random keys.
            learning_rate_scale: Factor of the learning rate.

        Returns:
            Metrics for the log. The policy or the value is prefixed to `loss` and
            `gradient_norm`; `skipped` counts consecutive gradients that were not finite.
        """
        raise NotImplementedError

    def failure(self) -> Exception | None:
        """Return the error that ends the training, or None."""
        return self.optimizer.failure()

    def summary(self, owner: str) -> dict[str, tf.Tensor]:
        """Return tensors for histograms, by name, for the owner `policy` or `value`."""
        return self.optimizer.summary(owner)

    def saved(self) -> dict[str, Any]:
        """Return the contents of a checkpoint by name, without the weights."""
        return {'optimizer': self.optimizer}


def define_steps(rollout: Rollout, config: AttrDict, ranks: Communicator = ALONE) -> dict[str, Any]:
    """Return the inputs of a policy gradient, for `sequences.to_rows`."""
    return {
        'inputs': rollout.inputs,
        'begins': rollout.begins,
        'action': rollout.action,
        'advantage': scale_advantage(rollout, config, ranks),
    }


def apply_to_rows(policy: Policy, rows: Nest) -> tuple[dict[str, Any], Any]:
    """Return the steps in rows and the action distributions of a policy for them."""
    steps, before = sequences.from_rows(policy.network, rows)
    return steps, policy.unroll(steps['inputs'], steps['begins'], before)


def scale_advantage(rollout: Rollout, config: AttrDict, ranks: Communicator = ALONE) -> tf.Tensor:
    """Return the advantages, normalized if the settings say so; zero at lost steps."""
    if not config.normalize_advantage:
        return rollout.advantage
    normalized = returns.normalized(rollout.advantage, ranks)
    return tf.where(rollout.lost, 0.0, normalized)
