"""Batch of external environments as operations of a graph."""

from typing import Any

import numpy as np

from agents.tools.batch.batch_env import BatchEnv
from agents.tools.graph import bounds, foreign
from agents.tools.graph.backend import tf
from agents.tools.graph.host_calls import HostCall
from agents.tools.layout import Spec
from agents.tools.nested import Nest
from agents.tools.transition import Transition
from agents.tools.workers import block


class InGraphBatchEnv(tf.Module):
    """Turns the step of a `BatchEnv` into an operation and its reply into variables.

    Compiled programs step the environments by a host call, so that a rollout is one program. This
    is the only place where the graph calls Python. Bounded continuous actions are in [-1, 1] here;
    they are clipped and scaled to the bounds for the environments, while the algorithm keeps the
    action that it sampled. Discrete actions and observations start at zero.

    Args:
        batch_env: Environments.
    """

    # Whether its whole state is in variables, so that a checkpoint holds it.
    keeps_state = False

    def __init__(self, batch_env: BatchEnv):
        super().__init__()
        # Whether a function that steps the batch can be compiled as a whole.
        self.compiled = foreign.why_not() is None
        self._batch_env = batch_env
        self.observation_space = batch_env.observation_space
        self.action_space = batch_env.action_space
        self._layout = block.reply_layout(self.observation_space)
        matrices = [Spec((len(self), width), kind) for kind, width in self._layout.groups]
        self._reply = [
            tf.Variable(tf.zeros(spec.shape, spec.dtype), trainable=False) for spec in matrices
        ]
        self._step = HostCall(_first(batch_env.step_packed), matrices)
        self._reset = HostCall(_first(batch_env.reset_packed), matrices)

    def __len__(self) -> int:
        return len(self._batch_env)

    def __getattr__(self, name: str) -> Any:
        """Forward attribute access to the first environment."""
        if name.startswith('_'):
            raise AttributeError(f'InGraphBatchEnv has no attribute {name!r}.')
        return getattr(self._batch_env, name)

    @property
    def observ(self) -> Nest:
        """Current observations, those of the next episode where one ended."""
        return self._read()['observ']

    @property
    def reward(self) -> tf.Tensor:
        return self.transition.reward

    @property
    def done(self) -> tf.Tensor:
        return self.transition.done

    @property
    def begins(self) -> tf.Tensor:
        """Mask of the agents whose `observ` is the first of an episode."""
        return self._read()['begins']

    @property
    def transition(self) -> Transition:
        """Outcome of the last step."""
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
        """Convert actions to what the environments receive; can always be compiled.

        Returns:
            Arguments of `step`.
        """
        return bounds.to_bounds(action, self.action_space)

    def step(self, prepared: tf.Tensor) -> None:
        """Step the environments and wait for them; the second half of `simulate`."""
        self._exchange(self._step, prepared)

    def reset(self, mask: tf.Tensor | None = None) -> None:
        """Reset the environments where the mask is true, by default all.

        A mask instead of a list of indices, as its shape never changes.
        """
        if mask is None:
            mask = tf.ones([len(self)], bool)
        self._exchange(self._reset, mask)

    def begin_evaluation(self) -> None:
        """Count the numbers of infos for one episode of each environment."""
        self._batch_env.infos.restart(episodes=1)

    def end_evaluation(self) -> None:
        """Do nothing, as ranks share no state here."""

    def saved(self) -> dict[str, Any]:
        """Return nothing: a resumed run begins new episodes."""
        return {}

    def per_agent_variables(self) -> list[Any]:
        return []

    def failure(self) -> BaseException | None:
        """Return the exception of an environment, which the graph hides, or None."""
        return self._step.error or self._reset.error

    def cancel(self) -> None:
        """Make the current or next step raise `Cancelled`."""
        self._batch_env.cancel()

    def close(self) -> None:
        """Close the environments and end their processes."""
        self._batch_env.close()

    def _exchange(self, call: HostCall, argument: tf.Tensor) -> None:
        # The last reply is an argument as well, which nobody looks at. It
        # keeps the calls in order, which a program tells by what is passed on.
        matrices = call(argument, self._reply[0].read_value())
        for variable, matrix in zip(self._reply, matrices, strict=True):
            variable.assign(matrix)

    def _read(self) -> dict:
        return self._layout.unpack(self._reply)


def _first(method: Any) -> Any:
    """Adapt a method of a batch to a host call with one argument."""

    def function(inputs: list[np.ndarray], results: list[np.ndarray]) -> None:
        method(inputs[0], results)

    return function
