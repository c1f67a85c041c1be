"""REINFORCE with a value baseline."""

from agents.algorithms import pieces
from agents.algorithms.algorithm import Networks, Task
from agents.algorithms.learner import Learner, apply_to_rows, define_steps
from agents.algorithms.on_policy import OnPolicy
from agents.config import sizes
from agents.parts import sequences
from agents.parts.losses import score_loss
from agents.parts.optimizer import Optimizer
from agents.parts.policy import Policy
from agents.parts.record import Rollout
from agents.tools.graph.backend import tf
from agents.tools.nested import Nest


class REINFORCE(OnPolicy):
    """Takes one gradient step per rollout.

    See the README beside this file for the paper and the deviations from it, and
    `agents.algorithms.on_policy` for the collection of rollouts.
    """

    def __init__(self, networks: Networks, task: Task):
        config = task.config
        recurrent = sequences.is_recurrent(networks.value)
        sizes.require_minibatches(config, recurrent)
        policy = pieces.define_policy(networks, task)
        optimizer = pieces.define_optimizer(policy.weights, task)
        value_learner = pieces.define_value_learner(
            networks, task, config.value_batch_size, config.value_epochs
        )
        learner = ScoreLearner(policy, optimizer, task)
        super().__init__(policy, networks.value, learner, value_learner, task)


class ScoreLearner(Learner):
    """Takes one step along the score-function estimate of the gradient.

    Args:
        policy: Policy to improve.
        optimizer: Changes its weights.
        task: Settings and ranks of the algorithm.
    """

    def __init__(self, policy: Policy, optimizer: Optimizer, task: Task):
        super().__init__(optimizer, task)
        self._policy = policy

    def update(
        self, rollout: Rollout, key: tf.Tensor, learning_rate_scale: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        network = self._policy.network
        steps = define_steps(rollout, self._config, self._ranks)
        metrics = self.optimizer.minimize(
            self._loss,
            sequences.to_rows(network, steps, rollout.state.policy),
            learning_rate_scale,
            sequences.rows_per_part(network, self._config.update_every),
        )
        return {**metrics, 'skipped': self.optimizer.skipped}

    def _loss(self, rows: Nest) -> dict[str, tf.Tensor]:
        steps, policy = apply_to_rows(self._policy, rows)
        score = score_loss(policy.log_prob(steps['action']), steps['advantage'])
        entropy = tf.reduce_mean(policy.entropy())
        loss = score - self._config.entropy_bonus * entropy
        return {'loss': loss, 'entropy': entropy}
