"""Action masks in observations.

`agents.tools.choices` defines their form. The policy applies them; networks do not see them.
"""

from typing import Any

from agents.tools.choices import KEY, has_mask, visible_space, without_mask
from agents.tools.graph.backend import tf

__all__ = ['KEY', 'has_mask', 'split', 'visible_space']


def split(observ: dict[str, Any]) -> tuple[dict[str, Any], tf.Tensor]:
    """Split observations into their visible part and the action mask.

    Args:
        observ: Observations, leaves `[..., *shape]`.

    Returns:
        Visible part, and a mask of the possible choices, `[..., choice]`.
    """
    return without_mask(observ), observ[KEY] != 0
