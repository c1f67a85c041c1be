"""Vector environment as a member of a batch.

At the end of an episode, the next one begins in one of three ways, see
`gymnasium.vector.AutoresetMode`, which only this module distinguishes:

    SAME_STEP   The vector returns the first observation of the next episode, and the last one of
                this in `info`.
    DISABLED    It has to be reset explicitly, which happens within the step.
    NEXT_STEP   The step after the end ignores its action and returns the first observation. As it
                is no transition, it is a lost step, see `agents.tools.Transition`. If all episodes
                end at once, it is taken within the same step, so that none is lost.

By `info[LOST]`, a mask, a vector can mark other steps as lost. Values are validated like those of
single environments, all at once.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from agents.tools import choices, errors, nested, spaces
from agents.tools.batch import infos, observations
from agents.tools.batch.infos import LAST_INFO, LAST_OBSERV, LOST
from agents.tools.nested import Nest
from agents.tools.vector import vector_frames
from agents.tools.vector.checked_vector import CheckedVector
from agents.tools.workers import block

# What is raised about observations that do not fit their space.
MISFITS = TypeError, ValueError, OverflowError


class VectorSlice:
    """Environments of a vector, with their data in the arrays of a block.

    Attributes:
        mode: Autoreset mode of the vector.
        assumed: Whether the mode is missing in the metadata and assumed to be Gymnasium's default.
        log_info: Names of numbers of infos to report.

    Args:
        constructor: Function that makes the vector.
        seed: Seed for the first reset, or None.
        first: Index of its first environment within the batch.
        max_length: Steps after which an episode is truncated, or None. A vector that resets by
            itself must have ended it by then.
        log_info: Names of numbers of infos to report. At the end of an episode they are those of
            `info['final_info']` if the next one begins in the same step.
        action_masks: Observe action masks if there are any, see `agents.tools.vector.vector_masks`.
    """

    def __init__(
        self,
        constructor: Callable[[], gym.vector.VectorEnv],
        seed: int | None = None,
        first: int = 0,
        max_length: int | None = None,
        log_info: Sequence[str] = (),
        action_masks: bool = False,
    ):
        self.log_info = log_info
        self._infos = infos.Writer(log_info)
        self._first = first
        self._max_length = max_length
        self._vector = CheckedVector(constructor, seed, first, action_masks)
        self._errors = self._vector.errors
        self.mode, self.assumed = self._vector.mode, self._vector.assumed
        self.observation_space = spaces.with_plain_text(self._vector.observation_space)
        self.action_space = self._vector.action_space
        # The steps so far, and how many there were when each episode began.
        self._clock, self._begun = 0, np.zeros(len(self), np.int64)
        # Not before this one does an episode take too long.
        self._due = math.inf if max_length is None else max_length
        # Where actions are ignored, if that is anywhere.
        self._pending: np.ndarray | None = None
        self._was_reset = False

    def __len__(self) -> int:
        return len(self._vector)

    @property
    def env(self) -> gym.vector.VectorEnv:
        """Vector environment."""
        return self._vector.env

    def info_names(self) -> list[str]:
        """Return the names of numbers in infos that are not reported."""
        return sorted(self._infos.seen)

    def attach(self, memory: block.Block) -> None:
        """Use a block for requests and replies from now on."""
        self._request, self._reply = memory.request, memory.reply
        self._observ, self._next_observ = (
            observations.Writer(self.observation_space, self._reply[name])
            for name in ('observ', 'next_observ')
        )
        leaves = nested.flatten(self._reply['observ'])
        # All numbers in one piece, if bytes are all that there is beside.
        self._numbers = None
        if not any(leaf.dtype == np.int32 for leaf in leaves):
            (matrix,) = [m for m in memory.matrices if m.dtype == np.float32]
            self._numbers = matrix.reshape(-1)
        self._action = self._request['action']
        self._reward = self._reply['reward']
        self._infos.attach(memory.infos)
        self._watch = choices.BatchWatch.over(
            self.observation_space, self.action_space, self._reply['observ'], self._first
        )
        self._flags_set = True

    def step(self) -> None:
        """Step every environment with its requested action.

        `observ` is then the observation to act on next, and `next_observ` the true successor, in
        any autoreset mode.
        """
        observ, reward, terminated, truncated, info = self._vector.step(self._action)
        leaves = LOST in info
        if leaves:
            self._pending = self._find_lost(info[LOST])
        acted_on = [] if self._pending is None else self._copy_pending()
        with np.errstate(all='ignore'):  # Shows as infinity, which is checked.
            self._write(self._next_observ, 'step', observ)
            self._next_observ.copy_to(self._observ)
            self._reward[:] = reward
            if self.log_info:
                self._write_infos(info)
            self._clock += 1
            if (
                self._flags_set
                or self._pending is not None
                or self._clock >= self._due
                or np.count_nonzero(terminated)  # Sooner told than by `any`.
                or np.count_nonzero(truncated)
            ):
                self._conclude(terminated, truncated, info, acted_on)
            self._require_finite()
        if self._watch is not None:
            self._watch.require(self._find_acting(leaves))

    def reset(self) -> None:
        """Reset the environments that the request marks."""
        marked = self._request['reset'] > 0.5
        if marked.all() or not self._was_reset:
            self._reset_all()
        elif self.mode is AutoresetMode.DISABLED:
            self._reset_some(marked)
        else:
            raise errors.EnvError(
                f'{self._errors.name} begins its episodes by itself, so that '
                'they can be reset together only.'
            )
        for name in ('reward', 'terminated', 'truncated', 'lost'):
            self._reply[name][marked] = 0.0
        self._reply['begins'][marked] = 1.0
        self._begun[marked] = self._clock
        self._flags_set = True
        with np.errstate(all='ignore'):
            found = self._observ.first_beyond()
        if found is not None:
            raise self._beyond(*found, 'a first observation', 'observ')
        if self._watch is not None:
            self._watch.require(marked)

    def call(self, index: int, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method or read an attribute of an environment.

        Without rendering, frames are made of observations.
        """
        if name == 'render' and self._vector.is_blind:
            visible = self._reply['observ']
            if choices.has_mask(self.observation_space, self.action_space):
                visible = choices.without_mask(visible)
            leaves = nested.flatten(visible)
            if len(leaves) == 1:
                with self._errors.telling('in render'):
                    return vector_frames.of_observation(leaves[0][index])
        return self._vector.call(index, name, *args, **kwargs)

    def close(self) -> None:
        self._vector.close()

    def _conclude(
        self, terminated: np.ndarray, truncated: np.ndarray, info: dict, acted_on: list[np.ndarray]
    ) -> None:
        """Find the episodes that ended in a step, and begin the next."""
        self._vector.require_no_late_mask(info)
        reply = self._reply
        lost, self._pending = self._pending, None
        begins = np.zeros(len(self), bool)
        if lost is not None:
            self._lose(lost, terminated | truncated, acted_on)
            begins |= lost
            self._infos.clear(lost)
            self._begun[lost] = self._clock
        truncated = truncated | self._find_overdue(terminated | truncated)
        ended = terminated | truncated
        for name, flags in (
            ('begins', begins | ended),
            ('terminated', terminated),
            ('truncated', truncated if lost is None else truncated | lost),
            ('lost', False if lost is None else lost),
        ):
            reply[name][:] = flags
        if ended.any():
            self._begun[ended] = self._clock
            self._begin(ended, info)
        self._flags_set = bool(begins.any() or ended.any())
        if self._max_length is not None:
            self._due = int(np.min(self._begun)) + self._max_length

    def _begin(self, ended: np.ndarray, info: dict) -> None:
        """Begin the next episodes, and find the last observations of the previous."""
        match self.mode:
            case AutoresetMode.DISABLED:
                self._reset_some(ended)
            case AutoresetMode.SAME_STEP:
                self._write_last(ended, info)
                if self.log_info:  # The others are of the next episodes.
                    self._write_infos(info.get(LAST_INFO, {}), ended)
            case AutoresetMode.NEXT_STEP:
                self._require_no_last(info)
                self._pending = ended
                if ended.all():
                    observ, reward, *flags, _ = self._vector.step(self._action)
                    self._require_no_steps(ended, reward, flags[0] | flags[1])
                    self._write(self._observ, 'step', observ)
                    self._pending = None

    def _write_last(self, ended: np.ndarray, info: dict) -> None:
        """Write the last observations, in any of their forms."""
        if LAST_OBSERV not in info:
            index = self._first + int(np.argmax(ended))
            raise errors.EnvError(
                f'{self._errors.name} has the autoreset mode SAME_STEP and '
                f'ended the episode of environment {index}, but its info has '
                "no 'final_obs' with the last observation."
            )
        last = info[LAST_OBSERV]
        self._write_rows(self._next_observ, 'step', last, ended)

    def _lose(self, lost: np.ndarray, ended: np.ndarray, acted_on: list[np.ndarray]) -> None:
        """Turn steps that ignored the action into lost steps."""
        self._require_no_steps(lost, self._reply['reward'], ended)
        # Some leave there what the ignored action would have been rewarded by.
        self._reply['reward'][lost] = 0.0
        leaves = nested.flatten(self._reply['next_observ'])
        for leaf, rows in zip(leaves, acted_on, strict=True):
            leaf[lost] = rows

    def _find_lost(self, mask: Nest) -> np.ndarray | None:
        """Return the mask of lost steps, or None."""
        mask = np.asarray(mask)
        self._vector.require_mask('lost steps', mask)
        if self._pending is not None:
            mask = mask | self._pending
        return mask if mask.any() else None

    def _copy_pending(self) -> list[np.ndarray]:
        """Copy the observations of environments that will ignore the action."""
        leaves = nested.flatten(self._reply['observ'])
        return [leaf[self._pending] for leaf in leaves]

    def _find_overdue(self, ended: np.ndarray) -> np.ndarray | bool:
        """Find the episodes that have to be truncated."""
        if self._max_length is None or self._clock < self._due:
            return False
        overdue = (self._clock - self._begun >= self._max_length) & ~ended
        if overdue.any() and self.mode is not AutoresetMode.DISABLED:
            raise errors.EnvError(
                f'Environment {self._first + int(np.argmax(overdue))} goes on '
                f'after {self._max_length} steps, the max_length, and a '
                'vector that begins its episodes by itself cannot be told to '
                'end one. Set a max_length that its episodes keep to, or make '
                'the vector with this limit.'
            )
        return overdue

    def _find_acting(self, leaves: bool) -> np.ndarray | None:
        """Return the mask of environments that will use their action, None for all.

        Args:
            leaves: Whether the vector marks lost steps, so that more of them may follow.
        """
        if not self._flags_set:
            return None
        acting = np.ones(len(self), bool)
        if leaves:  # Lost steps are truncated, too.
            for name in ('terminated', 'truncated'):
                acting &= self._reply[name] < 0.5
        if self._pending is not None:
            acting &= ~self._pending
        return acting

    def _reset_all(self) -> None:
        observ = self._vector.reset()
        with np.errstate(all='ignore'):
            self._write(self._observ, 'reset', observ)
        self._pending, self._was_reset = None, True

    def _reset_some(self, mask: np.ndarray) -> None:
        observ = self._vector.reset_some(mask)
        with np.errstate(all='ignore'):
            self._write_rows(self._observ, 'reset', observ, mask)

    def _write_infos(self, info: Any, rows: np.ndarray | None = None) -> None:
        try:
            self._infos.write_all(info, rows)
        except BaseException as error:
            if type(error) is TypeError:
                error = errors.EnvError(f'{errors.text_of(error)}.')
            doing = 'in the info that step returned'
            raise self._errors.raised(doing, error) from None

    def _write(self, writer: observations.Writer, method: str, observ: Nest) -> None:
        """Write the observations of all environments."""
        try:
            writer.write_all(observ)
        except MISFITS as error:
            # If it is about a single one, it can be told about which.
            everywhere = np.ones(len(self), bool)
            self._write_rows(writer, method, observ, everywhere)
            raise self._errors.broken(method, errors.text_of(error)) from None
        except BaseException as error:
            doing = f'in what {method} returned'
            raise self._errors.raised(doing, error) from None

    def _write_rows(
        self, writer: observations.Writer, method: str, observ: Nest, mask: np.ndarray
    ) -> None:
        """Write the observations of some environments, one by one."""
        for index in np.flatnonzero(mask).tolist():
            try:
                row = observations.row(self.observation_space, observ, index)
                writer.write(index, row)
            except (LookupError, *MISFITS) as error:
                what = errors.text_of(error)
                raise self._errors.broken(method, what, index) from None

    def _require_no_last(self, info: dict) -> None:
        """Refuse a vector whose assumed mode is wrong."""
        if self.assumed and LAST_OBSERV in info:
            raise errors.EnvError(
                f'{self._errors.name} does not tell how its episodes begin; '
                "its info has 'final_obs', so that it seems to be in the same "
                "step. Set metadata['autoreset_mode'] of it to "
                'gymnasium.vector.AutoresetMode.SAME_STEP.'
            )

    def _require_no_steps(self, lost: np.ndarray, reward: np.ndarray, ended: np.ndarray) -> None:
        """Refuse a step after an end that does more than reset."""
        wrong = lost & ended
        if self.assumed:  # A reward may show that the mode is another.
            wrong |= lost & (reward != 0)
        if wrong.any():
            what = 'a reward or ended' if self.assumed else 'an end'
            raise errors.EnvError(
                f'Environment {self._first + int(np.argmax(wrong))} returned '
                f'{what} in the step after the end of an episode. '
                'With the autoreset mode NEXT_STEP, that one is a reset and '
                "nothing else. Tell the mode in metadata['autoreset_mode'] of "
                'the vector.'
            )

    def _require_finite(self) -> None:
        """Refuse numbers that are not finite or too large."""
        limit = observations.LARGEST**2
        numbers = self._numbers
        if numbers is not None and np.dot(numbers, numbers) <= limit:
            return
        found = observations.first_beyond(self._reply['reward'])
        if found is not None:
            raise self._beyond(*found, 'a reward', 'next_observ')
        for name, writer in (('next_observ', self._next_observ), ('observ', self._observ)):
            found = writer.first_beyond()
            if found is not None:
                raise self._beyond(*found, 'an observation', name)

    def _beyond(self, index: int, number: float, what: str, where: str) -> errors.EnvError:
        observ = nested.map(lambda leaf: leaf[index], self._reply[where])
        return observations.beyond(self._first + index, number, what, observ)
