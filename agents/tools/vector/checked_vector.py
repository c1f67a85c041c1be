"""Vector environment with validated results."""

import contextlib
import reprlib
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from agents.tools import choices, errors, spaces
from agents.tools.vector import vector_masks
from agents.tools.vector.vector_errors import VectorErrors

# How many values methods return, see `agents.tools.batch.env_slice`.
VALUES = {'step': 5, 'reset': 2}

# Seeds of vectors count up from one, and some keep them in 32 bits.
LARGEST_SEED = 2**31 - 1

# How long processes of Gymnasium's may take to complete a step before they are
# ended anyway.
CLOSING_SECONDS = 1.0


class CheckedVector:
    """Steps and resets a vector environment, and refuses results of a wrong form.

    Observations are validated when they are written.

    Attributes:
        env: Vector environment.
        mode: Autoreset mode.
        assumed: Whether the mode is missing in the metadata and assumed to be Gymnasium's default.
        observation_space: Space of the observations of one environment.
        action_space: Space of the actions of one environment.
        errors: Makes the errors of this vector environment.

    Args:
        constructor: Function that makes the vector environment.
        seed: Seed for the first reset, or None.
        first: Index of its first environment within the batch.
        action_masks: Observe action masks if there are any, see `vector_masks.ObserveMasks`.
    """

    def __init__(
        self,
        constructor: Callable[[], gym.vector.VectorEnv],
        seed: int | None,
        first: int,
        action_masks: bool,
    ):
        self.errors = VectorErrors(first)
        with self.errors.telling('while it was constructed'):
            self.env = constructor()
        # What the first reset returned, if it was needed before.
        self._kept: tuple | None = None
        # Whether masks that it tells would be ignored unnoticed.
        self._expects_no_mask = False
        try:
            self._look_at()
            self._seed = seed
            if seed is not None:
                self._seed = seed % (LARGEST_SEED - len(self))
            if action_masks:
                self._look_for_masks(first)
        except BaseException:
            with contextlib.suppress(Exception):  # The first error is told.
                self.close()
            raise
        self._shape = (len(self),)
        self._action_kind = np.dtype(self.action_space.dtype)
        self._has_start = bool(np.any(spaces.start(self.action_space)))

    def __len__(self) -> int:
        return self.errors.count

    @property
    def is_blind(self) -> bool:
        """True if it renders no frames."""
        return self._members is None and self.env.render_mode is None

    def step(self, actions: np.ndarray) -> tuple:
        """Step all environments; returns the tuple of Gymnasium.

        Args:
            actions: Actions of all environments, discrete ones starting at zero.
        """
        # A copy, as vectors may keep the actions that they are given.
        actions = actions.astype(self._action_kind)
        if self._has_start:
            actions += spaces.start(self.action_space)
        try:
            result = self.env.step(actions)
        except BaseException as error:
            doing = f'in step, given the actions {reprlib.repr(actions)}'
            raise self.errors.raised(doing, error) from None
        self._require_values('step', result)
        observ, reward, terminated, truncated, info = result
        if not isinstance(info, dict):
            raise self._broken(f'an info that is {reprlib.repr(info)}, no dict')
        try:
            reward, terminated, truncated = map(np.asarray, (reward, terminated, truncated))
        except BaseException as error:
            raise self.errors.raised('in what step returned', error) from None
        if reward.shape != self._shape or reward.dtype.kind not in 'fiub':
            raise self._broken(f'rewards {_describe(reward)}')
        for flags in (terminated, truncated):
            if flags.shape != self._shape or flags.dtype != bool:
                raise self._broken(f'flags {_describe(flags)}')
        return observ, reward, terminated, truncated, info

    def require_mask(self, what: str, mask: np.ndarray) -> None:
        """Refuse a value that is no mask of the environments.

        Args:
            what: Name of the mask, for the error.
            mask: Value that the vector environment returned.
        """
        if mask.shape != self._shape or mask.dtype != bool:
            raise self._broken(f'{what} {_describe(mask)}')

    def require_no_late_mask(self, info: dict) -> None:
        """Refuse an action mask in the info of a step if the first reset had none.

        Environments with masks give one after every step, so that occasional checks are enough.
        """
        if self._expects_no_mask and choices.KEY in info:
            raise self.errors.told(choices.describe_late('step'))

    def reset(self) -> Any:
        """Reset all environments; returns observations."""
        kept, self._kept = self._kept, None
        observ, _ = kept or self._ask_reset()
        return observ

    def reset_some(self, mask: np.ndarray) -> Any:
        """Reset where a mask is true, in the mode `AutoresetMode.DISABLED`."""
        # Copies, as vectors may keep or change what they are given.
        options = {'reset_mask': mask.copy()}
        with self.errors.telling('in reset, given a reset_mask'):
            result = self.env.reset(options=options)
        self._require_values('reset', result)
        return result[0]

    def call(self, index: int, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method or read an attribute of an environment.

        A vector environment without single environments has its own attributes only, the same for
        all, and its frames.
        """
        with self.errors.telling(f'in {name}'):
            if self._members is not None:
                value = self._members[index].get_wrapper_attr(name)
                return value(*args, **kwargs) if callable(value) else value
            if name == 'render':
                frames = self.env.render()
                return None if frames is None else frames[index]
            value = getattr(self.env, name)
        if callable(value):
            raise errors.EnvError(
                f'{self.errors.name} has no single environments whose method '
                f'{name} could be called.'
            )
        return value

    def close(self) -> None:
        vector = self.env.unwrapped
        with self.errors.telling('in close'):
            if not isinstance(vector, gym.vector.AsyncVectorEnv):
                self.env.close()
                return
            try:  # It would wait for a step that has been broken off.
                self.env.close(timeout=CLOSING_SECONDS)
            finally:
                vector.closed = True
                for process in vector.processes:
                    process.kill()
                    process.join()

    @property
    def _members(self) -> Any:
        """Return its single environments, if they are in this process."""
        return getattr(self.env.unwrapped, 'envs', None)

    def _look_at(self) -> None:
        with self.errors.telling('when asked what it is like'):
            self.errors.count = int(self.env.num_envs)
            self.observation_space = self.env.single_observation_space
            self.action_space = self.env.single_action_space
            spaces.require_supported(self.observation_space, self.action_space)
            self.mode, self.assumed = find_mode(self.env)

    def _look_for_masks(self, first: int) -> None:
        """Observe action masks if there are any.

        Whether infos hold them is known after the first reset, which is kept.
        """
        found = self.observation_space, self.action_space
        if not choices.may_be_told(*found):
            return
        result = None
        if vector_masks.find_method(self.env) is None:
            result = self._kept = self._ask_reset()
            told = isinstance(result[1], Mapping) and choices.KEY in result[1]
            self._expects_no_mask = not told
            if not told:
                return
        self.env = masked = vector_masks.ObserveMasks(self.env, first)
        self.observation_space = masked.single_observation_space
        if result is not None:
            with self.errors.telling('in reset'):
                self._kept = masked.add(*result)

    def _ask_reset(self) -> tuple:
        seed, self._seed = self._seed, None  # Later ones go on in the stream.
        with self.errors.telling(f'in reset, given the seed {seed}'):
            result = self.env.reset(seed=seed)
        self._require_values('reset', result)
        return result

    def _require_values(self, method: str, result: Any) -> None:
        count = VALUES[method]
        if not isinstance(result, tuple) or len(result) != count:
            what = f'{reprlib.repr(result)}, not a tuple of {count}'
            raise self.errors.broken(method, what)

    def _broken(self, what: str) -> errors.EnvError:
        return self.errors.broken('step', what)


def find_mode(env: gym.vector.VectorEnv) -> tuple[AutoresetMode, bool]:
    """Return the autoreset mode of a vector environment, and whether it is assumed."""
    found = (env.metadata or {}).get('autoreset_mode')
    if env.metadata is gym.vector.VectorEnv.metadata:
        # Which other vectors may have written to, as ale-py's do.
        found = getattr(env.unwrapped, 'autoreset_mode', None)
    if found is None:
        return AutoresetMode.NEXT_STEP, True
    for mode in AutoresetMode:
        if found in (mode, mode.value, mode.name):
            return mode, False
    raise errors.EnvError(
        f'there is no autoreset_mode {found!r}; its metadata should have one '
        'of gymnasium.vector.AutoresetMode.'
    )


def _describe(array: np.ndarray) -> str:
    return f'of shape {array.shape} and type {array.dtype}'
