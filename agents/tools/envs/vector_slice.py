"""Environments that come as a vector, as a part of a batch.

When an episode of a vector ends, the next one begins in one of three ways
(`gymnasium.vector.AutoresetMode`), which are told apart here so that nobody
else has to:

    SAME_STEP   The vector returns the first observation of the next episode
                and leaves the last one of this in `info`.
    DISABLED    It has to be asked to reset, which is done within the step.
    NEXT_STEP   The step after the end ignores its action and returns the first
                observation. As it is no transition, it is a lost step, see
                `agents.tools.Transition`. Where all episodes end at once it is
                taken within the same step, so that none is lost.

A vector can tell by `info[LOST]`, a mask, that other steps are lost too.
Values are checked as those of single environments are, all at once.
"""

import contextlib
import math
import reprlib
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from agents.tools import choices, errors, nested, spaces
from agents.tools.envs import block, infos, observations
from agents.tools.envs.infos import LAST_INFO, LAST_OBSERV, LOST
from agents.tools.envs.vector_masks import ObserveMasks

# What methods return, see `agents.tools.envs.env_slice`.
VALUES = {'step': 5, 'reset': 2}

# Seeds of vectors count up from one, and some keep them in 32 bits.
LARGEST_SEED = 2**31 - 1

# How long processes of Gymnasium's may take to complete a step before they are
# ended anyway.
CLOSING_SECONDS = 1.0

# How large a frame is made, about, of an observation that is shown.
FRAME_PIXELS = 336


