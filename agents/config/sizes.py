"""Sizes that must fit each other and memory; needs no TensorFlow.

Settings may come from strangers, so that sizes are checked before anything is allocated.
"""

import itertools
import math
from collections.abc import Mapping
from typing import Any

from agents.tools import errors
from agents.tools.attr_dict import AttrDict

# The setting that has the size, of algorithms that go through a rollout.
MINIBATCHES = {
    'acktr': 'value_batch_size',
    'ppo': 'batch_size',
    'reinforce': 'value_batch_size',
    'trpo': 'value_batch_size',
}

# Settings that count for all ranks together: of each of them a rank has its
# part of the agents, and where all learn, of the minibatches.
OF_ALL_RANKS = 'num_agents', 'eval_episodes'

# Rows of a rollout, of which each has some numbers at least.
MAX_ROWS = 100_000_000

# Weights between the layers of all networks, 800 megabytes and for Adam twice
# as much again. The policy of OpenAI Five had 159 million.
MAX_WEIGHTS = 200_000_000


def require_minibatches(config: Mapping[str, Any], recurrent: bool) -> None:
    """Refuse minibatches that do not divide a rollout.

    Args:
        config: Settings.
        recurrent: Whether a network is trained on whole sequences.
    """
    steps = config['update_every']
    rows = steps * config['num_agents']
    rollout = f'num_agents={config["num_agents"]} × update_every={steps}'
    if rows > MAX_ROWS:
        raise errors.ConfigError(
            f'A rollout of {rollout} = {rows} rows is too large; there may be {MAX_ROWS:,}.'
        )
    name = MINIBATCHES.get(config['algorithm'])
    if name is None:
        return
    size = config[name]
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


def share(config: AttrDict, ranks: int) -> AttrDict:
    """Return the settings of each of several ranks, with its share of the agents."""
    if ranks == 1:
        return config
    names = [*OF_ALL_RANKS]
    if config.distribute != 'gather':
        names += _minibatches(config)
    recurrent = config.network == 'recurrent'
    rows = config.num_agents * config.update_every
    for name in names:
        size, unit, near = config[name], ranks, _multiples(config[name], ranks)
        if name == MINIBATCHES.get(config.algorithm):
            unit *= config.update_every if recurrent else 1
            near = _nearest(size, rows, unit)
        if size % unit:
            raise errors.ConfigError(
                f'{name}={size} cannot be divided among {ranks} ranks. Choose {near}.'
            )
    return config.copy(**{name: config[name] // ranks for name in names})


def _minibatches(config: Mapping[str, Any]) -> list[str]:
    """Return the names of the settings that are sizes of minibatches."""
    names = []
    if config['algorithm'] in MINIBATCHES:
        names.append(MINIBATCHES[config['algorithm']])
    if config['clone_steps']:
        names.append('clone_batch_size')
    if config['rewards'] != 'environment':
        names.append('discriminator_batch')
    return names


def require_weights(config: Mapping[str, Any]) -> None:
    """Refuse networks that are too large for memory."""
    count = count_weights(config)
    if count > MAX_WEIGHTS:
        raise errors.ConfigError(
            f'Networks of policy_layers={config["policy_layers"]}, '
            f'value_layers={config["value_layers"]} and discriminator_layers='
            f'{config["discriminator_layers"]} have {count:,} weights or more; '
            f'there may be {MAX_WEIGHTS:,}.'
        )


def count_weights(config: Mapping[str, Any]) -> int:
    """Return the number of weights between layers of the sizes in the settings.

    The networks have more, depending on spaces and encoders.
    """
    total = 0
    for name in ('policy_layers', 'value_layers'):
        layers = config[name]
        total += sum(math.prod(pair) for pair in itertools.pairwise(layers))
        if config['network'] == 'recurrent':
            # A gate for each of three purposes sees the input and the memory.
            units = config['recurrent_units']
            total += 3 * units * (units + (layers[-1] if layers else 0))
    if config['rewards'] != 'environment':
        pairs = itertools.pairwise(config['discriminator_layers'])
        total += sum(map(math.prod, pairs))
    return total


def _multiples(size: int, unit: int) -> str:
    """Format the nearest multiples of a unit below and above a size."""
    below = size // unit * unit
    return ' or '.join(str(n) for n in (below, below + unit) if n)


def _nearest(size: int, rows: int, unit: int) -> str:
    """Format the nearest sizes below and above that divide the rows into whole units."""
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
