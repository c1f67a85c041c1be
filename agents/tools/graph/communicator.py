"""What the ranks of a training tell each other."""

from typing import Any

from agents.tools.graph.backend import tf
from agents.tools.nested import Nest


class Communicator:
    """The ranks that learn together, each with environments of its own.

    This one is of a rank that is alone: each function returns what it is given
    and adds no operation to a graph. Others have the same functions, which all
    ranks have to call in the same order. Whatever the ranks decide by numbers
    that this has brought together, they decide alike.

    Nests are those of `agents.tools.nested`, of tensors whose shapes are the
    same on every rank. No gradient flows through any of the functions.

    Attributes:
        rank: Number of this rank, from zero.
        size: Number of ranks.
    """

    rank = 0
    size = 1

    def mean(self, nest: Nest) -> Nest:
        """The mean over all ranks of each number."""
        return nest

    def any(self, flag: tf.Tensor) -> tf.Tensor:
        """Whether a boolean is true on any of the ranks."""
        return flag

    def gather(self, nest: Nest, root: int | None = None) -> list[Any]:
        """The nests of all ranks in order.

        Args:
            nest: That of this rank.
            root: The only rank that asks for them, so that the others get
                none; by default all do.
        """
        return [nest]

    def broadcast(self, nest: Nest, root: int = 0) -> Nest:
        """The nest of one rank."""
        return nest

    def failure(self) -> BaseException | None:
        """What went wrong with a message within a program."""
        return None


# The communicator of whoever is not told of other ranks.
ALONE = Communicator()