class VectorSlice:
    """The environments of a vector, their data in the arrays of a block.

    Attributes:
        mode: How the vector begins the next episode.
        assumed: Whether the mode is not told in the metadata of the vector,
            so that it is taken to be the default of Gymnasium.
        log_info: Names of the numbers of infos that are wanted.

    Args:
        constructor: Function that makes the vector.
        seed: Seed for the first reset, or None.
        first: Index of the first of its environments within the batch.
        max_length: Steps after which an episode is truncated, or None. A
            vector that resets by itself cannot be told to, so that it has to
            have ended it.
        log_info: Names of the numbers of infos that are wanted. At the end of
            an episode they are those of `info['final_info']`, if the next one
            begins in the same step.
        action_masks: Whether to observe masks that the info of the first reset
            tells of, for which it is reset at once.
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
        self._first, self._count = first, 0
        self._max_length = max_length
        with self._telling('while it was constructed'):
            self.env = constructor()
        with self._telling('when asked what it is like'):
            self._count = int(self.env.num_envs)
            self.observation_space = self.env.single_observation_space
            self.action_space = self.env.single_action_space
            spaces.require_supported(self.observation_space, self.action_space)
            self.mode, self.assumed = _find_mode(self.env)
        self._shape = (len(self),)
        self._action_kind = np.dtype(self.action_space.dtype)
        self._has_start = bool(np.any(spaces.start(self.action_space)))
        self._seed = None if seed is None else seed % (LARGEST_SEED - len(self))
        # The steps so far, and how many there were when each episode began.
        self._clock, self._begun = 0, np.zeros(len(self), np.int64)
        # Not before this one does an episode take too long.
        self._due = math.inf if max_length is None else max_length
        # Where actions are ignored, if that is anywhere.
        self._pending: np.ndarray | None = None
        self._was_reset = False
        # What the first reset returned, if it was needed before.
        self._kept: tuple | None = None
        if action_masks:
            with contextlib.ExitStack() as stack:
                stack.callback(self.env.close)  # Unless that goes well.
                self._kept = self._look_for_masks()
                stack.pop_all()

    def __len__(self) -> int:
        return self._count

    def info_names(self) -> list[str]:
        """What infos had beside the numbers that are wanted."""
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
            self.observation_space,
            self.action_space,
            self._reply['observ'],
            self._first,
        )
        self._flags_set = True

    def step(self) -> None:
        """Step every environment with its requested action.

        `observ` is then what to act on next while `next_observ` is the true
        successor, whenever the vector resets.
        """
        observ, reward, terminated, truncated, info = self._advance()
        if LOST in info:
            self._pending = self._find_lost(info[LOST])
        with np.errstate(all='ignore'):  # Shows as infinity, which is checked.
            acted_on = self._copy_pending()
            self._write(self._next_observ, 'step', observ)
            self._next_observ.copy_to(self._observ)
            if self.log_info:
                self._write_infos(info)
            self._reward[:] = reward
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
            self._watch.require(self._find_acting(LOST in info))

    def reset(self) -> None:
        """Reset the environments that the request marks."""
        marked = self._request['reset'] > 0.5
        if marked.all() or not self._was_reset:
            self._reset_all()
        elif self.mode is AutoresetMode.DISABLED:
            self._reset_some(marked)
        else:
            raise errors.EnvError(
                f'{self._name()} begins its episodes by itself, so that they '
                'can be reset together only.'
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
        """Call a method of an environment, or read an attribute.

        Of a vector that does not consist of environments there are only its
        own attributes, which are the same for all, and its frames.
        """
        members = getattr(self.env.unwrapped, 'envs', None)
        with self._telling(f'in {name}'):
            if members is not None:
                value = members[index].get_wrapper_attr(name)
                return value(*args, **kwargs) if callable(value) else value
            if name == 'render':
                return self._render(index)
            value = getattr(self.env, name)
        if callable(value):
            raise errors.EnvError(
                f'{self._name()} has no single environments whose method '
                f'{name} could be called.'
            )
        return value

    def count_stacked(self) -> Any:
        """How many frames an observation stacks, see `BatchEnv`."""
        vector = self.env.unwrapped
        members = getattr(vector, 'envs', None)
        if members and members[0].has_wrapper_attr('stack_size'):
            return members[0].get_wrapper_attr('stack_size')
        # It does not say, but always does.
        stacks = type(vector).__name__ == 'AtariVectorEnv'
        return spaces.shape(self.observation_space)[0] if stacks else 1

    def close(self) -> None:
        vector = self.env.unwrapped
        with self._telling('in close'):
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

    def _advance(self) -> tuple:
        """Step the vector; returns what it returned as arrays."""
        # A copy, as vectors may keep the actions that they are given.
        actions = self._action.astype(self._action_kind)
        if self._has_start:
            actions += spaces.start(self.action_space)
        try:
            result = self.env.step(actions)
        except errors.EnvError as error:
            raise self._told(error) from None
        except Exception:
            doing = f'in step, given the actions {reprlib.repr(actions)}'
            raise self._raised(doing) from None
        self._require_values('step', result)
        observ, reward, terminated, truncated, info = result
        if not isinstance(info, dict):
            raise self._broken(
                'step', f'an info that is {reprlib.repr(info)}, no dict'
            )
        reward = np.asarray(reward)
        if reward.shape != self._shape or reward.dtype.kind not in 'fiub':
            raise self._broken('step', f'rewards {_describe(reward)}')
        terminated, truncated = np.asarray(terminated), np.asarray(truncated)
        for flags in (terminated, truncated):
            if flags.shape != self._shape or flags.dtype != bool:
                raise self._broken('step', f'flags {_describe(flags)}')
        return observ, reward, terminated, truncated, info

    def _conclude(
        self,
        terminated: np.ndarray,
        truncated: np.ndarray,
        info: dict,
        acted_on: list[np.ndarray],
    ) -> None:
        """Tell which episodes ended in a step, and begin the next."""
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
            self._due = int(self._begun.min()) + self._max_length

    def _begin(self, ended: np.ndarray, info: dict) -> None:
        """Have the next episodes begin, and find the ends of these."""
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
                    observ, *numbers, _ = self._advance()
                    self._require_no_steps(ended, *numbers)
                    self._write(self._observ, 'step', observ)
                    self._pending = None

    def _write_last(self, ended: np.ndarray, info: dict) -> None:
        """Write the last observations, which come in one of several forms."""
        if LAST_OBSERV not in info:
            index = self._first + int(np.argmax(ended))
            raise errors.EnvError(
                f'{self._name()} has the autoreset mode SAME_STEP and ended '
                f'the episode of environment {index}, but its info has no '
                "'final_obs' with the last observation."
            )
        last = info[LAST_OBSERV]
        self._write_rows(self._next_observ, 'step', last, ended)

    def _lose(
        self, lost: np.ndarray, ended: np.ndarray, acted_on: list[np.ndarray]
    ) -> None:
        """Make of the step that ignored the action one that says nothing."""
        self._require_no_steps(lost, self._reply['reward'], ended, ended)
        leaves = nested.flatten(self._reply['next_observ'])
        for leaf, rows in zip(leaves, acted_on, strict=True):
            leaf[lost] = rows

    def _find_lost(self, mask: Any) -> np.ndarray | None:
        """Where steps are lost, if any are."""
        mask = np.asarray(mask)
        if mask.shape != self._shape or mask.dtype != bool:
            raise self._broken('step', f'lost steps {_describe(mask)}')
        if self._pending is not None:
            mask = mask | self._pending
        return mask if mask.any() else None

    def _copy_pending(self) -> list[np.ndarray]:
        """What is acted on where the action will be ignored."""
        if self._pending is None:
            return []
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
        """Where an action will count, None for everywhere.

        Args:
            leaves: Whether the vector tells of lost steps, so that there may
                be more of them after one, or after the end of an episode.
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

    def _look_for_masks(self) -> tuple | None:
        """Observe masks if there are any; returns the reset that it takes."""
        found = self.observation_space, self.action_space
        if not choices.may_be_told(*found):
            return None
        result = self._ask_reset()
        if isinstance(result[1], Mapping) and choices.KEY in result[1]:
            self.env = masked = ObserveMasks(self.env, self._first)
            self.observation_space = masked.single_observation_space
            with self._telling('in reset'):
                result = masked.add(*result)
        return result

    def _ask_reset(self) -> tuple:
        seed, self._seed = self._seed, None  # Later ones go on in the stream.
        with self._telling(f'in reset, given the seed {seed}'):
            result = self.env.reset(seed=seed)
        self._require_values('reset', result)
        return result

    def _reset_all(self) -> None:
        result, self._kept = self._kept or self._ask_reset(), None
        with np.errstate(all='ignore'):
            self._write(self._observ, 'reset', result[0])
        self._pending, self._was_reset = None, True

    def _reset_some(self, mask: np.ndarray) -> None:
        # Copies, as vectors may keep or change what they are given.
        options = {'reset_mask': mask.copy()}
        with self._telling('in reset, given a reset_mask'):
            result = self.env.reset(options=options)
        self._require_values('reset', result)
        with np.errstate(all='ignore'):
            self._write_rows(self._observ, 'reset', result[0], mask)

    def _write_infos(self, info: Any, rows: np.ndarray | None = None) -> None:
        try:
            self._infos.write_all(info, rows)
        except TypeError as error:
            raise self._told(errors.EnvError(f'{error}.')) from None

    def _write(
        self, writer: observations.Writer, method: str, observ: Any
    ) -> None:
        """Write the observations of all environments."""
        try:
            writer.write_all(observ)
        except (TypeError, ValueError, OverflowError) as error:
            # If it is about a single one, it can be told about which.
            everywhere = np.ones(len(self), bool)
            self._write_rows(writer, method, observ, everywhere)
            raise self._broken(method, f'{error}') from None

    def _write_rows(
        self,
        writer: observations.Writer,
        method: str,
        observ: Any,
        mask: np.ndarray,
    ) -> None:
        """Write the observations of some environments, one by one."""
        for index in np.flatnonzero(mask).tolist():
            try:
                row = _row(self.observation_space, observ, index)
                writer.write(index, row)
            except (TypeError, ValueError, LookupError, OverflowError) as error:
                raise self._broken(method, f'{error}', index) from None

    def _require_values(self, method: str, result: Any) -> None:
        count = VALUES[method]
        if not isinstance(result, tuple) or len(result) != count:
            raise self._broken(
                method, f'{reprlib.repr(result)}, not a tuple of {count}'
            )

    def _require_no_last(self, info: dict) -> None:
        """Refuse a vector that does not tell its mode, if it is another."""
        if self.assumed and LAST_OBSERV in info:
            raise errors.EnvError(
                f'{self._name()} does not tell how its episodes begin; its '
                "info has 'final_obs', so that it seems to be in the same "
                "step. Set metadata['autoreset_mode'] of it to "
                'gymnasium.vector.AutoresetMode.SAME_STEP.'
            )

    def _require_no_steps(self, lost: np.ndarray, *numbers: np.ndarray) -> None:
        """Refuse a step after an end that is more than a reset."""
        wrong = lost & np.any([number != 0 for number in numbers], 0)
        if wrong.any():
            raise errors.EnvError(
                f'Environment {self._first + int(np.argmax(wrong))} returned '
                'a reward or ended in the step after the end of an episode. '
                'With the autoreset mode NEXT_STEP, that one is a reset and '
                "nothing else. Tell the mode in metadata['autoreset_mode'] of "
                'the vector.'
            )

    def _require_finite(self) -> None:
        """Refuse numbers that are infinite or nearly so."""
        limit = observations.LARGEST**2
        numbers = self._numbers
        if numbers is not None and np.dot(numbers, numbers) <= limit:
            return
        found = observations.first_beyond(self._reply['reward'])
        if found is not None:
            raise self._beyond(*found, 'a reward', 'next_observ')
        for name, writer in (
            ('next_observ', self._next_observ),
            ('observ', self._observ),
        ):
            found = writer.first_beyond()
            if found is not None:
                raise self._beyond(*found, 'an observation', name)

    def _render(self, index: int) -> Any:
        """A frame of an environment, or what is seen of it."""
        observ = nested.flatten(self._reply['observ'])
        if self._watch is not None:  # Which looks after a mask beside it.
            visible = {**self._reply['observ']}
            del visible[choices.KEY]
            observ = nested.flatten(visible)
        if self.env.render_mode is None and len(observ) == 1:
            return _as_frame(observ[0][index])
        frames = self.env.render()
        return None if frames is None else frames[index]

    def _name(self) -> str:
        last = self._first + self._count - 1
        if last < self._first:
            return 'The vector of environments'
        return f'The vector of environments {self._first} to {last}'

    @contextlib.contextmanager
    def _telling(self, doing: str) -> Iterator[None]:
        """Say of an error in the vector where it comes from."""
        try:
            yield
        except errors.EnvError as error:
            raise self._told(error) from None
        except Exception:
            raise self._raised(doing) from None

    def _told(self, error: errors.EnvError) -> errors.EnvError:
        """An error that says all there is to say but for where it is from."""
        return errors.EnvError(f'{self._name()}: {error}')

    def _raised(self, doing: str) -> errors.EnvError:
        return errors.EnvError(
            f'{self._name()} raised an error {doing}:\n'
            f'{traceback.format_exc().rstrip()}'
        )

    def _broken(
        self, method: str, what: str, index: int | None = None
    ) -> errors.EnvError:
        """Make the error of a vector that returned what it should not.

        Args:
            method: Which method did.
            what: What it returned, or what is wrong of an environment's.
            index: Which environment's, if that is known.
        """
        who = self._name()
        if index is not None:
            who = f'Environment {self._first + index}, one of a vector,'
        return errors.EnvError(
            f'{who} broke the contract of gymnasium.vector.VectorEnv.{method}: '
            f'{what}.'
        )

    def _beyond(
        self, index: int, number: float, what: str, where: str
    ) -> errors.EnvError:
        observ = nested.map(lambda leaf: leaf[index], self._reply[where])
        return observations.beyond(self._first + index, number, what, observ)


