"""Storage of the steps between two updates."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from agents.parts import distributions
from agents.tools import errors, layout, nested, spaces
from agents.tools.graph import state
from agents.tools.graph.backend import tf
from agents.tools.nested import Nest
from agents.tools.transition import Transition

# From here on, the square of a number is at the end of what 32 bits can tell.
LIMIT = 2.0**63
_LIMIT_BITS = int(np.float32(LIMIT).view(np.int32))


class States(NamedTuple):
    """Recurrent states of the networks; () for a network without memory.

    Attributes:
        policy: Recurrent state of the policy network.
        value: Recurrent state of the value network.
    """

    policy: Any
    value: Any


class Predictions(NamedTuple):
    """Network outputs of one step, computed while acting.

    Attributes:
        output: Output of the policy network, the parameters of the action distributions.
        value: Predicted returns of the observations.
        next_value: Predicted returns of the successors where an episode is truncated and at the
            last step of a rollout; zero or meaningless elsewhere.
    """

    output: tf.Tensor
    value: tf.Tensor
    next_value: tf.Tensor


class Rollout(NamedTuple):
    """Steps of all agents, leaves `[time, agent, ...]`.

    Attributes:
        observ: Observations as the environments returned them.
        begins: Mask of the first steps of episodes.
        action: Actions, flattened to the rows that distributions are over.
        reward: Rewards of the environments; normalized when learning.
        terminated: Mask of the steps that reached a terminal state.
        done: Mask of the last steps of episodes, terminated or truncated.
        lost: Mask of the steps at which an environment failed; nothing is learnt from them.
        predictions: Network outputs from acting.
        state: Recurrent states before the first step, leaves `[agent, ...]`.
        inputs: Normalized observations, `Inputs`; () until the update.
        advantage: Advantages; () until the update.
        returns: λ-returns, the targets of the value network; () until the update.
    """

    observ: Nest
    begins: tf.Tensor
    action: tf.Tensor
    reward: tf.Tensor
    terminated: tf.Tensor
    done: tf.Tensor
    lost: tf.Tensor
    predictions: Predictions
    state: Nest  # States, or () if it does not matter.
    inputs: Nest = ()
    advantage: Any = ()
    returns: Any = ()


class Recorder(tf.Module):
    """Records the steps since the last update.

    Episodes continue from one rollout to the next, and every row is a real step:
    nothing is padded.

    Args:
        observ_space: Space of the observations.
        action_space: Space of the actions.
        steps: Number of steps in a rollout.
        num_agents: Number of agents.
        before: Recurrent states at the beginning.
        first: Index of the first agent of this rank, for messages.
    """

    def __init__(
        self,
        observ_space: gym.Space,
        action_space: gym.Space,
        steps: int,
        num_agents: int,
        before: States,
        first: int = 0,
    ):
        super().__init__()
        self._first = first
        specs = _define_specs(observ_space, action_space)
        self._layout = layout.Layout(specs)
        self._counts_actions = spaces.count(action_space) is not None
        self._step = tf.Variable(0, trainable=False)
        self._matrices = [
            tf.Variable(tf.zeros((steps, num_agents, width), kind), trainable=False)
            for kind, width in self._layout.groups
        ]
        # Where episodes began and the recurrent state, before the rollout that
        # was taken last and before the one that is being recorded.
        start = {'begins': tf.ones(num_agents, bool), 'state': before}
        self._taken = state.variables(start)
        self._coming = state.variables(start)

    @property
    def length(self) -> tf.Tensor:
        """Number of recorded steps."""
        return self._step.read_value()

    def append(
        self,
        observ: Nest,
        action: tf.Tensor,
        transition: Transition,
        predictions: Predictions,
    ) -> None:
        """Record a step, leaves `[agent, ...]`; predictions replace the successors."""
        transition = transition._replace(next_observ=())
        matrices = self._layout.pack((observ, action, transition, predictions))
        for variable, matrix in zip(self._matrices, matrices, strict=True):
            row = tf.IndexedSlices(matrix[None], self._step[None])
            variable.scatter_update(row)
        self._step.assign_add(1)

    def take(self, after: States) -> Rollout:
        """Return the recorded rollout and begin a new one.

        Args:
            after: Recurrent states after the last step.
        """
        state.assign(self._taken, state.read(self._coming))
        rollout = self.last()
        start = {'begins': rollout.done[-1], 'state': after}
        state.assign(self._coming, start)
        self._step.assign(0)
        return rollout

    def last(self) -> Rollout:
        """Return the rollout that was taken last; valid until the next `append`."""
        observ, action, transition, predictions = self._unpack()
        start, done = state.read(self._taken), transition.done
        return Rollout(
            observ=observ,
            begins=tf.concat([start['begins'][None], done[:-1]], 0),
            action=action,
            reward=transition.reward,
            terminated=transition.terminated,
            done=done,
            lost=transition.lost,
            predictions=predictions,
            state=start['state'],
        )

    def restart(self) -> None:
        """Forget the steps since the last update; all episodes begin anew."""
        self._step.assign(0)
        begins = self._coming['begins']
        begins.assign(tf.ones_like(begins))

    def is_finite(self) -> tf.Tensor:
        """Return whether all recorded numbers are finite, as a tensor."""
        observ, action, transition, predictions = self._unpack()
        # Not the output of the policy, which may be of any size; the actions
        # tell whether it made sense.
        sound = is_finite(nested.flatten((observ, action, transition, predictions[1:])))
        if self._counts_actions:
            sound &= tf.reduce_min(action) >= 0
        return sound

    def failure(self) -> Exception | None:
        """Return the error of the first number that cannot be learnt from, or None."""
        recorded = nested.map(np.asarray, self._unpack())
        observ, action, transition, predictions = recorded
        before = nested.flatten(observ)
        chosen = action
        if self._counts_actions:
            chosen = np.where(action < 0, math.nan, action)
        leaves = [*before, chosen, transition.reward, predictions.value, predictions.next_value]
        place = first_nonfinite(leaves)
        if place is None:
            return None
        time, number, agent = place
        if number == len(before):
            return errors.EnvError(
                f'The output of the policy network for environment {self._first + agent} must be '
                f'finite, got the action {action[time, agent]}. Nothing was learnt from it.'
            )
        if number > len(before) + 1:
            where = 'an observation' if number == len(before) + 2 else 'the last observation'
            return errors.EnvError(
                f'The predicted value must be finite, got {leaves[number][time, agent]} for '
                f'{where} of environment {self._first + agent}. Nothing was learnt from it.'
            )
        what = 'reward' if number == len(before) + 1 else 'observation'
        return errors.EnvError(
            f'Environment {self._first + agent} returned the {what} '
            f'{leaves[number][time, agent]}, given the action '
            f'{action[time, agent]}. Numbers have to be finite, and so do '
            'their squares in 32 bits. Nothing was learnt from it.'
        )

    def per_agent_variables(self) -> Nest:
        """Variables of the agents, `[agent, ...]`."""
        return self._coming

    def saved(self) -> dict[str, Any]:
        """Return the contents of a checkpoint between rollouts, by name."""
        return self._coming

    def _unpack(self) -> tuple[Any, tf.Tensor, Transition, Any]:
        return self._layout.unpack(self._matrices)


def _define_specs(observ_space: gym.Space, action_space: gym.Space) -> tuple:
    """Return specs of an observation, an action, a transition and predictions."""
    observ = spaces.specs(observ_space)
    action = spaces.specs(action_space)
    if not isinstance(action_space, gym.spaces.Discrete):
        action = layout.Spec((math.prod(action.shape),), action.dtype)
    number, flag = layout.Spec((), 'float32'), layout.Spec((), 'bool')
    transition = Transition(number, flag, flag, (), flag)
    size = distributions.output_size(action_space)
    output = layout.Spec((size,), 'float32')
    return observ, action, transition, Predictions(output, number, number)


def is_finite(values: Iterable[tf.Tensor]) -> tf.Tensor:
    """Return whether all values are finite, and the squares of floats as well, as a tensor.

    Compares the bits without the sign: as integers they have the order of the floats, with infinity
    and NaN largest, and XLA vectorizes integer comparisons.
    """
    largest = [
        tf.reduce_max(tf.bitcast(value, tf.int32) & 0x7FFFFFFF)
        for value in values
        if value.dtype == tf.float32
    ]
    return tf.reduce_max([0, *largest]) < _LIMIT_BITS


def first_nonfinite(leaves: Iterable[np.ndarray]) -> tuple[int, int, int] | None:
    """Find the first value that is not finite or whose square is not.

    Args:
        leaves: Arrays `[time, agent, ...]` in the order in which they come about.

    Returns:
        Time, index of the leaf and agent; None if all are finite.
    """
    places = []
    for number, leaf in enumerate(leaves):
        with np.errstate(invalid='ignore'):
            wrong = ~(np.abs(leaf) < LIMIT)
        for time, agent, *_ in np.argwhere(wrong)[:1].tolist():
            places.append((time, number, agent))
    return min(places, default=None)
