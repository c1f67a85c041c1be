"""What acts for an algorithm and records what comes of it."""

from typing import Any

from agents.algorithms.algorithm import Algorithm, Task
from agents.parts import distributions, sequences
from agents.parts.policy import Policy
from agents.parts.record import Record, Recorder
from agents.tools.graph import random, state
from agents.tools.graph.backend import tf
from agents.tools.transition import Transition


class Collector(tf.Module):
    """Samples actions from a policy, and records rollouts.

    The horizon is fixed: a rollout has `update_every` steps of every agent,
    and episodes run on from one to the next.

    Args:
        policy: The policy.
        task: What the algorithm is made for.
    """

    def __init__(self, policy: Policy, task: Task):
        super().__init__()
        self._policy = policy
        self._steps = task.config.update_every
        zero = sequences.zero_state(policy.network, task.num_agents)
        self._state = state.variables(zero)
        self._recorder = Recorder(
            task.observ_space,
            task.action_space,
            self._steps,
            task.num_agents,
            zero,
            first=task.ranks.rank * task.num_agents,
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
        count = self._rollouts * self._steps + self._recorder.length
        action = distribution.sample(self.define_key('action', count))
        return distributions.unflatten(self._policy.action_space, action)

    def experience(
        self, observ: Any, action: tf.Tensor, transition: Transition
    ) -> None:
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

    def transient(self) -> list[Any]:
        """Variables that a checkpoint does without."""
        return [self._seed, *self._recorder.transient()]


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

    def experience(
        self, observ: Any, action: tf.Tensor, transition: Transition
    ) -> None:
        self.collector.experience(observ, action, transition)