def _find_mode(env: gym.vector.VectorEnv) -> tuple[AutoresetMode, bool]:
    """The mode of a vector, and whether it is merely assumed."""
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


def _row(space: gym.Space, batch: Any, index: int) -> Any:
    """The observation of one environment, of a batch or of a list of them."""
    match space, batch:
        case gym.spaces.Dict(), Mapping():
            return {
                key: _row(part, batch[key], index)
                for key, part in space.items()
            }
        case gym.spaces.Tuple(), tuple():
            return tuple(
                _row(part, each, index)
                for part, each in zip(space, batch, strict=True)
            )
    return batch[index]


def _as_frame(observ: np.ndarray) -> np.ndarray:
    """What a policy sees of an image, as a frame of a video.

    Of a stack `[frame, height, width]` it is the last one.
    """
    if observ.dtype != np.uint8 or observ.ndim not in (3, 4):
        raise errors.EnvError(
            'it renders no frames, and its observations are no images. If '
            'there is a single environment with the same spaces, ask for that '
            'one, by --set env=Id for example.'
        )
    frame = observ[-1]
    if frame.ndim == 2:
        frame = np.repeat(frame[..., None], 3, -1)
    size = FRAME_PIXELS // max(frame.shape[:2]) or 1
    return frame.repeat(size, 0).repeat(size, 1)


def _describe(array: np.ndarray) -> str:
    return f'of shape {array.shape} and type {array.dtype}'
