"""Interface of environments written in TensorFlow."""

from typing import Any

import gymnasium as gym
import numpy as np

from agents.tools.batch import headless
from agents.tools.graph.backend import tf
from agents.tools.nested import Nest


class NativeEnv:
    """Environment as pure functions of tensors, for a whole batch.

    All state is a nest of tensors `[agent, ...]` of fixed shapes. The functions have no side
    effects, so that environments and learning can be compiled into one program. The batch resets
    agents whose episode ended and counts their steps; see docs/environments.md for an example.

    Attributes:
        observation_space: Space of the observations.
        action_space: Space of the actions.
        max_length: Steps after which an episode is truncated, unless the setting `max_length` is
            lower, or None.
        twin: Name of the same environment in Gymnasium, for rendering, if its `state` can be set.
    """

    observation_space: gym.Space
    action_space: gym.Space
    max_length: int | None = None
    twin: str | None = None

    def reset(self, key: tf.Tensor, count: int) -> Any:
        """Draw initial states.

        Args:
            key: Random key, for `agents.tools.graph.random`.
            count: Number of agents.
        """
        raise NotImplementedError

    def step(
        self, state: Nest, action: tf.Tensor, key: tf.Tensor
    ) -> tuple[Any, tf.Tensor, tf.Tensor]:
        """Apply actions to states.

        Args:
            state: States, leaves `[agent, ...]`.
            action: Actions `[agent, ...]`, within the bounds of a box or starting at zero.
            key: Random key.

        Returns:
            Next states, rewards `[agent]` and a mask of terminated episodes `[agent]`.
        """
        raise NotImplementedError

    def observe(self, state: Nest) -> Nest:
        """Return the observations of states, leaves `[agent, ...]`."""
        raise NotImplementedError

    @property
    def can_render(self) -> bool:
        """Return whether there are frames, by a method of the class or its twin."""
        own = type(self).render is not NativeEnv.render
        return own or self.twin is not None

    def render(self, state: Nest) -> np.ndarray:
        """Render the state of one agent as a frame `[height, width, 3]` of bytes.

        Args:
            state: State of one agent, NumPy arrays without a batch axis.
        """
        if self.twin is None:
            raise NotImplementedError(f'{type(self).__name__} cannot be drawn.')
        if not hasattr(self, '_drawn'):
            headless.prepare()
            self._drawn = gym.make(self.twin, render_mode='rgb_array')
            self._drawn.reset()
        self._drawn.unwrapped.state = state  # type: ignore[attr-defined]
        return np.asarray(self._drawn.render())
