"""The value of a state under the policy, learnt from returns."""

from collections.abc import Callable
from typing import Any

from agents.parts import minibatches, moments, sequences
from agents.parts.minibatches import Metrics, Passes
from agents.parts.record import Rollout
from agents.tools import nested
from agents.tools.graph import state
from agents.tools.graph.backend import tf
from agents.tools.graph.communicator import ALONE, Communicator


class Predictor(tf.Module):
    """Predicts returns, to tell which actions were better than expected.

    Attributes:
        draws: How many random keys learning uses up.

    Args:
        network: Maps what is visible of observations, or what an encoder makes
            of that, to one number.
        num_agents: Number of agents.
        clip_range: How far a prediction may move in one update, or None.
        ranks: Those whose returns are meant when it is told how good it is.
    """

    draws = 0

    def __init__(
        self,
        network: Any,
        num_agents: int,
        clip_range: float | None = None,
        ranks: Communicator = ALONE,
    ):
        super().__init__()
        self.network = network
        self._clip_range = clip_range
        self._ranks = ranks
        # The recurrent state before the last rollout, and after it.
        zero = sequences.zero_state(network, num_agents)
        self._state, self._after = state.variables(zero), state.variables(zero)

    @property
    def before(self) -> Any:
        """The recurrent state before the last rollout."""
        return state.read(self._state)

    def skip(self, before: Any) -> None:
        """Go on by a rollout whose returns have been predicted meanwhile.

        Args:
            before: The recurrent state before it.
        """
        state.assign(self._state, before)

    def advance(
        self, visible: Any, begins: tf.Tensor, next_visible: Any
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Go on by a rollout, and value its observations and their successors.

        Args:
            visible: What networks see of the observations,
                `[time, agent, ...]`.
            begins: Where an episode begins, `[time, agent]`.
            next_visible: The same of the successors.

        Returns:
            Two tensors `[time, agent]`.
        """
        before = state.read(self._after)
        state.assign(self._state, before)
        value, states = sequences.unroll(self.network, visible, begins, before)
        next_value, _ = sequences.step_all(self.network, next_visible, states)
        state.assign(self._after, nested.map(lambda x: x[-1], states))
        return value[..., 0], next_value[..., 0]

    def error(self, value: tf.Tensor, target: tf.Tensor, old: tf.Tensor) -> tf.Tensor:
        """How far predictions are from returns, see `value_loss`."""
        return value_loss(value, target, old, self._clip_range)

    def explained(self, value: tf.Tensor, returns: tf.Tensor) -> tf.Tensor:
        """How much of the returns predictions explain."""
        return explained_variance(value, returns, self._ranks)

    def failure(self) -> Exception | None:
        """Why to give up, if there is reason to."""
        return None

    def summary(self) -> dict[str, tf.Tensor]:
        """Tensors by name that are worth a histogram."""
        return {}

    def saved(self) -> dict[str, Any]:
        """Return what a checkpoint holds, by name."""
        return {'network': self.network, 'state': self._state, 'state_after': self._after}

    def of_agents(self) -> list[Any]:
        """Variables of the agents of this rank, `[agent, ...]`."""
        return [self._state, self._after]


class Critic(Predictor):
    """Predicts returns and learns to.

    Its network is separate from that of the policy, and so are its optimizer
    and its passes over the data.

    Args:
        network: Maps what is visible of observations to one number.
        optimizer: Changes the weights of the network, see `agents.parts.adam`.
        num_agents: Number of agents.
        batch_size: Steps of a minibatch.
        epochs: How often to go through a rollout.
        clip_range: How far a prediction may move in one update, or None.
        ranks: Those whose returns are meant when it is told how good it is.
    """

    def __init__(
        self,
        network: Any,
        optimizer: Any,
        num_agents: int,
        batch_size: int,
        epochs: int,
        clip_range: float | None = None,
        ranks: Communicator = ALONE,
    ):
        super().__init__(network, num_agents, clip_range, ranks)
        self.optimizer = optimizer
        self._batch_size = batch_size
        self.draws = epochs

    def update(
        self, rollout: Rollout, key: tf.Tensor, learning_rate_scale: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Move the predictions for a rollout towards the returns.

        Args:
            rollout: The one that `advance` has gone on by last.
            key: Random key, of which `draws` follow each other.
            learning_rate_scale: Factor of the learning rate.

        Returns:
            Numbers for the log: `loss`, `gradient_norm`, `skipped`, and how
            much of the returns is explained before and after.
        """
        passes, conclude = self.begin(rollout, key, learning_rate_scale)
        return conclude(minibatches.train(passes, self.optimizer.ranks))

    def begin(
        self, rollout: Rollout, key: tf.Tensor, learning_rate_scale: tf.Tensor
    ) -> tuple[Passes, Callable[[Metrics], Metrics]]:
        """What `update` goes through, and what it makes of the numbers."""
        visible = rollout.inputs.visible
        steps = {
            'visible': visible,
            'begins': rollout.begins,
            'old': rollout.value,
            'target': rollout.returns,
        }
        time = rollout.begins.shape[0]
        before = self.before
        part_rows = sequences.rows_per_part(self.network, time)
        passes = Passes(
            rows=sequences.to_rows(self.network, steps, before),
            batch_size=sequences.rows_per_batch(self.network, self._batch_size, time),
            epochs=self.draws,
            key=key,
            measure=lambda rows: self.optimizer.measure(self._loss, rows, part_rows),
            follow=lambda found: self.optimizer.follow(found, learning_rate_scale),
            end_epoch=self.optimizer.end_epoch,
        )

        def conclude(metrics: Metrics) -> Metrics:
            after, _ = sequences.unroll(self.network, visible, rollout.begins, before)
            return {
                'loss': metrics['loss'],
                'gradient_norm': metrics['gradient_norm'],
                'skipped': self.optimizer.skipped,
                'explained_variance': self.explained(rollout.value, rollout.returns),
                'explained_variance_after': self.explained(after[..., 0], rollout.returns),
            }

        return passes, conclude

    def failure(self) -> Exception | None:
        return self.optimizer.failure()

    def saved(self) -> dict[str, Any]:
        return {**super().saved(), 'optimizer': self.optimizer}

    def summary(self) -> dict[str, tf.Tensor]:
        return self.optimizer.summary('value')

    def _loss(self, rows: Any) -> dict[str, tf.Tensor]:
        return {'loss': self._error(*self._predict(rows))}

    def _predict(self, rows: Any) -> tuple[dict[str, Any], tf.Tensor]:
        """The steps that rows are, and their values."""
        steps, before = sequences.from_rows(self.network, rows)
        value, _ = sequences.unroll(self.network, steps['visible'], steps['begins'], before)
        return steps, value[..., 0]

    def _error(self, steps: dict[str, Any], value: tf.Tensor) -> tf.Tensor:
        return self.error(value, steps['target'], steps['old'])


def value_loss(
    value: tf.Tensor, target: tf.Tensor, old_value: tf.Tensor, clip_range: float | None
) -> tf.Tensor:
    """½ E[(R − V)²], or the worse of that and with V kept near V_old."""
    error = (target - value) ** 2
    if clip_range is not None:
        change = tf.clip_by_value(value - old_value, -clip_range, clip_range)
        error = tf.maximum(error, (target - old_value - change) ** 2)
    return 0.5 * tf.reduce_mean(error)


def explained_variance(
    value: tf.Tensor, target: tf.Tensor, ranks: Communicator = ALONE
) -> tf.Tensor:
    """1 − Var[R − V] / Var[R]: 1 is perfect, 0 no better than a constant."""
    _, residual = moments.mean_and_variance(target - value, ranks=ranks)
    _, variance = moments.mean_and_variance(target, ranks=ranks)
    return tf.cast(1 - residual / (variance + 1e-8), tf.float32)
