"""Proximal policy optimization."""

from typing import Any

from agents.algorithms import sizes
from agents.algorithms.on_policy import OnPolicy, Rollout
from agents.algorithms.ppo import losses
from agents.parts import distributions, minibatches, sequences
from agents.tools.graph import state
from agents.tools.graph.backend import compiled, tf

LOSS_METRICS = 'loss', 'kl', 'clip_fraction'


class PPO(OnPolicy):
    """Takes several gradient steps on a rollout without straying far from it.

    See the README beside this file for the paper and the deviations from it,
    and `agents.algorithms.on_policy` for how the rollout comes about.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        both = self.policy.network, self.critic.network
        recurrent = any(map(sequences.is_recurrent, both))
        sizes.require_minibatches(self.config, recurrent)
        self._penalty = tf.Variable(
            self.config.kl_init_penalty, trainable=False
        )
        shape = self._begins.shape
        self._kl = tf.Variable(
            tf.zeros([self.config.update_every, *shape]), trainable=False
        )

    def learn(self, rollout: Rollout) -> dict[str, tf.Tensor]:
        return self.learn_both(
            rollout,
            self._learn_policy,
            self.config.batch_size,
            self.config.update_epochs,
        )

    def summary(self) -> dict[str, tf.Tensor]:
        return {**super().summary(), 'kl': self._kl.read_value()}

    @compiled
    def _learn_policy(self, rollout: Rollout) -> dict[str, tf.Tensor]:
        """Go through the rollout several times."""
        config, network = self.config, self.policy.network
        rate = self.learning_rate_scale(rollout)
        before = state.read(self._first_state)
        old = self.policy.unroll(rollout.observ, rollout.begins, before)
        steps = {
            'observ': rollout.observ,
            'begins': rollout.begins,
            'action': rollout.action,
            'advantage': self.policy_advantage(rollout),
            'old_log_prob': old.log_prob(rollout.action),
        }
        if config.surrogate == 'penalty':
            steps['old'] = old
        metrics = minibatches.train(
            lambda rows: self._minibatch_step(rows, rate),
            (*LOSS_METRICS, 'gradient_norm'),
            sequences.to_rows(network, steps, before),
            sequences.rows_per_batch(
                network, config.batch_size, config.update_every
            ),
            config.update_epochs,
            self.key('policy', rollout, config.update_epochs),
            self._changed_too_much,
        )
        new = self.policy.unroll(rollout.observ, rollout.begins, before)
        self._kl.assign(old.kl(new))
        kl = tf.reduce_mean(self._kl)
        if config.surrogate == 'penalty':
            self._penalty.assign(
                losses.adapted_penalty(self._penalty, kl, config.kl_target)
            )
        return {
            **metrics,
            'kl': kl,
            'entropy': tf.reduce_mean(new.entropy()),
            'penalty': self._penalty.read_value(),
            'skipped': self.optimizer.skipped,
        }

    def _minibatch_step(
        self, rows: Any, learning_rate_scale: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        config = self.config
        part_rows: int | None = sequences.rows_per_part(
            self.policy.network, config.update_every
        )
        if config.surrogate == 'penalty':
            part_rows = None  # It is no mean over rows.
        return self.optimizer.minimize(
            self._loss, LOSS_METRICS, rows, learning_rate_scale, part_rows
        )

    def _loss(self, rows: Any) -> dict[str, tf.Tensor]:
        steps, before = sequences.from_rows(self.policy.network, rows)
        new = self.policy.unroll(steps['observ'], steps['begins'], before)
        log_ratio = new.log_prob(steps['action']) - steps['old_log_prob']
        ratio = tf.exp(log_ratio)
        loss = self._surrogate(steps, new, ratio)
        if self.config.entropy_bonus:
            entropy = tf.reduce_mean(new.entropy())
            loss -= self.config.entropy_bonus * entropy
        outside = tf.abs(ratio - 1.0) > self.config.clip_range
        return {
            'loss': loss,
            'kl': losses.kl_estimate(log_ratio),
            'clip_fraction': tf.reduce_mean(tf.cast(outside, tf.float32)),
        }

    def _surrogate(
        self,
        steps: dict[str, Any],
        new: distributions.Distribution,
        ratio: tf.Tensor,
    ) -> tf.Tensor:
        config, advantage = self.config, steps['advantage']
        if config.surrogate == 'clip':
            return losses.clipped_surrogate(ratio, advantage, config.clip_range)
        return losses.penalized_surrogate(
            ratio,
            advantage,
            tf.reduce_mean(steps['old'].kl(new)),
            self._penalty,
            config.kl_target,
            config.kl_cutoff_factor,
            config.kl_cutoff_coef,
        )

    def _changed_too_much(self, metrics: dict[str, tf.Tensor]) -> tf.Tensor:
        """Whether to leave out the epochs that remain."""
        if self.config.kl_stop is None:
            return tf.constant(False)
        return metrics['kl'] > self.config.kl_stop
