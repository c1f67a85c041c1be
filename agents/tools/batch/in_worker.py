"""What environments need in processes that Gymnasium starts."""

import multiprocessing
import os
import signal
from typing import Any

import gymnasium as gym

from agents.tools import errors
from agents.tools.nested import Nest


class InWorker:
    """Wraps environments that are made in a worker of `AsyncVectorEnv`.

    Signals are left to the process that started it, whose handlers it may have
    inherited, and errors tell where they come from. Any other can be lost on
    its way, or end the other process as if it were interrupted.

    Args:
        parent: The process that the environments are for.
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
    """Makes texts of errors, which other processes can be told."""

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
