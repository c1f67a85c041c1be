"""Masks of the actions that are possible, which observations may carry.

What they look like is told in `agents.tools.choices`. Policies apply them; no
network sees them.
"""

from typing import Any

from agents.tools.choices import KEY, has_mask, visible_space, without_mask
from agents.tools.graph.backend import tf

__all__ = ['KEY', 'has_mask', 'split', 'visible_space']


def split(observ: dict[str, Any]) -> tuple[dict[str, Any], tf.Tensor]:
    """Take observations apart into what networks see and the mask.

    Args:
        observ: Observations, leaves `[..., *shape]`.

    Returns:
        The visible part, and which choices are possible, `[..., choice]`.
    """
    return without_mask(observ), observ[KEY] != 0
