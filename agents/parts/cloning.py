"""Supervised learning of a policy from demonstrations."""

from typing import Any

from agents.parts import sequences
from agents.parts.expert import Expert
from agents.parts.policy import Policy
from agents.tools import errors, nested
from agents.tools.graph import loops
from agents.tools.graph.backend import tf
from agents.tools.nested import Nest


class Cloner(tf.Module):
    """Maximizes the log-likelihood of demonstrated actions.

    Each step descends −E[ln π(a|s)] of a minibatch that is drawn at random.

    Pomerleau 1991, Efficient training of artificial neural networks for autonomous navigation.

    Args:
        policy: Policy to train.
        expert: Demonstrations.
        optimizer: Changes the weights of the policy.
        batch_size: Steps of a minibatch.
    """

    def __init__(self, policy: Policy, expert: Expert, optimizer: Any, batch_size: int):
        super().__init__()
        if sequences.is_recurrent(policy.network):
            raise errors.ConfigError(
                'A recurrent policy cannot be cloned from single steps. Choose '
                'a network without memory, or clone_steps=0 to leave it out.'
            )
        self.optimizer = optimizer
        self._policy = policy
        self._expert = expert
        self._batch_size = batch_size

    def update(self, key: tf.Tensor, count: int) -> dict[str, tf.Tensor]:
        """Take `count` gradient steps.

        Args:
            key: First of `count` consecutive random keys.
            count: Number of gradient steps.

        Returns:
            Means over the steps: `loss`, `gradient_norm`.
        """

        def step(number: tf.Tensor) -> dict[str, tf.Tensor]:
            drawn = self._expert.draw(key + tf.stack([0, number]), self._batch_size)
            return self.optimizer.minimize(self._loss, drawn)

        sums = loops.add_up(step, count)
        return nested.map(lambda x: x / count, sums)

    def _loss(self, rows: Nest) -> dict[str, tf.Tensor]:
        inputs = self._policy.normalize(rows.observ)
        inputs, action = nested.map(lambda x: x[None], (inputs, rows.action))
        begins = tf.zeros(action.shape[:2], bool)
        policy = self._policy.unroll(inputs, begins, ())
        return {'loss': -tf.reduce_mean(policy.log_prob(action))}
