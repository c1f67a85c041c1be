"""Networks by the names that settings give them, to be used or copied.

`feed_forward` and `recurrent` are composed of an encoder of the observations
and a head for the actions or the value.
"""

from agents.training.networks import (
    compose,
    define,
    define_encoder,
    define_gru,
    define_head,
    feed_forward,
    recurrent,
)

__all__ = [
    'compose',
    'define',
    'define_encoder',
    'define_gru',
    'define_head',
    'feed_forward',
    'recurrent',
]
