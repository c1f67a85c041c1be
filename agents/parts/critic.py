"""The value of a state under the policy, learnt from returns."""

from typing import Any

from agents.parts import minibatches, moments, sequences
from agents.parts.optimizer import Optimizer
from agents.tools import nested
from agents.tools.graph import state
from agents.tools.graph.backend import tf


class Critic(tf.Module):
    """Predicts returns, to tell which actions were better than expected.

    Its network is separate from that of the policy, and so are its optimizer
    and its passes over the data.

    Args:
        network: Maps normalized observations to one number.
        optimizer: Changes the weights of the network.
        num_agents: Number of agents.
        clip_range: How far a prediction may move in one update, or None.
    """

    def __init__(
        self,
        network: Any,
        optimizer: Optimizer,
        num_agents: int,
        clip_range: float | None = None,
    ):
        super().__init__()
        self.network = network
        self.optimizer = optimizer
        self._clip_range = clip_range
        # The recurrent state before the last rollout, and after it.
        zero = sequences.zero_state(network, num_agents)
        self._state, self._after = state.variables(zero), state.variables(zero)

    def evaluate(
        self, observ: Any, begins: tf.Tensor, next_observ: Any
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Values of the observations of a rollout and of their successors.

        Args:
            observ: Normalized observations `[time, agent, ...]`.
            begins: Where an episode begins, `[time, agent]`.
            next_observ: Normalized successors.

        Returns:
            Two tensors `[time, agent]`.
        """
        before = state.read(self._after)
        state.assign(self._state, before)
        value, states = sequences.unroll(self.network, observ, begins, before)
        next_value, _ = sequences.step_all(self.network, next_observ, states)
        state.assign(self._after, nested.map(lambda x: x[-1], states))
        return value[..., 0], next_value[..., 0]

    def fit(
        self,
        observ: Any,
        begins: tf.Tensor,
        value: tf.Tensor,
        target: tf.Tensor,
        batch_size: int,
        epochs: int,
        key: tf.Tensor,
        learning_rate_scale: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """Move the predictions for a rollout towards the returns.

        Args:
            observ: Normalized observations `[time, agent, ...]`.
            begins: Where an episode begins, `[time, agent]`.
            value: What `evaluate` predicted.
            target: What it should have been.
            batch_size: Steps of a minibatch.
            epochs: How often to go through the rollout.
            key: Random key.
            learning_rate_scale: Factor of the learning rate.
        """
        steps = {
            'observ': observ,
            'begins': begins,
            'old': value,
            'target': target,
        }
        rows = sequences.to_rows(self.network, steps, state.read(self._state))

        def loss(rows: Any) -> dict[str, tf.Tensor]:
            steps, before = sequences.from_rows(self.network, rows)
            value, _ = sequences.unroll(
                self.network, steps['observ'], steps['begins'], before
            )
            error = value_loss(
                value[..., 0], steps['target'], steps['old'], self._clip_range
            )
            return {'loss': error}

        def minibatch_step(rows: Any) -> dict[str, tf.Tensor]:
            return self.optimizer.minimize(
                loss,
                ['loss'],
                rows,
                learning_rate_scale,
                sequences.rows_per_part(self.network, begins.shape[0]),
            )

        metrics = minibatches.train(
            minibatch_step,
            ('loss', 'gradient_norm'),
            rows,
            sequences.rows_per_batch(self.network, batch_size, begins.shape[0]),
            epochs,
            key,
        )
        return {**metrics, 'skipped': self.optimizer.skipped}


def value_loss(
    value: tf.Tensor,
    target: tf.Tensor,
    old_value: tf.Tensor,
    clip_range: float | None,
) -> tf.Tensor:
    """½ E[(R − V)²], or the worse of that and with V kept near V_old."""
    error = (target - value) ** 2
    if clip_range is not None:
        change = tf.clip_by_value(value - old_value, -clip_range, clip_range)
        error = tf.maximum(error, (target - old_value - change) ** 2)
    return 0.5 * tf.reduce_mean(error)


def explained_variance(value: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """1 − Var[R − V] / Var[R]: 1 is perfect, 0 no better than a constant."""
    _, residual = moments.mean_and_variance(target - value)
    _, variance = moments.mean_and_variance(target)
    return tf.cast(1 - residual / (variance + 1e-8), tf.float32)
