"""Actor critic using Kronecker-factored trust regions."""

from typing import Any

from agents.algorithms import pieces
from agents.algorithms.algorithm import Networks, Task
from agents.algorithms.learner import Learner, apply_to_rows, define_steps
from agents.algorithms.on_policy import OnPolicy
from agents.algorithms.value_learner import ValueLearner
from agents.config import sizes
from agents.parts import sequences
from agents.parts.losses import score_loss
from agents.parts.natural import Kronecker
from agents.parts.policy import Policy
from agents.parts.record import Rollout
from agents.tools.graph.backend import tf
from agents.tools.nested import Nest

# By how much the step size changes where the divergence is more than twice or
# less than half of what it should be, and how small and large it may become.
ADAPTATION = 1.5
SMALLEST, LARGEST = 1e-3, 1e3


class ACKTR(OnPolicy):
    """Takes one natural gradient step per rollout, with a Kronecker-factored curvature.

    See the README beside this file for the paper and the deviations from it, and
    `agents.algorithms.on_policy` for the collection of rollouts.
    """

    def __init__(self, networks: Networks, task: Task):
        config = task.config
        sizes.require_minibatches(config, sequences.is_recurrent(networks.value))
        policy = pieces.define_policy(networks, task)
        optimizer = Kronecker(
            networks.policy,
            config.learning_rate,
            config.kl_clip,
            config.damping,
            config.factor_decay,
            config.inverse_every,
            config.cold_steps,
            config.momentum,
            config.gradient_clip,
            task.ranks,
        )
        learner = NaturalLearner(policy, optimizer, task)
        value_learner = _define_value_learner(networks, task)
        super().__init__(policy, networks.value, learner, value_learner, task)


class NaturalLearner(Learner):
    """Takes one step along the natural gradient of the score-function estimate.

    Args:
        policy: Policy to improve.
        optimizer: Changes its weights, see `agents.parts.natural`.
        task: Settings and ranks of the algorithm.
    """

    def __init__(self, policy: Policy, optimizer: Kronecker, task: Task):
        super().__init__(optimizer, task)
        self._policy = policy
        self._step_size = tf.Variable(1.0, trainable=False)

    def update(
        self, rollout: Rollout, key: tf.Tensor, learning_rate_scale: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        network = self._policy.network
        old = self._policy.distribution(rollout.predictions.output, rollout.inputs.mask)
        steps = {
            **define_steps(rollout, self._config, self._ranks),
            # What the policy might have done, for its curvature.
            'sampled': old.sample(key),
        }
        metrics = self.optimizer.minimize(
            self._loss,
            sequences.to_rows(network, steps, rollout.state.policy),
            learning_rate_scale * self._step_size,
            sequences.rows_per_part(network, self._config.update_every),
        )
        new = self._policy.unroll(rollout.inputs, rollout.begins, rollout.state.policy)
        kl = self._ranks.mean(tf.reduce_mean(old.kl(new)))
        self._adapt(kl, learning_rate_scale)
        return {
            **metrics,
            'kl': kl,
            'step_size': self._step_size.read_value(),
            'skipped': self.optimizer.skipped,
        }

    def saved(self) -> dict[str, Any]:
        return {**super().saved(), 'step_size': self._step_size}

    def _loss(self, rows: Nest) -> dict[str, tf.Tensor]:
        steps, policy = apply_to_rows(self._policy, rows)
        score = score_loss(policy.log_prob(steps['action']), steps['advantage'])
        entropy = tf.reduce_mean(policy.entropy())
        return {
            'loss': score - self._config.entropy_bonus * entropy,
            'entropy': entropy,
            'score': tf.reduce_mean(policy.log_prob(steps['sampled'])),
        }

    def _adapt(self, kl: tf.Tensor, scale: tf.Tensor) -> None:
        """Adapt the step size to the KL divergence of the last step."""
        target, size = self._config.kl_target * scale, self._step_size
        adapted = tf.where(kl > 2 * target, size / ADAPTATION, size)
        # A step that was skipped tells nothing.
        short = (kl < target / 2) & (self.optimizer.skipped == 0)
        adapted = tf.where(short, size * ADAPTATION, adapted)
        self._step_size.assign(tf.clip_by_value(adapted, SMALLEST, LARGEST))


def _define_value_learner(networks: Networks, task: Task) -> ValueLearner:
    config, network = task.config, networks.learnt_value
    rate = config.value_learning_rate
    with tf.device(task.value_device):
        optimizer = Kronecker(
            network,
            config.learning_rate if rate is None else rate,
            config.value_kl_clip,
            config.value_damping,
            config.value_factor_decay,
            config.inverse_every,
            config.value_cold_steps,
            config.momentum,
            config.gradient_clip,
            task.ranks,
            task.averages_by_epoch,
        )
        return ValueLearner(network, optimizer, config.value_batch_size, config.value_epochs, task)
