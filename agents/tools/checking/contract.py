"""Validation of results of an environment against the API of Gymnasium.

With the texts of the errors that end a training, where one would.
"""

import reprlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from agents.tools import errors, spaces
from agents.tools.batch import env_slice, observations, wrappers
from agents.tools.nested import Nest


class Complaint(NamedTuple):
    """Violation of the API.

    Attributes:
        kind: Kind of the violation; only the first of each kind is reported.
        text: Description, and what was expected.
        ends: Whether a training ends by it.
        useless: Whether the result cannot be used at all.
    """

    kind: str
    text: str
    ends: bool = True
    useless: bool = False


class Contract:
    """Finds violations in the results of methods.

    Args:
        env: Environment with supported spaces.
    """

    def __init__(self, env: gym.Env):
        self._space = env.observation_space
        self._row = observations.zeros(self._space, 1)
        self._writer = observations.Writer(self._space, self._row)
        self._bounds = wrappers.BoundObserv(env, 'error')

    def after_reset(self, result: Any) -> Iterator[Complaint]:
        """Yield the violations in a result of `reset`."""
        wrong = env_slice.wrong_number('reset', result)
        if wrong is None and not isinstance(result, tuple):
            wrong = 'it should return a tuple'
        if wrong is not None:
            yield _returned('reset', wrong, result)
            return
        observ, info = result
        yield from self.of_observation(observ)
        yield from _of_info('reset', info)

    def after_step(self, result: Any) -> Iterator[Complaint]:
        """Yield the violations in a result of `step`."""
        wrong = env_slice.wrong_number('step', result)
        if wrong is not None:
            yield _returned('step', wrong, result)
            return
        observ, reward, terminated, truncated, info = result
        yield from self.of_observation(observ)
        yield from _of_reward(reward)
        try:
            env_slice.require_flags(terminated, truncated)
        except TypeError as error:
            yield Complaint('flags', f'{error}')
        yield from _of_info('step', info)

    def of_observation(self, observ: Nest) -> Iterator[Complaint]:
        """Yield the first violation in an observation."""
        try:
            with np.errstate(all='ignore'):
                self._writer.write(0, observ)
                beyond = self._writer.first_beyond()
        except BaseException as error:
            yield Complaint('observation', errors.text_of(error))
            return
        if beyond is not None:
            what = observations.describe_beyond(beyond[1])
            yield Complaint('large', f'an observation has {what}')
            return
        try:
            self._bounds.observation(observ)
        except ValueError as error:
            yield Complaint('bounds', f'{error}'.rstrip('.'), ends=False)
            return
        for text in _of_types(self._space, observ, ''):
            yield Complaint('type', text, ends=False)
            return


def unexpected_argument(error: BaseException, arguments: Iterable[str]) -> str | None:
    """Return the argument that a function does not take, by its TypeError, or None."""
    if isinstance(error, TypeError) and 'unexpected keyword' in f'{error}':
        names = [name for name in arguments if f"'{name}'" in f'{error}']
        return names[0] if names else None
    return None


def _returned(method: str, wrong: str, result: Any) -> Complaint:
    text = f'{method}: {wrong}. It returned {reprlib.repr(result)}'
    return Complaint(method, text, useless=True)


def _of_info(method: str, info: Any) -> Iterator[Complaint]:
    if not isinstance(info, dict):
        what = observations.describe(info)
        text = f'the info of {method} should be a dict, not {what}'
        yield Complaint('info', text, ends=False)


def _of_reward(reward: Any) -> Iterator[Complaint]:
    try:
        with np.errstate(all='ignore'):
            value = np.array([env_slice.as_reward(reward)], np.float32)
    except BaseException as error:
        yield Complaint('reward', errors.text_of(error))
        return
    beyond = observations.first_beyond(value)
    if beyond is not None:
        what = observations.describe_beyond(beyond[1])
        yield Complaint('reward', f'a reward has {what}')


def _of_types(space: gym.Space, observ: Nest, path: str) -> Iterator[str]:
    """Yield parts of an observation whose type differs from the space but can be converted."""
    match space:
        case gym.spaces.Dict():
            for key, part in spaces.items(space):
                yield from _of_types(part, observ[key], f'{path}[{key!r}]')
        case gym.spaces.Tuple():
            for index, part in enumerate(space):
                yield from _of_types(part, observ[index], f'{path}[{index}]')
        case gym.spaces.Box() if not isinstance(observ, np.ndarray):
            yield (
                f'observation{path} should be an array of {space.dtype}, as '
                f'its space says, not {observations.describe(observ)}'
            )
        case gym.spaces.Box() if observ not in space:
            yield (
                f'observation{path} should be of {space.dtype}, as its space '
                f'says, not of {observ.dtype}'
            )
        case _ if observ not in space:
            yield (
                f'observation{path} is not in its space {space}, but '
                f'{observations.describe(observ)}'
            )
