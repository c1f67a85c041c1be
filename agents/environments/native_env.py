"""The contract of an environment that is written in TensorFlow."""

from typing import Any

import gymnasium as gym
import numpy as np

from agents.tools.batch import headless
from agents.tools.graph.backend import tf
from agents.tools.nested import Nest


class NativeEnv:
    """An environment as pure functions of tensors, for a whole batch at once.

    All that changes is in the state, a nest of tensors `[agent, ...]` of fixed
    shapes. The functions neither keep anything nor look at anything else, so
    that stepping the environments and learning from them can be compiled into
    one program. The batch resets the agents whose episode ended and counts
    their steps; see docs/environments.md for an example.

    Attributes:
        observation_space: Space of the observations.
        action_space: Space of the actions.
        max_length: Steps after which an episode is truncated, if the
            setting `max_length` is not lower, or None.
        twin: Name of the same environment in Gymnasium, which draws it, if
            there is one whose `state` can be set.
    """

    observation_space: gym.Space
    action_space: gym.Space
    max_length: int | None = None
    twin: str | None = None

    def reset(self, key: tf.Tensor, count: int) -> Any:
        """Draw the states at the beginning of so many episodes.

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
            action: Actions `[agent, ...]`: within the bounds of a box, and
                counted from zero where they are counted.
            key: Random key.

        Returns:
            The states that follow, the rewards `[agent]` and whether the
            episode is terminated, `[agent]`.
        """
        raise NotImplementedError

    def observe(self, state: Nest) -> Nest:
        """What the agents see of their states, leaves `[agent, ...]`."""
        raise NotImplementedError

    @property
    def can_render(self) -> bool:
        """Tells if there are frames, by a method of the class or its twin."""
        own = type(self).render is not NativeEnv.render
        return own or self.twin is not None

    def render(self, state: Nest) -> np.ndarray:
        """Draw the state of one agent as a frame `[height, width, 3]` bytes.

        Args:
            state: State of one agent, leaves without a batch, NumPy arrays.
        """
        if self.twin is None:
            raise NotImplementedError(f'{type(self).__name__} cannot be drawn.')
        if not hasattr(self, '_drawn'):
            headless.prepare()
            self._drawn = gym.make(self.twin, render_mode='rgb_array')
            self._drawn.reset()
        self._drawn.unwrapped.state = state  # type: ignore[attr-defined]
        return np.asarray(self._drawn.render())
