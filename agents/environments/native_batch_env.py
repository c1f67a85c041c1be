"""Batch of native environments."""

import threading
from typing import Any

from agents.environments.native_env import NativeEnv
from agents.tools import errors, nested
from agents.tools.graph import bounds, random, state
from agents.tools.graph.backend import tf
from agents.tools.graph.communicator import ALONE, Communicator
from agents.tools.nested import Nest
from agents.tools.transition import Transition


class NativeBatchEnv(tf.Module):
    """Steps environments written in TensorFlow, with the interface of `InGraphBatchEnv`.

    An episode that ends is restarted within the same step. Results depend on the seed and the
    number of steps and resets before, all of which is in variables, so that a resumed run continues
    as if it had not been interrupted.

    Args:
        env: Environment, one object for all agents.
        num_agents: Number of agents.
        max_length: Steps after which an episode is truncated, or None.
        seed: Seed of the run.
        purpose: Name of the use of the batch, part of its random keys.
        ranks: Ranks with a batch each, part of its random keys.
    """

    # Whether a function that steps the batch can be compiled as a whole.
    compiled = True

    # Whether its whole state is in variables, so that a checkpoint holds it.
    keeps_state = True

    # Nothing happens outside of the graph that would take time.
    seconds = 0.0

    def __init__(
        self,
        env: NativeEnv,
        num_agents: int,
        max_length: int | None,
        seed: int = 0,
        purpose: str = 'train',
        ranks: Communicator = ALONE,
    ):
        super().__init__()
        self._cancelled = threading.Event()
        self._ranks = ranks
        self._env = env
        self._num_agents = num_agents
        self._max_length = max_length or tf.int32.max
        self._seed = tf.Variable(random.seed_of(seed, ranks.rank), trainable=False)
        self._purpose = purpose
        self.observation_space = env.observation_space
        self.action_space = env.action_space
        # How many steps and resets there were, which the next one is drawn by.
        self._count = tf.Variable(0, trainable=False)
        self._length = tf.Variable(tf.zeros(num_agents, tf.int32), trainable=False)
        first = env.reset(self._key('reset'), num_agents)
        self._state = state.variables(first)
        false = tf.zeros(num_agents, bool)
        observ = env.observe(first)
        self._observ = state.variables(observ)
        self._begins = tf.Variable(~false, trainable=False)
        self._transition = state.variables((tf.zeros(num_agents), false, false, observ))

    def __len__(self) -> int:
        return self._num_agents

    @property
    def observ(self) -> Nest:
        """Current observations, those of the next episode where one ended."""
        return state.read(self._observ)

    @property
    def begins(self) -> tf.Tensor:
        """Mask of the agents whose `observ` is the first of an episode."""
        return self._begins.read_value()

    @property
    def transition(self) -> Transition:
        """Outcome of the last step."""
        reward, terminated, truncated, observ = state.read(self._transition)
        never = tf.zeros(len(self), bool)
        return Transition(reward, terminated, truncated, observ, never)

    def prepare(self, action: tf.Tensor) -> tf.Tensor:
        """Convert actions to what the environments receive."""
        return bounds.to_bounds(action, self.action_space)

    def step(self, prepared: tf.Tensor) -> None:
        """Step the environments; `observ` and `transition` change."""
        after, reward, terminated = self._env.step(
            state.read(self._state), prepared, self._key('step')
        )
        length = self._length + 1
        truncated = length >= self._max_length
        observ = self._env.observe(after)
        outcome = reward, terminated, truncated, observ
        state.assign(self._transition, outcome)
        self._length.assign(length)
        self._reset(after, observ, terminated | truncated)

    def simulate(self, action: tf.Tensor) -> None:
        """Step the environments by actions of an algorithm."""
        self.step(self.prepare(action))

    def reset(self, mask: tf.Tensor | None = None) -> None:
        """Reset the environments where the mask is true, by default all."""
        if mask is None:
            mask = tf.ones(len(self), bool)
        self._reset(state.read(self._state), state.read(self._observ), mask)

    def begin_evaluation(self) -> None:
        """Do nothing."""

    def end_evaluation(self) -> None:
        """Set the counters of all ranks to the same number.

        Evaluations differ in their number of steps, and a checkpoint holds one counter for all
        ranks.
        """
        if self._ranks.size > 1:
            every = self._ranks.gather(self._count.read_value())
            self._count.assign(tf.reduce_max(tf.stack(every)))

    def failure(self) -> Exception | None:
        """Return the error that ends the training; only after `cancel`."""
        if self._cancelled.is_set():
            return errors.Cancelled('Stepping the environments was cancelled.')
        return None

    def cancel(self) -> None:
        """Make the next call of the graph fail."""
        self._cancelled.set()

    def close(self) -> None:
        """Do nothing."""

    def per_agent_variables(self) -> list[Any]:
        """Variables of the agents of this rank, `[agent, ...]`."""
        return [self._length, self._state, self._observ, self._begins, self._transition]

    def saved(self) -> dict[str, Any]:
        """Return the contents of a checkpoint by name."""
        reward, terminated, truncated, next_observ = self._transition
        return {
            'count': self._count,
            'length': self._length,
            'state': self._state,
            'observ': self._observ,
            'begins': self._begins,
            'reward': reward,
            'terminated': terminated,
            'truncated': truncated,
            'next_observ': next_observ,
        }

    def _reset(self, before: Nest, observ: Nest, mask: tf.Tensor) -> None:
        fresh = self._env.reset(self._key('reset'), len(self))
        state.assign(self._state, _select(mask, fresh, before))
        first = self._env.observe(fresh)
        state.assign(self._observ, _select(mask, first, observ))
        self._begins.assign(mask)
        self._length.assign(tf.where(mask, 0, self._length))
        self._count.assign_add(1)

    def _key(self, draw: str) -> tf.Tensor:
        return random.key(self._seed, f'{self._purpose} {draw}', self._count)


def _select(mask: tf.Tensor, yes: Any, no: Any) -> Nest:
    """Select leaves of one nest where the mask `[agent]` is true, else of the other."""

    def one(yes: tf.Tensor, no: tf.Tensor) -> tf.Tensor:
        wide = tf.reshape(mask, [-1] + [1] * (yes.shape.rank - 1))
        return tf.where(wide, yes, no)

    return nested.map(one, yes, no)
