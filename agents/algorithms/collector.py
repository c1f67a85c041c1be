"""What acts for an algorithm and records what comes of it."""

from typing import Any

from agents.algorithms.algorithm import Algorithm, Task
from agents.parts import distributions, sequences
from agents.parts.critic import Predictor
from agents.parts.policy import Policy
from agents.parts.record import Foreseen, Record, Recorder
from agents.tools.graph import random, state
from agents.tools.graph.backend import piece, tf
from agents.tools.transition import Transition


class Collector(tf.Module):
    """Samples actions from a policy, and records rollouts.

    The horizon is fixed: a rollout has `update_every` steps of every agent,
    and episodes run on from one to the next.

    Args:
        policy: The policy.
        task: What the algorithm is made for.
    """

    # Whether predictions are recorded instead of successors.
    _foresees = False

    def __init__(self, policy: Policy, task: Task):
        super().__init__()
        self._policy = policy
        self._steps = task.config.update_every
        zero = self._define_state(task.num_agents)
        self._state = state.variables(zero)
        self._recorder = Recorder(
            task.observ_space,
            task.action_space,
            self._steps,
            task.num_agents,
            zero,
            first=task.ranks.rank * task.num_agents,
            foresees=self._foresees,
            stacks=self._foresees and task.stacks_frames,
        )
        seed = random.seed_of(task.config.seed, task.ranks.rank)
        self._seed = tf.Variable(seed, trainable=False)
        # How many rollouts were taken.
        self._rollouts = tf.Variable(0, trainable=False)

    @property
    def rollouts(self) -> tf.Tensor:
        """How many rollouts were taken so far."""
        return self._rollouts.read_value()

    def restart(self) -> None:
        """Forget the steps since the last update; all episodes begin anew."""
        self._recorder.restart()

    def begin_episode(self, begins: tf.Tensor) -> None:
        """Forget the episode before, where the mask is true."""
        state.assign(self._state, sequences.forget(self._state, begins))

    def perform(self, observ: Any) -> tf.Tensor:
        """Sample actions for observations `[agent, ...]`."""
        distribution, new = self._policy.step(observ, state.read(self._state))
        state.assign(self._state, new)
        return self._sample(distribution)

    def experience(self, observ: Any, action: tf.Tensor, transition: Transition) -> None:
        """Record what came of the actions."""
        action = distributions.flatten(self._policy.action_space, action)
        self._recorder.append(observ, action, transition)

    def take(self) -> Record:
        """Take what was recorded, and begin a new rollout."""
        self._rollouts.assign_add(1)
        return self._recorder.take(state.read(self._state))

    def last(self) -> Record:
        """What was taken last, as long as no other step is recorded."""
        return self._recorder.last()

    def is_sound(self) -> tf.Tensor:
        """Whether all that was recorded can be learnt from."""
        return self._recorder.is_sound()

    def failure(self) -> Exception | None:
        """What of the record cannot be learnt from, if anything cannot."""
        return self._recorder.failure()

    def define_key(self, purpose: str, counter: tf.Tensor) -> tf.Tensor:
        """The random key of a draw of this run, see `random.key`."""
        return random.key(self._seed, purpose, counter)

    def of_agents(self) -> list[Any]:
        """Variables of the agents of this rank, `[agent, ...]`."""
        return [self._state, self._recorder.of_agents()]

    def saved(self) -> dict[str, Any]:
        """Return what a checkpoint between rollouts holds, by name."""
        return {'rollouts': self._rollouts, 'state': self._state, 'rollout': self._recorder}

    def _define_state(self, num_agents: int) -> Any:
        """The recurrent state at the beginning."""
        return sequences.zero_state(self._policy.network, num_agents)

    def _sample(self, distribution: distributions.Distribution) -> tf.Tensor:
        """Draw actions, in the shape that they have in the environment."""
        count = self._rollouts * self._steps + self._recorder.length
        action = distribution.sample(self.define_key('action', count))
        return distributions.unflatten(self._policy.action_space, action)


class ForeseeingCollector(Collector):
    """Predicts returns while it acts, where that takes long to do again.

    The weights do not change within a rollout, so that what is predicted of an
    observation is the same before an update and when it is acted on. Then a
    network with convolutions sees each observation once, and no successor has
    to be kept.

    Args:
        policy: The policy.
        predictor: Predicts the returns.
        task: What the algorithm is made for.
    """

    _foresees = True

    def __init__(self, policy: Policy, predictor: Predictor, task: Task):
        self._predictor = predictor
        super().__init__(policy, task)
        size = distributions.output_size(task.action_space)
        # What was put out for the observations that are acted on.
        self._output = tf.Variable(tf.zeros((task.num_agents, size)), trainable=False)
        self._value = tf.Variable(tf.zeros(task.num_agents), trainable=False)

    def perform(self, observ: Any) -> tf.Tensor:
        policy, (before, value_before) = self._policy, state.read(self._state)
        inputs = policy.prepare(observ)
        features = policy.encode(inputs.visible)
        output, after = sequences.step(policy.network, features, before)
        value, value_after = self._predict(features, value_before)
        state.assign(self._state, (after, value_after))
        self._output.assign(output)
        self._value.assign(value)
        choose = piece(lambda *given: self._sample(policy.describe(*given)))
        return choose(output, inputs.mask)

    def experience(self, observ: Any, action: tf.Tensor, transition: Transition) -> None:
        action = distributions.flatten(self._policy.action_space, action)
        foreseen = Foreseen(
            self._output.read_value(), self._value.read_value(), self._predict_next(transition)
        )
        self._recorder.append(observ, action, transition, foreseen)

    def take(self) -> Record:
        return _split_state(super().take())

    def last(self) -> Record:
        return _split_state(super().last())

    def _define_state(self, num_agents: int) -> Any:
        networks = self._policy.network, self._predictor.network
        return tuple(sequences.zero_state(network, num_agents) for network in networks)

    def _predict(self, features: Any, before: Any) -> tuple[tf.Tensor, Any]:
        network = self._predictor.network
        value, after = sequences.step(network, features, before)
        return value[..., 0], after

    def _predict_next(self, transition: Transition) -> tf.Tensor:
        """The values of successors that are not going to be acted on.

        Those after the last step are, but not in this rollout.
        """
        cut = transition.truncated & ~(transition.terminated | transition.lost)
        ends = self._recorder.length == self._steps - 1

        def predict() -> tf.Tensor:
            inputs = self._policy.prepare(transition.next_observ)
            features = self._policy.encode(inputs.visible)
            return self._predict(features, state.read(self._state)[1])[0]

        return tf.cond(ends | tf.reduce_any(cut), predict, lambda: tf.zeros(cut.shape))


def _split_state(record: Record) -> Record:
    """Tell the state of the policy from that of who predicts."""
    policy, value = record.state
    return record._replace(state=policy, value_state=value)


class Collecting(Algorithm):
    """Acts by a collector.

    Attributes:
        collector: Acts, and records what comes of it.
    """

    collector: Collector

    def restart(self) -> None:
        self.collector.restart()

    def begin_episode(self, begins: tf.Tensor) -> None:
        self.collector.begin_episode(begins)

    def perform(self, observ: Any) -> tf.Tensor:
        return self.collector.perform(observ)

    def experience(self, observ: Any, action: tf.Tensor, transition: Transition) -> None:
        self.collector.experience(observ, action, transition)
