"""Environments of one process, stepped in turn.

Here values of environments become numbers of a batch, and are validated: a wrong shape, type or
key, a value outside the space or a number that is not finite raises an error with the index of the
environment.
"""

import contextlib
import math
import reprlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from agents.tools import choices, errors, nested, spaces
from agents.tools.batch import infos, observations
from agents.tools.nested import Nest
from agents.tools.workers import block

# Environments that take longer to be made, each, are not measured. The others
# are for so many seconds, or as many steps.
MAKING_SECONDS = 0.1
MEASURING_SECONDS, MEASURED_STEPS = 0.02, 500

# After so long, the measurement is called off.
PATIENCE_SECONDS = 1.0

# What methods return, and how many values they did before Gymnasium 0.26.
VALUES = {
    'step': ('observation', 'reward', 'terminated', 'truncated', 'info'),
    'reset': ('observation', 'info'),
}
OLD_VALUES = {'step': 4, 'reset': 1}

# How errors end that wrappers raise of environments from before, and what can
# be done about these.
OLD_ERRORS = 'to unpack (expected 5, got 4)', "keyword argument 'seed'"
OLD_REMEDY = (
    'as before Gymnasium 0.26; wrap the environment with '
    'shimmy.GymV21CompatibilityV0 or return what is asked for today'
)


