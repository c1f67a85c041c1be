"""Kinds of environments, and which of them a configuration asks for.

A kind is a class that derives from `kind.EnvKind`. For a new one, write a file beside `single.py`
and add the class to KINDS.

kind    interface of a kind
native  environments written in TensorFlow
vector  vector environments, including EnvPool
single  environments of Gymnasium, in worker processes or in this process
"""

from agents.tools.attr_dict import AttrDict
from agents.training.env_kinds.kind import EnvKind, Request
from agents.training.env_kinds.native import Native
from agents.training.env_kinds.single import Single
from agents.training.env_kinds.vector import Vector

# The first that matches is taken.
KINDS: tuple[EnvKind, ...] = (Native(), Vector(), Single())


__all__ = ['KINDS', 'EnvKind', 'Native', 'Request', 'Single', 'Vector', 'of']


def of(config: AttrDict) -> EnvKind:
    """Return the kind of environments that a configuration asks for."""
    return next(kind for kind in KINDS if kind.matches(config))
