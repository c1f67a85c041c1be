"""A policy and a value that see by one encoder, learnt together."""

from collections.abc import Callable
from typing import Any

from agents.algorithms import pieces
from agents.algorithms.algorithm import Networks, Task
from agents.algorithms.ppo.proximal_learner import ProximalLearner
from agents.parts import sequences
from agents.parts.critic import Predictor
from agents.parts.frames import look_up
from agents.parts.minibatches import Metrics, Passes
from agents.parts.policy import Policy
from agents.parts.record import Rollout
from agents.tools import errors, spaces
from agents.tools.graph.backend import tf


def define_joint_parts(
    policy: Policy, networks: Networks, task: Task
) -> tuple['JointLearner', Predictor]:
    """Make what learns a policy and a value, and what predicts the value."""
    config = task.config
    if config.value_learning_rate is not None:
        raise errors.ConfigError(
            'A policy and a value that share an encoder are learnt with one '
            'step, so that value_learning_rate has no meaning; '
            'value_weight has one. Leave it out, or choose '
            'shared_encoder=False.'
        )
    if len({*map(sequences.is_recurrent, networks[:2])}) > 1:
        raise errors.ConfigError(
            'Of a policy and a value that share an encoder, either both have a memory or none has.'
        )
    predictor = Predictor(networks.value, task.num_agents, config.value_clip, task.ranks)
    weights = [*policy.weights, *networks.value.trainable_variables]
    optimizer = pieces.define_optimizer(weights, task, in_epochs=True)
    return JointLearner(policy, predictor, optimizer, task), predictor


class JointLearner(ProximalLearner):
    """Takes steps down the sum of the losses of the policy and the value.

    Numbers for the log are means over the last pass, as to apply the networks
    to the rollout once more would take long.

    Args:
        policy: The policy, with an encoder.
        predictor: Predicts returns by the same encoder.
        optimizer: Changes the weights of all, see `agents.parts.adam`.
        task: What the algorithm is made for.
    """

    learns_value = True

    def __init__(self, policy: Policy, predictor: Predictor, optimizer: Any, task: Task):
        super().__init__(policy, optimizer, task)
        self._predictor = predictor
        self._observ_shape = spaces.shape(task.observ_space)

    def begin(
        self, rollout: Rollout, key: tf.Tensor, learning_rate_scale: tf.Tensor
    ) -> tuple[Passes, Callable[[Metrics], Metrics]]:
        old = self._find_old(rollout)
        steps = {
            **self._define_steps(rollout, old),
            'old_value': rollout.value,
            'target': rollout.returns,
        }
        before = rollout.state, self._predictor.before
        rows = sequences.to_rows(self._policy.network, steps, before)
        passes = self._define_passes(
            rows, key, learning_rate_scale, lambda rows: self._loss(rows, rollout.frames)
        )
        explained = self._predictor.explained(rollout.value, rollout.returns)

        def conclude(metrics: Metrics) -> Metrics:
            return {
                **metrics,
                'loss': metrics['policy_loss'],
                'penalty': self._adapt_penalty(metrics['kl']),
                'explained_variance': explained,
                'skipped': self.optimizer.skipped,
            }

        return passes, conclude

    def summary(self) -> dict[str, tf.Tensor]:
        return self.optimizer.summary('policy')

    def _loss(self, rows: Any, frames: Any = ()) -> dict[str, tf.Tensor]:
        policy = self._policy
        steps, before = sequences.from_rows(policy.network, rows)
        before, value_before = before or ((), ())
        inputs, begins = steps['inputs'], steps['begins']
        visible = inputs.visible
        if not isinstance(frames, tuple):
            visible = look_up(frames, visible, self._observ_shape)
        features = policy.encode_all(visible)
        new = policy.unroll_features(features, inputs.mask, begins, before)
        value, _ = sequences.unroll(self._predictor.network, features, begins, value_before)
        error = self._predictor.error(value[..., 0], steps['target'], steps['old_value'])
        means = self._policy_loss(steps, new)
        if self._config.surrogate == 'penalty':
            means['kl'] = tf.reduce_mean(steps['old'].kl(new))
        return {
            **means,
            'loss': means['loss'] + self._config.value_weight * error,
            'policy_loss': means['loss'],
            'value_loss': error,
            'entropy': tf.reduce_mean(new.entropy()),
        }
