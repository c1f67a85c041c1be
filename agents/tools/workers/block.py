"""Shared memory between a batch and a worker."""

import math
import mmap
import os
import tempfile

import gymnasium as gym
import numpy as np

from agents.tools import errors, layout, spaces

ALIGNMENT = 64  # Bytes; a cache line, so that rows of two writers never share one.


def request_layout(action_space: gym.Space) -> layout.Layout:
    """Return the layout of a request: an action, and whether to reset."""
    return layout.Layout({'action': spaces.specs(action_space), 'reset': layout.Spec((), 'bool')})


def reply_layout(observ_space: gym.Space) -> layout.Layout:
    """Return the layout of a reply, see `agents.tools.InGraphBatchEnv` for the fields."""
    return layout.Layout(
        {
            'observ': spaces.specs(observ_space),
            'begins': layout.Spec((), 'bool'),
            'reward': layout.Spec((), 'float32'),
            'terminated': layout.Spec((), 'bool'),
            'truncated': layout.Spec((), 'bool'),
            'lost': layout.Spec((), 'bool'),
            'next_observ': spaces.specs(observ_space),
        }
    )


class Block:
    """Requests and replies of several environments.

    The arrays are views of one buffer that both processes map; within one process, the block
    allocates its own.

    Attributes:
        request: Arrays `action` and `reset`, one row per environment.
        reply: Nest of arrays, see `reply_layout`.
        matrices: The reply as matrices, one row per environment.
        infos: Numbers from infos, see `agents.tools.batch.infos`.

    Args:
        observ_space: Space of the observations.
        action_space: Space of the actions.
        count: Number of environments.
        buffer: Memory to use, by default allocated here.
        infos: Number of columns for infos.
    """

    def __init__(
        self,
        observ_space: gym.Space,
        action_space: gym.Space,
        count: int,
        buffer: memoryview | None = None,
        infos: int = 0,
    ):
        size = self.size(observ_space, action_space, count, infos)
        buffer = memoryview(bytearray(size)) if buffer is None else buffer
        self._offset = 0

        def allocate(rows: layout.Layout) -> list[np.ndarray]:
            return [self._matrix(buffer, kind, count, width) for kind, width in rows.groups]

        request, reply = (request_layout(action_space), reply_layout(observ_space))
        self.request = request.views(allocate(request))
        self.matrices = allocate(reply)
        self.reply = reply.views(self.matrices)
        self.infos = self._matrix(buffer, 'float32', count, infos)

    @staticmethod
    def size(observ_space: gym.Space, action_space: gym.Space, count: int, infos: int = 0) -> int:
        """Return the size of a block in bytes."""
        groups = (
            *request_layout(action_space).groups,
            *reply_layout(observ_space).groups,
            ('float32', infos),
        )
        return sum(_padded(kind, count * width) for kind, width in groups)

    def _matrix(self, buffer: memoryview, kind: str, count: int, width: int) -> np.ndarray:
        matrix = np.frombuffer(buffer, kind, count * width, self._offset)
        self._offset += _padded(kind, count * width)
        return matrix.reshape(count, width)


def anonymous_file() -> int:
    """Create a file in memory without a name, freed with its last user."""
    if hasattr(os, 'memfd_create'):
        return os.memfd_create('agents')
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def grown(descriptor: int, size: int) -> mmap.mmap:
    """Extend a file to a size and map it.

    Space is allocated at once, as a process dies when it touches missing memory.
    """
    try:
        if hasattr(os, 'posix_fallocate'):
            os.posix_fallocate(descriptor, 0, size)
        else:
            os.ftruncate(descriptor, size)  # There may be too little memory.
        return mmap.mmap(descriptor, size)
    except OSError as error:
        raise errors.EnvError(
            f'There are no {size:,} bytes of shared memory for the data of the '
            f'environments: {error}. Use fewer agents or free some memory.'
        ) from error


def _padded(kind: str, count: int) -> int:
    return math.ceil(count * np.dtype(kind).itemsize / ALIGNMENT) * ALIGNMENT
