"""What was recorded of a rollout, and what is made of it to learn from."""

import math
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from agents.parts import distributions, soundness
from agents.parts.frames import Frames
from agents.parts.policy import Inputs
from agents.tools import errors, layout, nested, spaces
from agents.tools.graph import state
from agents.tools.graph.backend import tf
from agents.tools.transition import Transition


class Record(NamedTuple):
    """What happened in a rollout, leaves `[time, agent, ...]`.

    Attributes:
        observ: What was acted on, as the environments returned it, or `Inputs`
            once the policy has made it ready.
        begins: Where an episode begins.
        action: The actions, as distributions are over them.
        reward: What the environments returned, or once normalized.
        terminated: Where a state of no further reward was reached.
        done: Where an episode is over, for whatever reason.
        lost: Where an environment failed, so that there is nothing to learn.
        next_observ: The true successors, like `observ`, or () where there are
            predictions, so that observations are stored once.
        state: The recurrent state of the policy before the first step,
            `[agent, ...]`.
        foreseen: What was predicted while acting, `Foreseen`, or () if nothing
            was.
        value_state: The recurrent state before the first step of who did.
        frames: If observations are stacks of frames that are kept once, these
            as rows, and `observ` is where to look them up; else ().
    """

    observ: Any
    begins: tf.Tensor
    action: tf.Tensor
    reward: tf.Tensor
    terminated: tf.Tensor
    done: tf.Tensor
    lost: tf.Tensor
    next_observ: Any
    state: Any
    foreseen: Any = ()
    value_state: Any = ()
    frames: Any = ()


class Foreseen(NamedTuple):
    """What networks put out while acting, `[time, agent, ...]`.

    Attributes:
        output: What describes the distributions of the actions.
        value: Which return was expected.
        next_value: The same after a step at which an episode was truncated, and
            after the last one; else of no meaning.
    """

    output: tf.Tensor
    value: tf.Tensor
    next_value: tf.Tensor


class Rollout(NamedTuple):
    """A rollout to learn from, leaves `[time, agent, ...]`.

    Attributes:
        inputs: Observations that the policy has made ready.
        begins: Where an episode begins.
        action: The actions, as distributions are over them.
        reward: The rewards as they are learnt from.
        lost: Where there is nothing to learn.
        state: The recurrent state of the policy before the first step,
            `[agent, ...]`.
        value: Which return the critic expected.
        advantage: How much better the return was.
        returns: The returns.
        output: What described the distributions of the actions, if it has been
            kept, or ().
        frames: Where to look up what is visible, as for a record.
    """

    inputs: Inputs
    begins: tf.Tensor
    action: tf.Tensor
    reward: tf.Tensor
    lost: tf.Tensor
    state: Any
    value: tf.Tensor
    advantage: tf.Tensor
    returns: tf.Tensor
    output: Any = ()
    frames: Any = ()


