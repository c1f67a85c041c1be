"""Acting in the environments and recording the rollout."""

from typing import Any

from agents.algorithms.algorithm import Algorithm, Task
from agents.parts import distributions, sequences
from agents.parts.policy import Policy
from agents.parts.record import Predictions, Recorder, Rollout, States
from agents.parts.sequences import Network
from agents.tools import errors
from agents.tools.graph import random, state
from agents.tools.graph.backend import compile_part, tf
from agents.tools.nested import Nest
from agents.tools.transition import Transition


class Collector(tf.Module):
    """Samples actions, predicts values and records rollouts.

    The horizon is fixed: a rollout has `update_every` steps of every agent, and episodes continue
    from one rollout to the next. The weights do not change within a rollout, so that the outputs
    of the networks are recorded, and an update computes none of them again.

    Args:
        policy: Policy to act by.
        value_network: Network that predicts returns, on the device of the policy.
        task: Spaces, number of agents and settings.
    """

    def __init__(self, policy: Policy, value_network: Network, task: Task):
        super().__init__()
        self._policy = policy
        self._value_network = value_network
        self._steps = task.config.update_every
        networks, count = (policy.network, value_network), task.num_agents
        zero = States(*(sequences.zero_state(network, count) for network in networks))
        self._state = state.variables(zero)
        self._recorder = Recorder(
            task.observ_space,
            task.action_space,
            self._steps,
            count,
            zero,
            first=task.ranks.rank * count,
        )
        # Outputs of the networks for the current observations.
        size = distributions.output_size(task.action_space)
        self._output = tf.Variable(tf.zeros((count, size)), trainable=False)
        self._value = tf.Variable(tf.zeros(count), trainable=False)
        seed = random.seed_of(task.config.seed, task.ranks.rank)
        self._seed = tf.Variable(seed, trainable=False)
        self._rollouts = tf.Variable(0, trainable=False)

    @property
    def rollouts(self) -> tf.Tensor:
        """Number of rollouts taken so far."""
        return self._rollouts.read_value()

    def restart(self) -> None:
        """Forget the steps since the last update; all episodes begin anew."""
        self._recorder.restart()

    def begin_episode(self, begins: tf.Tensor) -> None:
        """Reset the recurrent states where the mask is true."""
        state.assign(self._state, sequences.forget(self._state, begins))

    def perform(self, observ: Nest) -> tf.Tensor:
        """Sample actions for observations `[agent, ...]`."""
        policy, before = self._policy, state.read(self._state)
        inputs = policy.normalize(observ)
        features = policy.encode(inputs.visible)
        output, policy_state = sequences.step(policy.network, features, before.policy)
        value, value_state = self._predict(features, before.value)
        state.assign(self._state, States(policy_state, value_state))
        self._output.assign(output)
        self._value.assign(value)
        return compile_part(self._sample)(output, inputs.mask)

    def experience(self, observ: Nest, action: tf.Tensor, transition: Transition) -> None:
        """Record the step that followed the actions."""
        action = distributions.flatten(self._policy.action_space, action)
        predictions = Predictions(
            self._output.read_value(), self._value.read_value(), self._predict_next(transition)
        )
        self._recorder.append(observ, action, transition, predictions)

    def take(self) -> Rollout:
        """Return the recorded rollout and begin a new one."""
        self._rollouts.assign_add(1)
        return self._recorder.take(state.read(self._state))

    def last(self) -> Rollout:
        """Return the rollout that was taken last; valid until the next step is recorded."""
        return self._recorder.last()

    def is_finite(self) -> tf.Tensor:
        """Return whether all recorded numbers are finite, as a tensor."""
        return self._recorder.is_finite()

    def failure(self) -> Exception | None:
        """Return the error of the first recorded number that is not finite, or None."""
        return self._recorder.failure()

    def define_key(self, purpose: str, counter: tf.Tensor) -> tf.Tensor:
        """Return the random key for a draw of this run, see `random.key`."""
        return random.key(self._seed, purpose, counter)

    def per_agent_variables(self) -> list[Any]:
        """Variables of the agents of this rank, `[agent, ...]`."""
        return [self._state, self._recorder.per_agent_variables()]

    def saved(self) -> dict[str, Any]:
        """Return the contents of a checkpoint between rollouts, by name."""
        return {
            'rollouts': self._rollouts,
            'state': self._state._asdict(),
            'rollout': self._recorder,
        }

    def _predict(self, features: Nest, before: Nest) -> tuple[tf.Tensor, Any]:
        value, after = sequences.step(self._value_network, features, before)
        return value[..., 0], after

    def _predict_next(self, transition: Transition) -> tf.Tensor:
        """Predict the values of successors that the policy will not act on in this rollout."""
        cut = transition.truncated & ~(transition.terminated | transition.lost)
        ends = self._recorder.length == self._steps - 1

        def predict() -> tf.Tensor:
            inputs = self._policy.normalize(transition.next_observ)
            features = self._policy.encode(inputs.visible)
            return self._predict(features, state.read(self._state).value)[0]

        return tf.cond(ends | tf.reduce_any(cut), predict, lambda: tf.zeros(cut.shape))

    def _sample(self, output: tf.Tensor, mask: Nest) -> tf.Tensor:
        """Draw actions, in the shape of the action space."""
        policy = self._policy
        count = self._rollouts * self._steps + self._recorder.length
        action = policy.distribution(output, mask).sample(self.define_key('action', count))
        return distributions.unflatten(policy.action_space, action)


class Collecting(Algorithm):
    """Algorithm that acts by a collector.

    Attributes:
        collector: Acts and records the rollout.
    """

    collector: Collector

    def describe_record(self) -> Exception:
        """Return the error of a rollout that is not finite, on this rank or another."""
        return self.collector.failure() or errors.ElsewhereError(
            'Another rank recorded numbers that are not finite. See the message of that rank.'
        )

    def restart(self) -> None:
        self.collector.restart()

    def begin_episode(self, begins: tf.Tensor) -> None:
        self.collector.begin_episode(begins)

    def perform(self, observ: Nest) -> tf.Tensor:
        return self.collector.perform(observ)

    def experience(self, observ: Nest, action: tf.Tensor, transition: Transition) -> None:
        self.collector.experience(observ, action, transition)
