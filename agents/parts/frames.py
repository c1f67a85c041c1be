"""Stacks of frames, of which each frame is kept once.

An environment that stacks frames returns each of them several times: what it
observes at time t are the frames of the times t − S + 1 to t. Before the start
of an episode stand blank frames, or its first one.
"""

import math

from agents.tools.graph import state
from agents.tools.graph.backend import tf


def look_up(rows: tf.Tensor, places: tf.Tensor, shape: tuple[int, ...]) -> tf.Tensor:
    """The stacks of frames at some places.

    Args:
        rows: Frames as rows of bytes.
        places: The rows of each stack, `[..., frame]`.
        shape: Shape of a stack.
    """
    stacks = tf.gather(rows, places)
    return tf.reshape(stacks, [*places.shape[:-1], *shape])


class Frames(tf.Module):
    """Records stacks of frames.

    Args:
        shape: Shape of a stack, its first axis that of the frames.
        steps: Number of steps in a rollout.
        num_agents: Number of agents.
    """

    def __init__(self, shape: tuple[int, ...], steps: int, num_agents: int):
        super().__init__()
        self._shape, self._count = shape, num_agents
        width = math.prod(shape[1:])

        def define(kind: str, *sizes: int) -> tf.Variable:
            return tf.Variable(tf.zeros(sizes, kind), trainable=False)

        # The last frame of each stack, and whether the first one of its episode
        # stands for those before it.
        self._newest = define('uint8', steps, num_agents, width)
        self._repeats = define('bool', steps, num_agents)
        # Where an episode that is over is still observed, as the step is lost
        # in which the next one begins.
        self._stays = define('bool', steps, num_agents)
        # The frames before the first step and how old the episode was at the
        # last of them: of what was taken last, and of what is being recorded.
        self._taken, self._coming = (
            {
                'frames': define('uint8', shape[0] - 1, num_agents, width),
                'age': define('int32', num_agents),
            }
            for _ in range(2)
        )
        # At the last step: whether the episode repeats its first frame, and
        # the stack.
        self._repeated = define('bool', num_agents)
        self._last = define('uint8', num_agents, shape[0], width)
        # Which agents have always returned what can be told by single frames.
        self._sound = tf.Variable(tf.ones(num_agents, bool), trainable=False)

    def append(
        self, step: tf.Tensor, observ: tf.Tensor, begins: tf.Tensor, lost: tf.Tensor
    ) -> None:
        """Record the stacks `[agent, frame, ...]` of a step.

        Args:
            step: Number of the step in the rollout.
            observ: The stacks.
            begins: Where an episode begins.
            lost: Where the step is lost, so that they do not matter.
        """
        stack = tf.reshape(observ, self._last.shape)
        before, newest = stack[:, :-1], stack[:, -1]
        repeats = _are_all(before == newest[:, None])
        goes_on = _are_all(before == self._last[:, 1:])
        blank = _are_all(before == 0)
        stays = begins & lost & goes_on
        starts = begins & ~stays
        fits = tf.where(starts, repeats | blank, goes_on)
        self._sound.assign(self._sound & (fits | lost))
        self._repeated.assign(tf.where(starts, repeats, self._repeated))
        self._newest.scatter_update(_row(newest, step))
        self._repeats.scatter_update(_row(self._repeated.read_value(), step))
        self._stays.scatter_update(_row(stays, step))
        self._last.assign(stack)

    def take(self, begins: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Take what was recorded, and begin a new rollout; see `last`."""
        state.assign(self._taken, state.read(self._coming))
        found = self.last(begins)
        frames = tf.concat([self._taken['frames'], self._newest], 0)
        older = frames[1 - self._shape[0] :]
        age = self._find_ages(begins)[-1]
        state.assign(self._coming, {'frames': older, 'age': age})
        return found

    def last(self, begins: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """What was taken last, as long as no other step is recorded.

        Args:
            begins: Where an episode begins, `[time, agent]`.

        Returns:
            The frames as rows, the first one blank, and the places of stacks.
        """
        frames = tf.concat([self._taken['frames'], self._newest], 0)
        rows = tf.reshape(frames, [-1, frames.shape[-1]])
        blank = tf.zeros((1, frames.shape[-1]), tf.uint8)
        places = self._find_places(self._find_ages(begins))
        return tf.concat([blank, rows], 0), places

    def restart(self) -> None:
        """Forget what was wrong before, as all episodes begin anew."""
        self._sound.assign(tf.ones_like(self._sound))

    def is_finite(self) -> tf.Tensor:
        """Whether all stacks can be told by single frames."""
        return tf.reduce_all(self._sound)

    def first_nonfinite(self) -> int | None:
        """An agent whose stacks cannot."""
        sound = self._sound.numpy()
        return None if sound.all() else int(sound.argmin())

    def _find_ages(self, begins: tf.Tensor) -> tf.Tensor:
        """Steps since the beginning of each observed episode."""
        return _ages(begins & ~self._stays, self._taken['age'])

    def _find_places(self, age: tf.Tensor) -> tf.Tensor:
        """Rows of the frames of each stack, `[time, agent, frame]`."""
        length = self._shape[0]
        time = tf.range(age.shape[0])[:, None, None]
        back = tf.range(length - 1, -1, -1)
        age = age[..., None]
        known = back <= age
        # Where there is nothing yet, the first frame or none.
        back = tf.minimum(back, age)
        agent = tf.range(self._count)[:, None]
        row = 1 + (time - back + length - 1) * self._count + agent
        return tf.where(known | self._repeats[..., None], row, 0)


def _ages(begins: tf.Tensor, age: tf.Tensor) -> tf.Tensor:
    """Steps since the beginning of each episode, `[time, agent]`.

    Args:
        begins: Where an episode begins, `[time, agent]`.
        age: The same before the first step, `[agent]`.
    """
    steps = begins.shape[0]
    time = tf.range(steps)[:, None]
    # When the episode began, as far as the last `span` steps tell. The span is
    # doubled until it is all of them, as a table of all pairs would be large.
    latest, span = tf.where(begins, time, -1 - age), 1
    while span < steps:
        before = tf.tile(latest[:1], [span, 1])
        earlier = tf.concat([before, latest[:-span]], 0)
        latest, span = tf.maximum(latest, earlier), 2 * span
    return time - latest


def _are_all(equal: tf.Tensor) -> tf.Tensor:
    return tf.reduce_all(equal, [*range(1, equal.shape.rank)])


def _row(values: tf.Tensor, step: tf.Tensor) -> tf.IndexedSlices:
    return tf.IndexedSlices(values[None], step[None])