class Recorder(tf.Module):
    """Records the steps since the last update.

    Episodes run on from one rollout to the next, and every row is a real step:
    nothing is padded.

    Args:
        observ_space: Space of the observations.
        action_space: Space of the actions.
        steps: Number of steps in a rollout.
        num_agents: Number of agents.
        before: The recurrent state of the policy at the beginning.
        first: Number of the first agent, where there are those of other ranks.
        foresees: Whether predictions are recorded instead of successors.
        stacks: Whether observations are stacks of frames, of which each is to
            be kept once.
    """

    def __init__(
        self,
        observ_space: gym.Space,
        action_space: gym.Space,
        steps: int,
        num_agents: int,
        before: Any,
        first: int = 0,
        foresees: bool = False,
        stacks: bool = False,
    ):
        super().__init__()
        self._first, self._foresees = first, foresees
        specs = _define_specs(observ_space, action_space, foresees)
        self._frames: Frames | None = None
        if stacks:
            shape = spaces.shape(observ_space)
            self._frames = Frames(shape, steps, num_agents)
            specs = (), *specs[1:]
        # Where the step that is recorded next begins an episode.
        begins = tf.ones(num_agents, bool)
        self._begins = tf.Variable(begins, trainable=False)
        self._layout = layout.Layout(specs)
        self._counts_actions = spaces.count(action_space) is not None
        kinds = [spec.dtype for spec in nested.flatten(specs[0])]
        self._counts_observs = 'int32' in kinds
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
        """How many steps have been recorded."""
        return self._step.read_value()

    def append(
        self, observ: Any, action: tf.Tensor, transition: Transition, foreseen: Any = ()
    ) -> None:
        """Record a step, leaves `[agent, ...]`."""
        if self._foresees:
            transition = transition._replace(next_observ=())
        if self._frames is not None:
            begins, lost = self._begins.read_value(), transition.lost
            self._frames.append(self._step, observ, begins, lost)
            observ = ()
        matrices = self._layout.pack((observ, action, transition, foreseen))
        for variable, matrix in zip(self._matrices, matrices, strict=True):
            row = tf.IndexedSlices(matrix[None], self._step[None])
            variable.scatter_update(row)
        self._begins.assign(transition.done)
        self._step.assign_add(1)

    def take(self, after: Any) -> Record:
        """Take what was recorded, and begin a new rollout.

        Args:
            after: The recurrent state of the policy after the last step.
        """
        state.assign(self._taken, state.read(self._coming))
        record = self.last()
        start = {'begins': record.done[-1], 'state': after}
        state.assign(self._coming, start)
        self._step.assign(0)
        if self._frames is None:
            return record
        return _with_frames(record, *self._frames.take(record.begins))

    def last(self) -> Record:
        """What was taken last, as long as no other step is recorded."""
        observ, action, transition, foreseen = self._unpack()
        start, done = state.read(self._taken), transition.done
        record = Record(
            observ=observ,
            begins=tf.concat([start['begins'][None], done[:-1]], 0),
            action=action,
            reward=transition.reward,
            terminated=transition.terminated,
            done=done,
            lost=transition.lost,
            next_observ=transition.next_observ,
            state=start['state'],
            foreseen=foreseen,
        )
        if self._frames is None:
            return record
        return _with_frames(record, *self._frames.last(record.begins))

    def restart(self) -> None:
        """Forget the steps since the last update; all episodes begin anew."""
        self._step.assign(0)
        for begins in (self._coming['begins'], self._begins):
            begins.assign(tf.ones_like(begins))
        if self._frames is not None:
            self._frames.restart()

    def is_sound(self) -> tf.Tensor:
        """Whether all that was recorded can be learnt from."""
        observ, action, transition, foreseen = self._unpack()
        # At once, where there are no whole numbers, which have other bits. Nor
        # what the policy put out, which may be of any size; the actions tell
        # whether it made sense.
        sound = soundness.is_sound(
            nested.flatten((observ, action, transition, foreseen[1:]))
            if self._counts_observs or foreseen
            else self._matrices
        )
        if self._counts_actions:
            sound &= tf.reduce_min(action) >= 0
        return sound if self._frames is None else sound & self._frames.is_sound()

    def failure(self) -> Exception | None:
        """What of the record cannot be learnt from, if anything cannot."""
        if self._frames is not None and not self._frames.is_sound():
            return self._describe_stacks()
        recorded = nested.map(np.asarray, self._unpack())
        observ, action, transition, foreseen = recorded
        before, after = map(nested.flatten, (observ, transition.next_observ))
        values = [foreseen.value, foreseen.next_value] if foreseen else []
        chosen = action
        if self._counts_actions:
            chosen = np.where(action < 0, math.nan, action)
        leaves = [*before, chosen, transition.reward, *after, *values]
        place = soundness.first_unsound(leaves)
        if place is None:
            return None
        time, number, agent = place
        if number == len(before):
            return errors.EnvError(
                f'The action {action[time, agent]} for environment '
                f'{self._first + agent} is '
                'none, as what the network puts out is not finite. Nothing was '
                'learnt from it.'
            )
        if number > len(before) + 1 + len(after):
            return errors.EnvError(
                f'The value {leaves[number][time, agent]} was expected of an '
                f'observation of environment {self._first + agent}, as what '
                'the network puts out is not finite. Nothing was learnt from '
                'it.'
            )
        what = 'reward' if number == len(before) + 1 else 'observation'
        return errors.EnvError(
            f'Environment {self._first + agent} returned the {what} '
            f'{leaves[number][time, agent]}, given the action '
            f'{action[time, agent]}. Numbers have to be finite, and so do '
            'their squares in 32 bits. Nothing was learnt from it.'
        )

    def of_agents(self) -> Any:
        """Variables of the agents, `[agent, ...]`."""
        return self._coming

    def saved(self) -> dict[str, Any]:
        """Return what a checkpoint between rollouts holds, by name."""
        return self._coming

    def _describe_stacks(self) -> Exception:
        assert self._frames is not None
        agent = self._frames.first_unsound()
        return errors.EnvError(
            f'Environment {self._first + (agent or 0)} says that it stacks '
            'frames, but what it observes is not the last observation with one '
            'more frame, nor the start of an episode with blank ones or its '
            'first before it. Nothing was learnt from it. Choose '
            'single_frames=False to have observations kept as they are.'
        )

    def _unpack(self) -> tuple[Any, tf.Tensor, Transition, Any]:
        return self._layout.unpack(self._matrices)


def _with_frames(record: Record, frames: tf.Tensor, places: tf.Tensor) -> Record:
    return record._replace(observ=places, frames=frames)


def _define_specs(observ_space: gym.Space, action_space: gym.Space, foresees: bool) -> tuple:
    """What is recorded of each step.

    Observation, action, transition and what was predicted.
    """
    observ = spaces.specs(observ_space)
    action = spaces.specs(action_space)
    if not isinstance(action_space, gym.spaces.Discrete):
        action = layout.Spec((math.prod(action.shape),), action.dtype)
    number, flag = layout.Spec((), 'float32'), layout.Spec((), 'bool')
    if not foresees:
        return observ, action, Transition(number, flag, flag, observ, flag), ()
    transition = Transition(number, flag, flag, (), flag)
    size = distributions.output_size(action_space)
    output = layout.Spec((size,), 'float32')
    return observ, action, transition, Foreseen(output, number, number)
