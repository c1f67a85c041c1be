"""Regression of a value network on returns."""

from agents.algorithms.algorithm import Task
from agents.algorithms.learner import Learner
from agents.parts import minibatches, sequences
from agents.parts.losses import value_loss
from agents.parts.optimizer import Optimizer
from agents.parts.record import Rollout
from agents.parts.sequences import Network
from agents.tools.graph.backend import tf
from agents.tools.nested import Nest


class ValueLearner(Learner):
    """Fits a value network to the returns, in epochs of minibatches.

    Args:
        network: Value network, on the device where it is learnt.
        optimizer: Changes its weights.
        batch_size: Steps of a minibatch.
        epochs: Passes over a rollout.
        task: Settings and ranks of the algorithm.
    """

    def __init__(
        self, network: Network, optimizer: Optimizer, batch_size: int, epochs: int, task: Task
    ):
        super().__init__(optimizer, task)
        self.network = network
        self._batch_size = batch_size
        self.draws = epochs

    def update(
        self, rollout: Rollout, key: tf.Tensor, learning_rate_scale: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        network, time = self.network, rollout.begins.shape[0]
        steps = {
            'visible': rollout.inputs.visible,
            'begins': rollout.begins,
            'old_value': rollout.predictions.value,
            'target': rollout.returns,
        }
        part_rows = sequences.rows_per_part(network, time)

        def step(rows: Nest) -> dict[str, tf.Tensor]:
            return self.optimizer.minimize(self._loss, rows, learning_rate_scale, part_rows)

        metrics = minibatches.train(
            step,
            sequences.to_rows(network, steps, rollout.state.value),
            sequences.rows_per_batch(network, self._batch_size, time),
            self.draws,
            key,
            self.optimizer.end_epoch,
        )
        return {
            'loss': metrics['loss'],
            'gradient_norm': metrics['gradient_norm'],
            'skipped': self.optimizer.skipped,
        }

    def _loss(self, rows: Nest) -> dict[str, tf.Tensor]:
        steps, before = sequences.from_rows(self.network, rows)
        output, _ = sequences.unroll(self.network, steps['visible'], steps['begins'], before)
        value = output[..., 0]
        error = value_loss(value, steps['target'], steps['old_value'], self._config.value_clip)
        # If the value is the mean of a unit Gaussian, the score of a sample is its deviation, 1
        # on average, times the gradient of the value; for Kronecker factors.
        return {'loss': error, 'score': tf.reduce_mean(value)}
