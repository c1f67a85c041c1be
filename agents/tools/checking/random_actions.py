"""Random actions within action masks."""

import copy
from typing import Any

import gymnasium as gym
import numpy as np

from agents.tools import choices, errors, spaces
from agents.tools.batch.masking import ObserveMask
from agents.tools.nested import Nest


class RandomActions:
    """Samples actions for an environment, within its action mask.

    Attributes:
        masked: Source of the last mask: 'observation', 'info' or 'method action_masks()'.
        possible: Share of choices that each mask allowed.

    Args:
        env: Environment.
        seed: Seed of the actions.
    """

    def __init__(self, env: gym.Env, seed: int):
        self._env = env
        # The environment may sample from its own too.
        self._space = copy.deepcopy(env.action_space)
        if isinstance(self._space, gym.spaces.Box):
            self._space = spaces.without_huge_bounds(self._space)
        self._space.seed(seed)
        self._random = np.random.default_rng(seed)
        self._can_mask = choices.are_choices(self._space)
        self._has_method = env.has_wrapper_attr(ObserveMask.METHOD)
        self.masked = ''
        self.possible: list[float] = []

    @property
    def are_masked_by_info(self) -> bool:
        """True if a mask in the info is used."""
        observ_space = self._env.observation_space
        told = choices.may_be_told(observ_space, self._space)
        return told and not self._has_method

    def sample(self, observ: Nest, info: Any) -> Nest:
        """Sample an action.

        Raises:
            EnvError: If the mask is invalid or allows nothing.
        """
        told = self._find_mask(observ, info) if self._can_mask else None
        if told is None:
            return self.sample_any()
        try:
            mask = choices.flatten(told, self._space)
        except ValueError as error:
            raise errors.EnvError(f'in the {self.masked} {error}') from None
        counts = choices.sizes(self._space)
        parts = np.split(mask, np.cumsum(counts)[:-1])
        chosen = [self._choose(possible) for possible in parts]
        self.possible.append(float(np.mean(mask)))
        action = np.reshape(chosen, spaces.shape(self._space))
        action = action + spaces.start(self._space)
        return action.astype(self._space.dtype)[()]

    def sample_any(self) -> Nest:
        """Sample an action without a mask."""
        return self._space.sample()

    def _find_mask(self, observ: Nest, info: Any) -> Any:
        if isinstance(observ, dict) and choices.KEY in observ:
            self.masked = 'observation'
            return observ[choices.KEY]
        if self._has_method:
            self.masked = f'method {ObserveMask.METHOD}()'
            return self._env.get_wrapper_attr(ObserveMask.METHOD)()
        if isinstance(info, dict) and choices.KEY in info:
            self.masked = 'info'
            return info[choices.KEY]
        return None

    def _choose(self, possible: np.ndarray) -> int:
        if not possible.any():
            raise errors.EnvError(f'the {choices.KEY} of the {self.masked} allows no action at all')
        return int(self._random.choice(np.flatnonzero(possible)))


def as_given(space: gym.Space, action: Nest) -> Nest:
    """Convert a sampled action to the type that a training passes to environments."""
    return int(action) if isinstance(space, gym.spaces.Discrete) else action
