"""Sizes of minibatches that fit a rollout; needs no TensorFlow."""

import math
from collections.abc import Mapping
from typing import Any

from agents.tools import errors

# The setting that has the size, by algorithm.
MINIBATCHES = {'ppo': 'batch_size', 'reinforce': 'value_batch_size'}

# Rows are counted by integers of 32 bits.
MAX_ROWS = 2**31 - 1


def require_minibatches(config: Mapping[str, Any], recurrent: bool) -> None:
    """Refuse minibatches that a rollout cannot be divided into.

    Args:
        config: Settings.
        recurrent: Whether a network is trained on whole sequences.
    """
    name = MINIBATCHES[config['algorithm']]
    size, steps = config[name], config['update_every']
    rows = steps * config['num_agents']
    rollout = f'num_agents={config["num_agents"]} × update_every={steps}'
    if rows > MAX_ROWS:
        raise errors.ConfigError(
            f'A rollout of {rollout} = {rows} rows is too large; there may be '
            f'{MAX_ROWS:,}.'
        )
    if rows % size:
        raise errors.ConfigError(
            f'A rollout of {rollout} = {rows} rows cannot be divided into '
            f'minibatches of {name}={size}. Choose '
            f'{_nearest(size, rows, steps if recurrent else 1)}.'
        )
    if recurrent and size % steps:
        raise errors.ConfigError(
            f'A recurrent network is trained on whole sequences, so {name}='
            f'{size} has to be a multiple of update_every={steps}. Choose '
            f'{_nearest(size, rows, steps)}.'
        )


def _nearest(size: int, rows: int, unit: int) -> str:
    """The next sizes below and above that divide the rows, of whole units."""
    divisors = {
        unit * divisor
        for small in range(1, math.isqrt(rows // unit) + 1)
        if rows // unit % small == 0
        for divisor in (small, rows // unit // small)
    }
    below = [divisor for divisor in divisors if divisor < size]
    above = [divisor for divisor in divisors if divisor > size]
    found = ([max(below)] if below else []) + ([min(above)] if above else [])
    return ' or '.join(map(str, found))
