"""Collective operations over MPI, within compiled programs."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from agents.tools import nested, world
from agents.tools.graph import flat
from agents.tools.graph.backend import tf
from agents.tools.graph.communicator import ALONE, Communicator
from agents.tools.graph.host_calls import HostCall
from agents.tools.layout import Spec
from agents.tools.nested import Nest

Arrays = list[np.ndarray]


@functools.cache
def define(ranks: world.World) -> Communicator:
    """Return the communicator of a world; one per process, to keep the order of messages."""
    return Ranks(ranks) if isinstance(ranks, world.Ranks) else ALONE


class Ranks(Communicator):
    """Processes of an MPI world.

    A message is one host call, whatever its number of tensors. A variable goes through every call,
    so that calls run in the order of the program: messages have no tags and must have the same
    order on all ranks.

    Args:
        ranks: World of the processes.
    """

    def __init__(self, ranks: world.Ranks):
        self.rank, self.size = ranks.rank, ranks.size
        self._world = ranks
        self._calls: dict[Any, HostCall] = {}
        self._messages = tf.Variable(0, trainable=False)

    def mean(self, nest: Nest) -> Nest:
        leaves = nested.flatten(nest)
        assert all(leaf.dtype.is_floating for leaf in leaves)
        kinds = {leaf.dtype.name: leaf.dtype for leaf in leaves}.values()
        groups = [[x for x in leaves if x.dtype == kind] for kind in kinds]
        # A vector of each type of numbers, of which there is mostly one, as a
        # program packs faster than the host.
        packed = [flat.concat(group) for group in groups]
        totals = self._send('sum', self._add_up, packed, _specs(packed))
        means = {}
        for group, total in zip(groups, totals, strict=True):
            parts = flat.split(total / self.size, group)
            for leaf, part in zip(group, parts, strict=True):
                means[id(leaf)] = part
        return _rebuild(nest, [means[id(leaf)] for leaf in leaves])

    def any(self, flag: tf.Tensor) -> tf.Tensor:
        sent = [tf.cast(flag, tf.int32)]
        return self._send('sum', self._add_up, sent, _specs(sent))[0] > 0

    def gather(self, nest: Nest, root: int | None = None) -> list[Any]:
        leaves = nested.flatten(nest)
        asked = root in (None, self.rank)
        results = [Spec((self.size, *spec.shape), spec.dtype) for spec in _specs(leaves) if asked]

        def collect(sent: Arrays, received: Arrays) -> None:
            packed = _pack(sent)
            every = np.empty((self.size, len(packed)), np.uint8)
            self._world.collect(packed, every, root)
            for rank in range(self.size if asked else 0):
                _unpack(every[rank], [array[rank, ...] for array in received])

        every = self._send(f'gather to {root}', collect, leaves, results)
        return [
            _rebuild(nest, [leaf[rank] for leaf in every])
            for rank in range(self.size if asked else 0)
        ]

    def broadcast(self, nest: Nest, root: int = 0) -> Nest:
        leaves = nested.flatten(nest)

        def share(sent: Arrays, received: Arrays) -> None:
            packed = _pack(sent)
            self._world.spread(packed, root)
            _unpack(packed, received)

        name = f'broadcast from {root}'
        found = self._send(name, share, leaves, _specs(leaves))
        return _rebuild(nest, found)

    def failure(self) -> BaseException | None:
        errors = [call.error for call in self._calls.values() if call.error]
        return errors[0] if errors else None

    def _send(
        self,
        name: str,
        exchange: Callable[[Arrays, Arrays], None],
        tensors: Sequence[tf.Tensor],
        results: Sequence[Spec],
    ) -> list[tf.Tensor]:
        """Exchange tensors; the host call of a kind of message is made only once."""
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
        for mine, total in zip(sent, received, strict=True):
            self._world.add_up(mine, total)


def _specs(tensors: Sequence[tf.Tensor]) -> list[Spec]:
    return [Spec(tuple(x.shape), x.dtype.name) for x in tensors]


def _rebuild(nest: Nest, leaves: list[tf.Tensor]) -> Nest:
    """Return a nest with other leaves, in the order of `nested.flatten`."""
    remaining = iter(leaves)
    return nested.map(lambda _: next(remaining), nest)


def _pack(arrays: Arrays) -> np.ndarray:
    """Concatenate the bytes of arrays."""
    return np.concatenate([x.reshape(-1).view(np.uint8) for x in arrays])


def _unpack(packed: np.ndarray, arrays: Arrays) -> None:
    """Set arrays from bytes of `_pack`."""
    begin = 0
    for array in arrays:
        part = packed[begin : begin + array.nbytes].view(array.dtype)
        array[...] = part.reshape(array.shape)
        begin += array.nbytes
