"""A batch of environments as operations of a graph."""

import weakref
from typing import Any

import numpy as np

from agents.tools import nested, spaces
from agents.tools.envs import block
from agents.tools.envs.batch_env import BatchEnv
from agents.tools.graph import bounds
from agents.tools.graph.backend import tf
from agents.tools.graph.devices import keep_thread
from agents.tools.transition import Transition


class InGraphBatchEnv(tf.Module):
    """Makes a step of a `BatchEnv` an operation, its reply variables.

    This is the one place where the graph calls Python. Bounded continuous
    actions range from -1 to 1 here: they are clipped and scaled to the bounds
    on their way to the environments, while the algorithm keeps the action that
    it chose. Counted actions and observations start from zero.

    Args:
        batch_env: The environments.
    """

    # Whether a function that steps the batch can be compiled as a whole.
    compiled = False

    def __init__(self, batch_env: BatchEnv):
        super().__init__()
        self._batch_env = batch_env
        self.observation_space = batch_env.observation_space
        self.action_space = batch_env.action_space
        self._layout = block.reply_layout(self.observation_space)
        self._reply = [
            tf.Variable(tf.zeros((len(self), width), kind), trainable=False)
            for kind, width in self._layout.groups
        ]
        (action,) = nested.flatten(spaces.specs(self.action_space))
        self._action = tf.Variable(
            tf.zeros((len(self), *action.shape), action.dtype), trainable=False
        )
        self._failure: Exception | None = None

    def __len__(self) -> int:
        return len(self._batch_env)

    def __getattr__(self, name: str) -> Any:
        """Attribute access reaches the first environment."""
        if name.startswith('_'):
            raise AttributeError(f'InGraphBatchEnv has no attribute {name!r}.')
        return getattr(self._batch_env, name)

    @property
    def observ(self) -> Any:
        """What to act on next, already reset where an episode ended."""
        return self._read()['observ']

    @property
    def action(self) -> tf.Tensor:
        """The last action as it was chosen."""
        return self._action.read_value()

    @property
    def reward(self) -> tf.Tensor:
        return self.transition.reward

    @property
    def done(self) -> tf.Tensor:
        return self.transition.done

    @property
    def begins(self) -> tf.Tensor:
        """Where `observ` is the first of an episode."""
        return self._read()['begins']

    @property
    def transition(self) -> Transition:
        """The outcome of the last step."""
        reply = self._read()
        return Transition(*[reply[name] for name in Transition._fields])

    @property
    def seconds(self) -> float:
        """Time spent on steps and resets of the environments so far."""
        return self._batch_env.seconds

    def simulate(self, action: tf.Tensor) -> None:
        """Step the environments; `observ` and `transition` change."""
        self.step(self.prepare(action))

    def prepare(self, action: tf.Tensor) -> tf.Tensor:
        """The first half of `simulate`, which can be compiled.

        Returns:
            What the environments are given for the action.
        """
        self._action.assign(action)
        return bounds.to_bounds(action, self.action_space)

    def step(self, prepared: tf.Tensor) -> None:
        """The second half of `simulate`, which waits for the environments."""
        self._exchange('step_packed', prepared)

    def reset(self, mask: tf.Tensor | None = None) -> None:
        """Reset the environments where the mask is true, by default all.

        By mask, because the episodes of a batch end at different times; as a
        mask rather than a list of indices, because its shape never changes.
        """
        if mask is None:
            mask = tf.ones([len(self)], bool)
        self._exchange('reset_packed', mask)

    def failure(self) -> Exception | None:
        """The error that an environment raised, which the graph hides."""
        return self._failure

    def cancel(self) -> None:
        """Make the step under way, or the next, raise `Cancelled`."""
        self._batch_env.cancel()

    def close(self) -> None:
        """Close the environments and end their processes."""
        self._batch_env.close()

    def _exchange(self, method: str, argument: tf.Tensor) -> None:
        # TensorFlow keeps what it may call until the process ends. By a weak
        # reference, it does not keep the environments as well.
        reference = weakref.ref(self)

        def call(argument: np.ndarray) -> list[np.ndarray]:
            keep_thread()
            return reference()._call(method, argument)  # type: ignore[union-attr]

        kinds = [kind for kind, _ in self._layout.groups]
        matrices = tf.nest.flatten(tf.numpy_function(call, [argument], kinds))
        for variable, matrix in zip(self._reply, matrices, strict=True):
            variable.assign(tf.ensure_shape(matrix, variable.shape))

    def _call(self, method: str, argument: np.ndarray) -> list[np.ndarray]:
        """Let the environments do something, outside of the graph."""
        try:
            return getattr(self._batch_env, method)(argument)
        except Exception as error:
            self._failure = error
            raise

    def _read(self) -> dict:
        return self._layout.unpack(self._reply)
