"""Proximal policy optimization: rollout → advantages → epochs → minibatches → loss.

Rollout and advantages are those of `agents.algorithms.on_policy`; epochs and loss are here.
"""

from typing import Any

from agents.algorithms import pieces
from agents.algorithms.algorithm import Networks, Task
from agents.algorithms.learner import Learner, define_steps
from agents.algorithms.on_policy import OnPolicy
from agents.algorithms.ppo import losses
from agents.config import sizes
from agents.parts import distributions, minibatches, sequences
from agents.parts.losses import value_loss
from agents.parts.policy import Policy
from agents.parts.record import Rollout
from agents.parts.sequences import Network
from agents.tools import errors
from agents.tools.graph.backend import tf
from agents.tools.nested import Nest


class PPO(OnPolicy):
    """Takes several gradient steps on a rollout without straying far from its policy.

    A policy and a value network that share an encoder are learnt by one loss; separate networks
    are learnt apart, at the same time if there are two devices.

    See the README beside this file for the paper and the deviations from it.
    """

    def __init__(self, networks: Networks, task: Task):
        config = task.config
        sizes.require_minibatches(config, any(map(sequences.is_recurrent, networks)))
        policy = pieces.define_policy(networks, task)
        if networks.encoder is None:
            learner = ProximalLearner(policy, task)
            value_learner = pieces.define_value_learner(
                networks, task, config.batch_size, config.update_epochs
            )
            super().__init__(policy, networks.value, learner, value_learner, task)
        else:
            _require_joint(networks, task)
            learner = ProximalLearner(policy, task, networks.value)
            super().__init__(policy, networks.value, learner, None, task)


class ProximalLearner(Learner):
    """Minimizes the clipped or penalized surrogate, in epochs of minibatches.

    Args:
        policy: Policy to improve.
        task: Spaces, settings and ranks.
        value_network: Value network that shares the encoder of the policy, to be learnt with it;
            None if the value is learnt apart.
    """

    def __init__(self, policy: Policy, task: Task, value_network: Network | None = None):
        weights = list(policy.weights)
        if value_network is not None:
            weights += value_network.trainable_variables
        super().__init__(pieces.define_optimizer(weights, task, in_epochs=True), task)
        self.draws = task.config.update_epochs
        self._policy = policy
        self._value_network = value_network
        self._penalty = tf.Variable(task.config.kl_init_penalty, trainable=False)

    def update(
        self, rollout: Rollout, key: tf.Tensor, learning_rate_scale: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        config, network = self._config, self._policy.network
        part_rows: int | None = sequences.rows_per_part(network, config.update_every)
        if config.surrogate == 'penalty':
            part_rows = None  # The loss is no mean over rows.

        def step(rows: Nest) -> dict[str, tf.Tensor]:
            return self.optimizer.minimize(self._loss, rows, learning_rate_scale, part_rows)

        def is_far(means: dict[str, tf.Tensor]) -> tf.Tensor:
            return means['kl'] > (config.kl_stop or float('inf'))

        metrics = minibatches.train(
            step,
            self._define_rows(rollout),
            sequences.rows_per_batch(network, config.batch_size, config.update_every),
            config.update_epochs,
            key,
            self.optimizer.end_epoch,
            is_far,
        )
        if config.surrogate == 'penalty':
            kl = metrics['kl']
            self._penalty.assign(losses.adapted_penalty(self._penalty, kl, config.kl_target))
        return {
            **metrics,
            'loss': metrics['policy_loss'],
            'penalty': self._penalty.read_value(),
            'skipped': self.optimizer.skipped,
        }

    def saved(self) -> dict[str, Any]:
        return {**super().saved(), 'kl_penalty': self._penalty}

    def _define_rows(self, rollout: Rollout) -> Any:
        """Return what the loss needs of each step, as rows to shuffle."""
        output, old_value, _ = rollout.predictions
        old = self._policy.distribution(output, rollout.inputs.mask)
        steps = {
            **define_steps(rollout, self._config, self._ranks),
            'old_log_prob': old.log_prob(rollout.action),
        }
        before = rollout.state.policy
        if self._config.surrogate == 'penalty':
            steps['old'] = old
        if self._value_network is not None:
            steps |= {'old_value': old_value, 'target': rollout.returns}
            before = rollout.state
        return sequences.to_rows(self._policy.network, steps, before)

    def _loss(self, rows: Nest) -> dict[str, tf.Tensor]:
        """Return the `loss` of a minibatch, and means for the log."""
        config, policy = self._config, self._policy
        steps, before = sequences.from_rows(policy.network, rows)
        if self._value_network is None:
            new = policy.unroll(steps['inputs'], steps['begins'], before)
            return self._policy_loss(steps, new)
        visible, mask = steps['inputs']
        policy_state, value_state = before or ((), ())
        features = policy.encode_all(visible)
        new = policy.unroll_features(features, mask, steps['begins'], policy_state)
        value, _ = sequences.unroll(self._value_network, features, steps['begins'], value_state)
        error = value_loss(value[..., 0], steps['target'], steps['old_value'], config.value_clip)
        means = self._policy_loss(steps, new)
        loss = means['policy_loss'] + config.value_weight * error
        return {**means, 'loss': loss, 'value_loss': error}

    def _policy_loss(
        self, steps: dict[str, Any], new: distributions.Distribution
    ) -> dict[str, tf.Tensor]:
        config, advantage = self._config, steps['advantage']
        log_ratio = new.log_prob(steps['action']) - steps['old_log_prob']
        ratio = tf.exp(log_ratio)
        entropy = tf.reduce_mean(new.entropy())
        if config.surrogate == 'clip':
            kl = losses.kl_estimate(log_ratio)
            loss = losses.clipped_surrogate(ratio, advantage, config.clip_range)
        else:
            kl = self._mean_over_ranks(tf.reduce_mean(steps['old'].kl(new)))
            loss = losses.penalized_surrogate(
                ratio,
                advantage,
                kl,
                self._penalty,
                config.kl_target,
                config.kl_cutoff_factor,
                config.kl_cutoff_coef,
            )
        if config.entropy_bonus:
            loss -= config.entropy_bonus * entropy
        outside = tf.abs(ratio - 1.0) > config.clip_range
        return {
            'loss': loss,
            'policy_loss': loss,
            'kl': kl,
            'entropy': entropy,
            'clip_fraction': tf.reduce_mean(tf.cast(outside, tf.float32)),
        }

    def _mean_over_ranks(self, kl: tf.Tensor) -> tf.Tensor:
        """Return the KL divergence of all ranks, with the gradient of the part of this rank."""
        ranks = self.optimizer.ranks
        return kl if ranks.size == 1 else kl + tf.stop_gradient(ranks.mean(kl) - kl)


def _require_joint(networks: Networks, task: Task) -> None:
    """Refuse settings and networks that one loss cannot be of."""
    if task.config.value_learning_rate is not None:
        raise errors.ConfigError(
            'value_learning_rate must be left out with a shared encoder, as one '
            'optimizer learns policy and value. Use value_weight, or choose '
            'shared_encoder=False.'
        )
    if len({*map(sequences.is_recurrent, networks[:2])}) > 1:
        raise errors.ConfigError(
            'Policy and value networks that share an encoder must both be recurrent or '
            'both feed-forward. Change one of them, or choose shared_encoder=False.'
        )
