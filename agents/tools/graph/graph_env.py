"""Interface of a batch of environments in the graph."""

from typing import Any, Protocol

import gymnasium as gym

from agents.tools.graph.backend import tf
from agents.tools.nested import Nest
from agents.tools.transition import Transition


class GraphEnv(Protocol):
    """Batch of environments whose step is an operation of the graph.

    `InGraphBatchEnv` steps environments of Gymnasium, `NativeBatchEnv` those written in TensorFlow.
    Leaves of tensors are `[agent, ...]`.

    Attributes:
        observation_space: Space of the observations of one environment.
        action_space: Space of the actions of one environment.
        compiled: Whether a function that steps the batch can be compiled.
        keeps_state: Whether all state is in variables, so that a checkpoint holds it and a resumed
            run continues the same episodes.
    """

    observation_space: gym.Space
    action_space: gym.Space
    compiled: bool
    keeps_state: bool

    def __len__(self) -> int: ...

    @property
    def observ(self) -> Nest:
        """Current observations, those of the next episode where one ended."""

    @property
    def begins(self) -> tf.Tensor:
        """Mask of the agents whose `observ` is the first of an episode."""

    @property
    def transition(self) -> Transition:
        """Outcome of the last step."""

    @property
    def seconds(self) -> float:
        """Time spent in environments outside of the graph so far."""

    def prepare(self, action: tf.Tensor) -> tf.Tensor:
        """Convert actions to what the environments receive."""

    def step(self, prepared: tf.Tensor) -> None:
        """Step the environments; `observ` and `transition` change."""

    def reset(self, mask: tf.Tensor | None = None) -> None:
        """Reset the environments where the mask is true, by default all."""

    def begin_evaluation(self) -> None:
        """Prepare for the episodes of an evaluation."""

    def end_evaluation(self) -> None:
        """Bring all ranks to the same state after an evaluation."""

    def failure(self) -> BaseException | None:
        """Return the error that ends the training, or None."""

    def cancel(self) -> None:
        """Make the current or next step fail."""

    def close(self) -> None:
        """Close the environments."""

    def saved(self) -> dict[str, Any]:
        """Return the contents of a checkpoint by name."""

    def per_agent_variables(self) -> list[Any]:
        """Return the saved variables with an axis of agents."""