class EnvSlice:
    """Some environments of a batch, with their data in the arrays of a block.

    Args:
        constructors: Functions that each make an environment.
        seeds: Seed for the first reset of each environment, or None.
        first: Index of the first environment within the batch.
        current: One integer that holds the index of the active environment, to report which one
            died or hangs.
        log_info: Names of numbers of infos to report.

    Attributes:
        log_info: Names of numbers of infos to report.
    """

    def __init__(
        self,
        constructors: Sequence[Callable[[], gym.Env]],
        seeds: Sequence[int | None] | None = None,
        first: int = 0,
        current: memoryview | np.ndarray | None = None,
        log_info: Sequence[str] = (),
    ):
        self.log_info = log_info
        self._infos = infos.Writer(log_info)
        self.envs: list[gym.Env] = []
        self._constructors = constructors
        self._seeds = list(seeds or [None] * len(constructors))
        self._first = first
        self._current = np.zeros(1, np.int64) if current is None else current
        started = time.perf_counter()
        for index, constructor in enumerate(constructors):
            self._current[0] = index
            try:
                self.envs.append(constructor())
            except BaseException as error:
                doing = 'while it was constructed'
                raise self._raised(index, doing, error) from None
        self._making_seconds = time.perf_counter() - started
        try:
            self.observation_space = self.envs[0].observation_space
            self.action_space = self.envs[0].action_space
            spaces.require_supported(self.observation_space, self.action_space)
            plain = spaces.with_plain_text(self.observation_space)
            self.observation_space = plain
            spaces.require_equal(enumerate(self.envs, self._first))
        except errors.EnvError:
            raise
        except BaseException as error:
            doing = 'when asked for its spaces'
            raise self._raised(0, doing, error) from None

    def __len__(self) -> int:
        return len(self.envs)

    def attach(self, memory: block.Block) -> None:
        """Use a block for requests and replies from now on."""
        self._request, self._reply = memory.request, memory.reply
        self._observ = observations.Writer(self.observation_space, self._reply['observ'])
        self._next_observ = observations.Writer(self.observation_space, self._reply['next_observ'])
        self._write = self._next_observ.write
        self._watch = choices.BatchWatch.over(
            self.observation_space, self.action_space, self._reply['observ'], self._first
        )
        self._infos.attach(memory.infos)
        self._flags_set = False

    def step(self) -> None:
        """Step every environment with its requested action.

        An environment whose episode ends is reset within the same step: `observ` is then the first
        of the next episode, and `next_observ` the true successor.
        """
        current, write = self._current, self._write
        has_names = bool(self.log_info)
        rewards: list[float] = []
        ended: list[tuple[int, bool, bool]] = []
        with np.errstate(over='ignore'):  # Shows as infinity, which is checked.
            actions = self._actions()
            for index, env in enumerate(self.envs):
                current[0] = index
                try:
                    result = env.step(actions[index])
                except BaseException as error:
                    doing = f'in step, given the action {actions[index]}'
                    raise self._raised(index, doing, error) from None
                try:
                    observ, reward, terminated, truncated, info = result
                    write(index, observ)
                    rewards.append(as_reward(reward))
                    if not (terminated is False and truncated is False):
                        require_flags(terminated, truncated)
                except BaseException as error:
                    raise self._broken(index, 'step', result, error) from None
                if has_names:
                    self._write_infos(index, info)
                if terminated or truncated:
                    ended.append((index, terminated, truncated))
            try:
                self._conclude(rewards)
            except FloatingPointError:  # If an environment wants these raised.
                with np.errstate(all='ignore'):
                    self._conclude(rewards)
        self._set_flags(ended)
        for index, _, _ in ended:
            self._reset(index)
        if self._watch is not None:
            self._watch.require()

    def reset(self) -> None:
        """Reset the environments that the request marks."""
        marked = self._request['reset'] > 0.5
        for index in np.flatnonzero(marked):
            self._reset(int(index))
        for name in ('reward', 'terminated', 'truncated'):
            self._reply[name][marked] = 0.0
        self._reply['begins'][marked] = 1.0
        self._flags_set = True
        if self._watch is not None:
            self._watch.require(marked)

    def call(self, index: int, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method or read an attribute of an environment.

        Searches wrappers like `gymnasium.Env.get_wrapper_attr`.
        """
        self._current[0] = index
        value = self.envs[index].get_wrapper_attr(name)
        try:
            return value(*args, **kwargs) if callable(value) else value
        except BaseException as error:
            raise self._raised(index, f'in {name}', error) from None

    def info_names(self) -> list[str]:
        """Return the names of numbers in infos that are not reported."""
        return sorted(self._infos.seen)

    def measure(self) -> float:
        """Return the seconds of a step, measured in an environment made for this.

        Infinite if making one takes long or nothing can be measured: a worker costs such
        environments little.
        """
        if self._making_seconds > len(self) * MAKING_SECONDS:
            return math.inf
        times = [math.inf]
        # What goes wrong is told by those that are used.
        with contextlib.suppress(BaseException), at_most(PATIENCE_SECONDS):
            env = self._constructors[0]()
            env.reset(seed=0)
            env.action_space.seed(0)
            found = _step_times(env, env.action_space.sample())
            env.close()
            times = found
        return float(np.median(times))

    def close(self) -> None:
        """Close every environment, even if one raises."""
        failures = []
        for index, env in enumerate(self.envs):
            try:
                env.close()
            except BaseException as error:
                failure = self._raised(index, 'in close', error)
                if not isinstance(failure, errors.EnvError):
                    raise failure from None
                failures.append(failure)
        if failures:
            raise failures[0]

    def _reset(self, index: int) -> None:
        env, seed = self.envs[index], self._seeds[index]
        self._current[0] = index
        self._seeds[index] = None  # Later episodes continue the same stream.
        try:
            if seed is not None:
                env.action_space.seed(seed)
            result = env.reset(seed=seed)
        except BaseException as error:
            doing = f'in reset, given the seed {seed}'
            raise self._raised(index, doing, error) from None
        try:
            if not isinstance(result, tuple):
                raise TypeError('it should return a tuple')
            observ, _ = result
            with np.errstate(all='ignore'):
                self._observ.write(index, observ)
                found = self._observ.first_beyond()
        except BaseException as error:
            raise self._broken(index, 'reset', result, error) from None
        if found is not None:
            raise self._beyond(index, found[1], 'a first observation', 'observ')

    def _write_infos(self, index: int, info: Any) -> None:
        try:
            self._infos.write(index, info)
        except BaseException as error:
            if type(error) is TypeError:
                error = errors.EnvError(f'{errors.text_of(error)}.')
            doing = 'in the info that step returned'
            raise self._raised(index, doing, error) from None

    def _actions(self) -> list:
        actions = self._request['action']
        match self.action_space:
            case gym.spaces.Discrete(start=start):
                return (actions + start).tolist()
            case gym.spaces.MultiDiscrete(start=start):
                return list(actions + start)
        # A copy, as environments may keep the action that they are given.
        return list(actions.astype(self.action_space.dtype))

    def _set_flags(self, ended: list[tuple[int, bool, bool]]) -> None:
        """Mark the environments whose episode ended."""
        reply = self._reply
        if self._flags_set:
            for name in ('begins', 'terminated', 'truncated'):
                reply[name][:] = 0.0
        for index, terminated, truncated in ended:
            reply['begins'][index] = 1.0
            reply['terminated'][index] = terminated
            reply['truncated'][index] = truncated
        self._flags_set = bool(ended)

    def _conclude(self, rewards: list[float]) -> None:
        """Complete the reply to steps, and refuse numbers that are too large."""
        self._reply['reward'][:] = rewards
        self._next_observ.copy_to(self._observ)
        found = observations.first_beyond(self._reply['reward'])
        if found is not None:
            raise self._beyond(*found, 'a reward')
        found = self._next_observ.first_beyond()
        if found is not None:
            raise self._beyond(*found, 'an observation')

    def _raised(self, index: int, doing: str, error: BaseException) -> BaseException:
        who = f'Environment {self._first + index}'
        told = errors.of_environment(error, who, doing)
        if str(told).endswith(OLD_ERRORS):
            return errors.EnvError(f'{told}, {OLD_REMEDY}.')
        return told

    def _broken(self, index: int, method: str, result: Any, error: BaseException) -> BaseException:
        if type(error) not in (TypeError, ValueError, OverflowError):
            return self._raised(index, f'in what {method} returned', error)
        what = wrong_number(method, result) or errors.text_of(error)
        return errors.EnvError(
            f'Environment {self._first + index} broke the contract of '
            f'gymnasium.Env.{method}: {what}. It returned '
            f'{reprlib.repr(result)}.'
        )

    def _beyond(
        self, index: int, number: float, what: str, where: str = 'next_observ'
    ) -> errors.EnvError:
        observ = nested.map(lambda leaf: leaf[index], self._reply[where])
        return observations.beyond(self._first + index, number, what, observ)


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise `TooLate` in the main thread after some seconds."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Where no signals are heard.
        return

    def give_up(*_: Any) -> None:
        raise errors.TooLate

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _step_times(env: gym.Env, action: Nest) -> list[float]:
    """Return the seconds of some steps of an environment."""
    times: list[float] = []
    while sum(times) < MEASURING_SECONDS and len(times) < MEASURED_STEPS:
        started = time.perf_counter()
        _, _, terminated, truncated, _ = env.step(action)
        times.append(time.perf_counter() - started)
        if terminated or truncated:
            env.reset()
    return times


def wrong_number(method: str, result: Any) -> str | None:
    """Describe a wrong number of values that a method returned, or return None."""
    expected, before = VALUES[method], OLD_VALUES[method]
    count = len(result) if isinstance(result, (tuple, list)) else 1
    if count == len(expected):
        return None
    old = f', {OLD_REMEDY}' if count == before else ''
    return f'it should return {len(expected)} values ({", ".join(expected)}), not {count}{old}'


def as_reward(value: Any) -> float:
    """Convert a reward to a float; raises if it is no number."""
    if value.__class__ is float:
        return value
    # Of arrays of any library.
    shape = getattr(value, 'shape', None)
    if isinstance(value, (float, int, np.floating, np.integer)) or shape == ():
        return float(value)
    several = '; weigh several objectives, as mo_gymnasium.wrappers.LinearReward does'
    raise TypeError(
        f'the reward should be a number, not {observations.describe(value)}'
        f'{several if shape else ""}'
    )


def require_flags(terminated: Any, truncated: Any) -> None:
    """Refuse flags that are not booleans."""
    for name, value in (('terminated', terminated), ('truncated', truncated)):
        is_bool = isinstance(value, (bool, np.bool_))
        if not is_bool and not _is_bool_of_a_library(value):
            raise TypeError(f'{name} should be a bool, not {observations.describe(value)}')


def _is_bool_of_a_library(value: Any) -> bool:
    """Return whether a value is a 0-d array, such as one of JAX."""
    no_axes = getattr(value, 'shape', None) == ()
    return no_axes and np.asarray(value).dtype == bool
