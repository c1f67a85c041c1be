"""Collective operations between ranks, within the graph."""

from typing import Any

from agents.tools.graph.backend import tf
from agents.tools.nested import Nest


class Communicator:
    """Ranks that train together, each with environments of its own.

    This class is for a single rank: each function returns its argument and adds no operation to the
    graph. Subclasses have the same functions, which all ranks must call in the same order.
    Decisions based on their results are the same on all ranks.

    Arguments are nests of tensors with the same shapes on every rank. Gradients do not flow
    through.

    Attributes:
        rank: Index of this rank.
        size: Number of ranks.
    """

    rank = 0
    size = 1

    def mean(self, nest: Nest) -> Nest:
        """Return the elementwise mean over all ranks."""
        return nest

    def any(self, flag: tf.Tensor) -> tf.Tensor:
        """Return whether a boolean is true on any rank."""
        return flag

    def gather(self, nest: Nest, root: int | None = None) -> list[Any]:
        """Return the nests of all ranks in order.

        Args:
            nest: Nest of this rank.
            root: Only rank that receives them, while others get an empty list; None for all.
        """
        return [nest]

    def broadcast(self, nest: Nest, root: int = 0) -> Nest:
        """Return the nest of the rank `root`."""
        return nest

    def failure(self) -> BaseException | None:
        """Return the error of a message within a program, or None."""
        return None


# The communicator of whoever is not told of other ranks.
ALONE = Communicator()
