"""Wrapper of environments in processes that Gymnasium starts."""

import multiprocessing
import os
import signal
from typing import Any

import gymnasium as gym

from agents.tools import errors
from agents.tools.nested import Nest


class InWorker:
    """Wraps environments that are made in a worker of `AsyncVectorEnv`.

    Leaves signals to the parent process, whose handlers it may have inherited, and turns exceptions
    into errors that survive the way to the parent.

    Args:
        parent: Process ID of the parent.
    """

    def __init__(self, parent: int):
        self._parent = parent

    def __call__(self, env: gym.Env) -> gym.Env:
        if os.getpid() == self._parent:  # It makes one to look at its spaces.
            return env
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        return _Telling(env)


class _Telling(gym.Wrapper):
    """Turns exceptions into errors with a text."""

    def reset(self, **kwargs: Any) -> tuple[Any, dict]:
        try:
            return self.env.reset(**kwargs)
        except BaseException as error:
            raise _told(error, 'in reset') from None

    def step(self, action: Nest) -> tuple:
        try:
            return self.env.step(action)
        except BaseException as error:
            raise _told(error, f'in step, given the action {action}') from None


def _told(error: BaseException, doing: str) -> BaseException:
    if isinstance(error, errors.EnvError):
        return error
    name = multiprocessing.current_process().name
    return errors.of_environment(error, name, doing)
