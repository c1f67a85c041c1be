"""The contract of what improves a policy."""

from collections.abc import Callable
from typing import Any

from agents.algorithms.algorithm import Task
from agents.parts import minibatches, returns, sequences
from agents.parts.minibatches import Metrics, Passes
from agents.parts.optimizer import Optimizer
from agents.parts.policy import Policy
from agents.parts.record import Rollout
from agents.tools.attr_dict import AttrDict
from agents.tools.graph import weights
from agents.tools.graph.backend import tf
from agents.tools.graph.communicator import ALONE, Communicator


class Learner(tf.Module):
    """What `agents.algorithms.on_policy` asks of that which learns a policy.

    Each algorithm has one of its own, with whatever it needs: an optimizer, or
    none. `update` is compiled.

    Attributes:
        draws: How many random keys an update uses up.
        learns_value: Whether it learns what a critic predicts as well.
    """

    draws = 1
    learns_value = False

    def update(
        self, rollout: Rollout, key: tf.Tensor, learning_rate_scale: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Improve the policy by a rollout.

        Args:
            rollout: What to learn from.
            key: Random key, of which `draws` follow each other.
            learning_rate_scale: Factor of the learning rate.

        Returns:
            Numbers by name for the log. In there, `loss` and `gradient_norm`
            become those of the policy, and `skipped`, how many gradients in a
            row were useless, is added to that of the value.
        """
        raise NotImplementedError

    def failure(self) -> Exception | None:
        """Why to give up, if there is reason to."""
        return None

    def summary(self) -> dict[str, tf.Tensor]:
        """Tensors by name that are worth a histogram."""
        return {}

    def saved(self) -> dict[str, Any]:
        """Return what a checkpoint holds, by name; the policy is saved anyhow.

        By default all variables, by the names of attributes.
        """
        return weights.attributes(self)


class GradientLearner(Learner):
    """One whose policy is changed by an optimizer.

    Args:
        policy: The policy.
        optimizer: Changes its weights, see `agents.parts.optimizer`.
        task: What the algorithm is made for.
    """

    def __init__(self, policy: Policy, optimizer: Optimizer, task: Task):
        super().__init__()
        self.optimizer = optimizer
        self._policy = policy
        self._config = task.config
        self._ranks = task.ranks

    def failure(self) -> Exception | None:
        return self.optimizer.failure()

    def saved(self) -> dict[str, Any]:
        return {'optimizer': self.optimizer}

    def summary(self) -> dict[str, tf.Tensor]:
        return self.optimizer.summary('policy')


class MinibatchLearner(GradientLearner):
    """One that goes through rollouts in minibatches, as the critic does."""

    def update(
        self, rollout: Rollout, key: tf.Tensor, learning_rate_scale: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        passes, conclude = self.begin(rollout, key, learning_rate_scale)
        return conclude(minibatches.train(passes, self.optimizer.ranks))

    def begin(
        self, rollout: Rollout, key: tf.Tensor, learning_rate_scale: tf.Tensor
    ) -> tuple[Passes, Callable[[Metrics], Metrics]]:
        """What `update` goes through, and what it makes of the numbers."""
        raise NotImplementedError


def define_steps(rollout: Rollout, config: AttrDict, ranks: Communicator = ALONE) -> dict[str, Any]:
    """What a policy is improved by, for `sequences.to_rows`."""
    return {
        'inputs': rollout.inputs,
        'begins': rollout.begins,
        'action': rollout.action,
        'advantage': scale_advantage(rollout, config, ranks),
    }


def apply_to_rows(policy: Policy, rows: Any) -> tuple[dict[str, Any], Any]:
    """The steps that rows are, and the distributions of a policy for them."""
    steps, before = sequences.from_rows(policy.network, rows)
    return steps, policy.unroll(steps['inputs'], steps['begins'], before)


def scale_advantage(rollout: Rollout, config: AttrDict, ranks: Communicator = ALONE) -> tf.Tensor:
    """The advantages by which a policy is improved; zero where lost."""
    if not config.normalize_advantage:
        return rollout.advantage
    normalized = returns.normalized(rollout.advantage, ranks)
    return tf.where(rollout.lost, 0.0, normalized)
