"""Steps of the policy by what it has just done, not too far from it."""

from collections.abc import Callable
from typing import Any

from agents.algorithms.algorithm import Task
from agents.algorithms.learner import MinibatchLearner, apply_to_rows, define_steps
from agents.algorithms.ppo import losses
from agents.parts import distributions, sequences
from agents.parts.minibatches import Metrics, Passes
from agents.parts.policy import Policy
from agents.parts.record import Rollout
from agents.tools.graph.backend import tf


class ProximalLearner(MinibatchLearner):
    """Goes through a rollout several times, in minibatches.

    Args:
        policy: The policy.
        optimizer: Changes its weights, see `agents.parts.adam`.
        task: What the algorithm is made for.
    """

    def __init__(self, policy: Policy, optimizer: Any, task: Task):
        super().__init__(policy, optimizer, task)
        self.draws = task.config.update_epochs
        self._penalty = tf.Variable(task.config.kl_init_penalty, trainable=False)
        # The divergence of the last update, for the log.
        shape = task.config.update_every, task.num_agents
        self._kl = tf.Variable(tf.zeros(shape), trainable=False)

    def begin(
        self, rollout: Rollout, key: tf.Tensor, learning_rate_scale: tf.Tensor
    ) -> tuple[Passes, Callable[[Metrics], Metrics]]:
        old = self._find_old(rollout)
        steps = self._define_steps(rollout, old)
        network = self._policy.network
        rows = sequences.to_rows(network, steps, rollout.state)
        passes = self._define_passes(rows, key, learning_rate_scale, self._loss)

        def conclude(metrics: Metrics) -> Metrics:
            new = self._apply_policy(rollout)
            return {**metrics, **self._conclude(old, new)}

        return passes, conclude

    def summary(self) -> dict[str, tf.Tensor]:
        return {'kl': self._kl.read_value(), **super().summary()}

    def saved(self) -> dict[str, Any]:
        return {**super().saved(), 'kl_penalty': self._penalty}

    def _find_old(self, rollout: Rollout) -> distributions.Distribution:
        """The distributions that the actions were drawn from."""
        if isinstance(rollout.output, tuple):
            return self._apply_policy(rollout)
        return self._policy.describe(rollout.output, rollout.inputs.mask)

    def _define_steps(self, rollout: Rollout, old: distributions.Distribution) -> dict[str, Any]:
        """What is learnt from, `[time, agent, ...]`."""
        steps = {
            **define_steps(rollout, self._config, self._ranks),
            'old_log_prob': old.log_prob(rollout.action),
        }
        if self._config.surrogate == 'penalty':
            steps['old'] = old
        return steps

    def _define_passes(
        self,
        rows: Any,
        key: tf.Tensor,
        learning_rate_scale: tf.Tensor,
        loss: Callable[[Any], dict[str, tf.Tensor]],
    ) -> Passes:
        """Passes over rows, down the gradients of a loss."""
        config, network = self._config, self._policy.network
        part_rows: int | None = sequences.rows_per_part(network, config.update_every)
        if config.surrogate == 'penalty':
            part_rows = None  # It is no mean over rows.
        return Passes(
            rows=rows,
            batch_size=sequences.rows_per_batch(network, config.batch_size, config.update_every),
            epochs=config.update_epochs,
            key=key,
            measure=lambda some: self.optimizer.measure(loss, some, part_rows),
            follow=lambda found: self.optimizer.follow(found, learning_rate_scale),
            end_epoch=self.optimizer.end_epoch,
            stop=None if config.kl_stop is None else self._is_far_enough,
        )

    def _apply_policy(self, rollout: Rollout) -> distributions.Distribution:
        return self._policy.unroll(rollout.inputs, rollout.begins, rollout.state)

    def _loss(self, rows: Any) -> dict[str, tf.Tensor]:
        return self._policy_loss(*apply_to_rows(self._policy, rows))

    def _policy_loss(
        self, steps: dict[str, Any], new: distributions.Distribution
    ) -> dict[str, tf.Tensor]:
        """The loss of some steps, and numbers for the log."""
        log_ratio = new.log_prob(steps['action']) - steps['old_log_prob']
        ratio = tf.exp(log_ratio)
        loss = self._surrogate(steps, new, ratio)
        if self._config.entropy_bonus:
            entropy = tf.reduce_mean(new.entropy())
            loss -= self._config.entropy_bonus * entropy
        outside = tf.abs(ratio - 1.0) > self._config.clip_range
        return {
            'loss': loss,
            'kl': losses.kl_estimate(log_ratio),
            'clip_fraction': tf.reduce_mean(tf.cast(outside, tf.float32)),
        }

    def _surrogate(
        self, steps: dict[str, Any], new: distributions.Distribution, ratio: tf.Tensor
    ) -> tf.Tensor:
        config, advantage = self._config, steps['advantage']
        if config.surrogate == 'clip':
            return losses.clipped_surrogate(ratio, advantage, config.clip_range)
        kl = tf.reduce_mean(steps['old'].kl(new))
        ranks = self.optimizer.ranks
        if ranks.size > 1:
            # That of all ranks, with the gradient of this rank's part in it.
            kl += tf.stop_gradient(ranks.mean(kl) - kl)
        return losses.penalized_surrogate(
            ratio,
            advantage,
            kl,
            self._penalty,
            config.kl_target,
            config.kl_cutoff_factor,
            config.kl_cutoff_coef,
        )

    def _is_far_enough(self, metrics: dict[str, tf.Tensor]) -> tf.Tensor:
        """Whether to leave out the epochs that remain."""
        return metrics['kl'] > self._config.kl_stop

    def _conclude(
        self, old: distributions.Distribution, new: distributions.Distribution
    ) -> dict[str, tf.Tensor]:
        """See how far the policy went; returns numbers."""
        self._kl.assign(old.kl(new))
        means = self._ranks.mean(
            {'kl': tf.reduce_mean(self._kl), 'entropy': tf.reduce_mean(new.entropy())}
        )
        return {
            **means,
            'penalty': self._adapt_penalty(means['kl']),
            'skipped': self.optimizer.skipped,
        }

    def _adapt_penalty(self, kl: tf.Tensor) -> tf.Tensor:
        """Adapt the penalty to how far the policy went; returns it."""
        if self._config.surrogate == 'penalty':
            self._penalty.assign(losses.adapted_penalty(self._penalty, kl, self._config.kl_target))
        return self._penalty.read_value()
