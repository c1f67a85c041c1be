"""Random actions that are possible."""

import copy
from typing import Any

import gymnasium as gym
import numpy as np

from agents.tools import errors, spaces
from agents.tools.envs import observations

# What masks are called, in observations and in what is told beside them.
MASK = 'action_mask'


class RandomActions:
    """Samples actions of a space, only those that a mask allows.

    A mask is a number for each choice, not zero if it is possible; the choices
    of a `MultiDiscrete` space follow each other.

    Attributes:
        masked: Where the last mask was, in 'observation' or 'info'.
        possible: The share of choices that each mask allowed.

    Args:
        space: The space.
        seed: Seed of the actions.
    """

    def __init__(self, space: gym.Space, seed: int):
        self._space = copy.deepcopy(space)  # The environment may sample too.
        self._space.seed(seed)
        self._random = np.random.default_rng(seed)
        self._choices = _choices(space)
        self.masked = ''
        self.possible: list[float] = []

    def sample(self, observ: Any, info: Any) -> Any:
        """Sample an action, as the space does by itself.

        Raises:
            EnvError: The mask is none, or allows nothing.
        """
        mask = self._find_mask(observ, info)
        if mask is None:
            return self._space.sample()
        chosen = [
            self._choose(possible)
            for possible in np.split(mask, np.cumsum(self._choices)[:-1])
        ]
        self.possible.append(float(np.mean(mask)))
        action = np.reshape(chosen, spaces.shape(self._space))
        return (action + spaces.start(self._space)).astype(self._space.dtype)[
            ()
        ]

    def _find_mask(self, observ: Any, info: Any) -> np.ndarray | None:
        places = {'observation': observ, 'info': info}
        for place, holder in places.items():
            if self._choices and isinstance(holder, dict) and MASK in holder:
                self.masked = place
                return self._as_vector(holder[MASK])
        return None

    def _as_vector(self, mask: Any) -> np.ndarray:
        parts = mask if isinstance(mask, (tuple, list)) else [mask]
        flat = np.concatenate(
            [np.ravel(part) for part in parts] or [np.zeros(0)]
        )
        if flat.shape != (sum(self._choices),):
            raise errors.EnvError(
                f'the {MASK} of the {self.masked} should have '
                f'{sum(self._choices)} numbers, one for each choice of '
                f'{self._space}, but is {observations.describe(mask)}'
            )
        return flat != 0

    def _choose(self, possible: np.ndarray) -> int:
        if not possible.any():
            raise errors.EnvError(
                f'the {MASK} of the {self.masked} allows no action at all'
            )
        return int(self._random.choice(np.flatnonzero(possible)))


def as_given(space: gym.Space, action: Any) -> Any:
    """A sampled action as a training hands it to an environment."""
    return int(action) if isinstance(space, gym.spaces.Discrete) else action


def _choices(space: gym.Space) -> list[int]:
    """How many choices each action has that masks can rule out."""
    match space:
        case gym.spaces.Discrete():
            return [int(space.n)]
        case gym.spaces.MultiDiscrete():
            return space.nvec.reshape(-1).tolist()
    return []
