"""Members of a batch: slices of environments and worker processes."""

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import gymnasium as gym

from agents.tools import errors
from agents.tools.batch.env_slice import EnvSlice
from agents.tools.vector.vector_slice import VectorSlice
from agents.tools.workers.external_process import ExternalProcess

# What steps in this process, and what a batch is made of.
Local = EnvSlice | VectorSlice
Member = ExternalProcess | Local


class EnvView:
    """View of one environment of a batch."""

    def __init__(self, member: Member, position: int):
        self._member = member
        self._position = position

    def call(self, name: str, *args: Any, blocking: bool = True, **kwargs: Any) -> Any:
        """Call a method or read an attribute, see `ExternalProcess.call`."""
        if isinstance(self._member, ExternalProcess):
            return self._member.call(name, *args, index=self._position, blocking=blocking, **kwargs)
        value = self._member.call(self._position, name, *args, **kwargs)
        return value if blocking else lambda: value

    def __getattr__(self, name: str) -> Any:
        if name.startswith('_'):
            raise AttributeError(f'EnvView has no attribute {name!r}.')
        return self.call(name)


def of(envs: Sequence[gym.Env | Member]) -> list[Member]:
    """Return members as they are, and a slice for each run of plain environments."""
    members: list[Member] = []
    first = 0
    for ready, group in itertools.groupby(envs, lambda env: isinstance(env, Member)):
        found: list[Any] = list(group)
        if not ready:
            constructors = [functools.partial(_same, env) for env in found]
            found = [EnvSlice(constructors, first=first)]
        members.extend(found)
        first += sum(len(member) for member in found)
    if not members:
        raise errors.ConfigError('A batch has at least one environment.')
    return members


def _same(env: gym.Env) -> gym.Env:
    return env
