"""Trust region policy optimization, and natural policy gradients."""

from agents.algorithms import pieces
from agents.algorithms.algorithm import Networks, Task
from agents.algorithms.learner import Learner, apply_to_rows, define_steps
from agents.algorithms.on_policy import OnPolicy
from agents.config import sizes
from agents.parts import conjugate, gradients, sequences
from agents.parts.optimizer import Optimizer
from agents.parts.policy import Policy
from agents.parts.record import Rollout
from agents.tools import nested
from agents.tools.graph import loops
from agents.tools.graph.backend import tf
from agents.tools.graph.flat import Weights
from agents.tools.nested import Nest

# How far a step may exceed the divergence that it aims at. The quadratic model
# that its length is from is not exact.
TOLERANCE = 1.5


class TRPO(OnPolicy):
    """Takes one natural gradient step per rollout, within a trust region.

    See the README beside this file for the paper and the deviations from it, and
    `agents.algorithms.on_policy` for the collection of rollouts.
    """

    def __init__(self, networks: Networks, task: Task):
        config = task.config
        recurrent = sequences.is_recurrent(networks.value)
        sizes.require_minibatches(config, recurrent)
        policy = pieces.define_policy(networks, task)
        value_learner = pieces.define_value_learner(
            networks, task, config.value_batch_size, config.value_epochs
        )
        learner = TrustRegionLearner(policy, task)
        super().__init__(policy, networks.value, learner, value_learner, task)


class TrustRegionLearner(Learner):
    """Maximizes a surrogate within a KL divergence of the old policy.

    Args:
        policy: Policy to improve.
        task: Settings and ranks of the algorithm.
    """

    def __init__(self, policy: Policy, task: Task):
        self._weights = Weights(policy.network.trainable_variables)
        # Only to count gradients that are not finite; the line search changes the weights.
        super().__init__(Optimizer(self._weights, task.ranks), task)
        self._policy = policy
        self._part_rows = sequences.rows_per_part(policy.network, task.config.update_every)
        # The last step, for the log.
        self._step = tf.Variable(tf.zeros(self._weights.size), trainable=False)

    def update(
        self, rollout: Rollout, key: tf.Tensor, learning_rate_scale: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        rows = self._define_rows(rollout)
        slope, before = gradients.of_rows(
            self._loss, self._weights, rows, self._part_rows, self._ranks
        )
        norm = tf.sqrt(tf.reduce_sum(slope**2))
        self.optimizer.guard.count(slope, norm)
        radius = self._config.kl_target * learning_rate_scale
        step = self._define_step(rows, slope, radius)
        self._step.assign(step)
        return {
            **self._search(rows, before, step, radius),
            'gradient_norm': norm,
            'skipped': self.optimizer.skipped,
        }

    def summary(self, owner: str) -> dict[str, tf.Tensor]:
        return {**super().summary(owner), f'steps/{owner}': self._step.read_value()}

    def _define_rows(self, rollout: Rollout) -> Nest:
        """Return what the loss needs of each step, as rows."""
        old = self._policy.distribution(rollout.predictions.output, rollout.inputs.mask)
        steps = {
            **define_steps(rollout, self._config, self._ranks),
            'old': old,
            'old_log_prob': old.log_prob(rollout.action),
        }
        return sequences.to_rows(self._policy.network, steps, rollout.state.policy)

    def _define_step(self, rows: Nest, slope: tf.Tensor, radius: tf.Tensor) -> tf.Tensor:
        """Return the natural gradient step whose predicted KL divergence is δ, the radius.

        With the gradient g and the Fisher matrix F, it is −√(2δ / xᵀFx) x, where F x = g. F is
        estimated from every n-th row and damped.
        """
        some = nested.map(lambda x: x[:: self._config.fisher_every], rows)

        def product(vector: tf.Tensor) -> tf.Tensor:
            image = gradients.fisher_product(
                self._describe, self._weights, vector, some, self._part_rows, self._ranks
            )
            return image + self._config.damping * vector

        direction = conjugate.solve(product, slope, self._config.conjugate_steps)
        square = tf.reduce_sum(direction * product(direction))
        length = tf.sqrt(2 * radius / square)
        # Where the slope is zero, there is nowhere to go.
        return -tf.where(square > 0, length, 0.0) * direction

    def _search(
        self, rows: Nest, before: dict[str, tf.Tensor], step: tf.Tensor, radius: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Backtrack along a step until the loss improves within the trust region, or take none.

        Returns:
            Metrics of the step that was taken.
        """
        config = self._config
        start = self._weights.read()

        def attempt(number: tf.Tensor) -> dict[str, tf.Tensor]:
            share = config.backtrack_factor ** tf.cast(number, tf.float32)
            self._weights.assign(start + share * step)
            after = self._measure(rows)
            good = tf.math.is_finite(after['loss'] + after['meankl'])
            if config.line_search:
                good &= after['loss'] <= before['loss']
                good &= after['meankl'] <= TOLERANCE * radius
            return {**after, 'step_size': tf.where(good, share, 0.0)}

        tried, after = loops.repeat(
            attempt,
            config.search_steps if config.line_search else 1,
            lambda after: after['step_size'] > 0,
        )
        taken = after['step_size'] > 0
        self._weights.assign(tf.where(taken, self._weights.read(), start))
        new = {name: tf.where(taken, after[name], before[name]) for name in before}
        return {
            'loss': new['loss'],
            'optimgain': before['loss'] - new['loss'],
            'surrgain': new['surrogate'] - before['surrogate'],
            'meankl': new['meankl'],
            'entropy': new['entropy'],
            'step_size': after['step_size'],
            'steps_tried': tf.cast(tried, tf.float32),
        }

    def _measure(self, rows: Nest) -> dict[str, tf.Tensor]:
        """Return the means of `_loss` for the current weights."""
        return gradients.mean_of_parts(self._loss, rows, self._part_rows, self._ranks)

    def _loss(self, rows: Nest) -> dict[str, tf.Tensor]:
        steps, new = apply_to_rows(self._policy, rows)
        log_ratio = new.log_prob(steps['action']) - steps['old_log_prob']
        surrogate = tf.reduce_mean(tf.exp(log_ratio) * steps['advantage'])
        entropy = tf.reduce_mean(new.entropy())
        return {
            'loss': -surrogate - self._config.entropy_bonus * entropy,
            'surrogate': surrogate,
            'meankl': tf.reduce_mean(steps['old'].kl(new)),
            'entropy': entropy,
        }

    def _describe(self, rows: Nest) -> Nest:
        """Return the action distributions of rows for the current weights."""
        return apply_to_rows(self._policy, rows)[1]
