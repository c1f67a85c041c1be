"""Ranks that MPI has started, speaking to each other from within programs.

What algorithms ask of them; no command starts any yet.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from agents.tools import errors, nested
from agents.tools.graph.backend import tf
from agents.tools.graph.communicator import ALONE, Communicator
from agents.tools.graph.host_calls import HostCall
from agents.tools.layout import Spec

# By which launchers tell a process of how many it is one: those that speak PMI,
# such as that of MPICH, and that of Open MPI.
SIZES = 'PMI_SIZE', 'OMPI_COMM_WORLD_SIZE'

Arrays = list[np.ndarray]


def count_ranks() -> int:
    """How many processes have been started to learn together."""
    return max(int(os.environ.get(name, 1)) for name in SIZES)


def connect() -> Communicator:
    """Find the other ranks, if there are any."""
    if count_ranks() == 1:
        return ALONE
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise errors.ConfigError(
            f'This is one of {count_ranks()} processes that MPI has started, '
            "but mpi4py is not installed: pip install 'agents[mpi]'."
        ) from error
    found = MPI.COMM_WORLD.Get_size()
    if found != count_ranks():
        raise errors.ConfigError(
            f'A launcher has started {count_ranks()} processes, but mpi4py '
            f'finds {found}, as it is of another MPI. Use the mpiexec that '
            'belongs to it.'
        )
    # Of their own, so that nobody else's messages come between.
    return Ranks(MPI.COMM_WORLD.Dup())


class Ranks(Communicator):
    """The processes of a communicator of mpi4py.

    A message is one call of Python from within a program, whatever the number
    of tensors in it. A variable goes through every call, so that none begins
    before the one that comes first in the program has ended: messages have no
    names, and have to be in the same order everywhere.

    Args:
        comm: The communicator.
    """

    def __init__(self, comm: Any):
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self._comm = comm
        self._calls: dict[Any, HostCall] = {}
        self._messages = tf.Variable(0, trainable=False)

    def mean(self, nest: Any) -> Any:
        leaves = nested.flatten(nest)
        assert all(leaf.dtype.is_floating for leaf in leaves)
        totals = self._send('sum', self._add_up, leaves, _specs(leaves))
        return _rebuild(nest, [total / self.size for total in totals])

    def any(self, flag: tf.Tensor) -> tf.Tensor:
        sent = [tf.cast(flag, tf.int32)]
        return self._send('sum', self._add_up, sent, _specs(sent))[0] > 0

    def gather(self, nest: Any) -> list[Any]:
        leaves = nested.flatten(nest)
        results = [
            Spec((self.size, *spec.shape), spec.dtype)
            for spec in _specs(leaves)
        ]
        every = self._send('gather', self._gather, leaves, results)
        return [
            _rebuild(nest, [leaf[rank] for leaf in every])
            for rank in range(self.size)
        ]

    def broadcast(self, nest: Any, root: int = 0) -> Any:
        leaves = nested.flatten(nest)

        def share(sent: Arrays, received: Arrays) -> None:
            packed = _pack(sent)
            self._comm.Bcast(packed, root)
            _unpack(packed, received)

        name = f'broadcast from {root}'
        found = self._send(name, share, leaves, _specs(leaves))
        return _rebuild(nest, found)

    def _send(
        self,
        name: str,
        exchange: Callable[[Arrays, Arrays], None],
        tensors: Sequence[tf.Tensor],
        results: Sequence[Spec],
    ) -> list[tf.Tensor]:
        """Exchange tensors; the call for such a message is made only once."""
        key = name, tuple(_specs(tensors))
        if key not in self._calls:

            def follow(sent: Arrays, received: Arrays) -> None:
                exchange(sent[:-1], received[:-1])
                received[-1][...] = sent[-1] + 1

            self._calls[key] = HostCall(follow, [*results, Spec((), 'int32')])
        *found, count = self._calls[key](*tensors, self._messages.read_value())
        self._messages.assign(count)
        return found

    def _add_up(self, sent: Arrays, received: Arrays) -> None:
        """A message for each type of numbers, of which there is mostly one."""
        for kind in sorted({array.dtype.str for array in sent}):
            mine = [array for array in sent if array.dtype == kind]
            totals = [array for array in received if array.dtype == kind]
            if len(mine) == 1:
                self._comm.Allreduce(mine[0], totals[0])
                continue
            packed = _pack(mine).view(kind)
            total = np.empty_like(packed)
            self._comm.Allreduce(packed, total)
            _unpack(total.view(np.uint8), totals)

    def _gather(self, sent: Arrays, received: Arrays) -> None:
        packed = _pack(sent)
        every = np.empty((self.size, len(packed)), np.uint8)
        self._comm.Allgather(packed, every)
        for rank, each in enumerate(every):
            _unpack(each, [array[rank, ...] for array in received])


def _specs(tensors: Sequence[tf.Tensor]) -> list[Spec]:
    return [Spec(tuple(x.shape), x.dtype.name) for x in tensors]


def _rebuild(nest: Any, leaves: list[tf.Tensor]) -> Any:
    """A nest with other leaves, which are in the order of `nested.flatten`."""
    remaining = iter(leaves)
    return nested.map(lambda _: next(remaining), nest)


def _pack(arrays: Arrays) -> np.ndarray:
    """The bytes of some arrays, one behind the other."""
    return np.concatenate([x.reshape(-1).view(np.uint8) for x in arrays])


def _unpack(packed: np.ndarray, arrays: Arrays) -> None:
    """Set arrays to bytes that `_pack` has made of such."""
    begin = 0
    for array in arrays:
        part = packed[begin : begin + array.nbytes].view(array.dtype)
        array[...] = part.reshape(array.shape)
        begin += array.nbytes
