"""REINFORCE with a value baseline."""

from typing import Any

from agents.algorithms import sizes
from agents.algorithms.on_policy import OnPolicy, Rollout
from agents.parts import sequences
from agents.tools.graph import state
from agents.tools.graph.backend import compiled, tf


class REINFORCE(OnPolicy):
    """Takes one gradient step on a whole rollout.

    See the README beside this file for the paper and the deviations from it,
    and `agents.algorithms.on_policy` for how the rollout comes about.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        recurrent = sequences.is_recurrent(self.critic.network)
        sizes.require_minibatches(self.config, recurrent)

    def learn(self, rollout: Rollout) -> dict[str, tf.Tensor]:
        return self.learn_both(
            rollout,
            self._learn_policy,
            self.config.value_batch_size,
            self.config.value_epochs,
        )

    @compiled
    def _learn_policy(self, rollout: Rollout) -> dict[str, tf.Tensor]:
        network = self.policy.network
        steps = {
            'observ': rollout.observ,
            'begins': rollout.begins,
            'action': rollout.action,
            'advantage': self.policy_advantage(rollout),
        }
        metrics = self.optimizer.minimize(
            self._loss,
            ('loss', 'entropy'),
            sequences.to_rows(network, steps, state.read(self._first_state)),
            self.learning_rate_scale(rollout),
            sequences.rows_per_part(network, self.config.update_every),
        )
        return {**metrics, 'skipped': self.optimizer.skipped}

    def _loss(self, rows: Any) -> dict[str, tf.Tensor]:
        steps, before = sequences.from_rows(self.policy.network, rows)
        policy = self.policy.unroll(steps['observ'], steps['begins'], before)
        score = score_loss(policy.log_prob(steps['action']), steps['advantage'])
        entropy = tf.reduce_mean(policy.entropy())
        loss = score - self.config.entropy_bonus * entropy
        return {'loss': loss, 'entropy': entropy}


def score_loss(log_prob: tf.Tensor, advantage: tf.Tensor) -> tf.Tensor:
    """−E[Â ln π(a|s)], whose gradient is the score-function estimate.

    The mean is over rows, not over episodes. So the gradients of parts of a
    batch, weighted by how many rows each has, average to the gradient of the
    whole, however long the episodes are.

    Williams 1992, Simple statistical gradient-following algorithms for
    connectionist reinforcement learning.
    """
    return -tf.reduce_mean(advantage * log_prob)
