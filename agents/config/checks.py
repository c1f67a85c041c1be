"""Validation of settings before anything is started.

Needs neither TensorFlow nor workers, so that mistakes are reported at once.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym

from agents.config import sizes
from agents.config.kinds import Kind
from agents.config.settings import SETTINGS, find_defaults
from agents.tools import errors
from agents.tools.attr_dict import AttrDict


def require_settings(config: AttrDict, ranks: int = 1) -> None:
    """Refuse a configuration that no training can start with.

    Args:
        config: Configuration.
        ranks: Number of ranks.
    """
    defaults = find_defaults(config.get('algorithm'))
    lacking = sorted({'algorithm', *defaults} - set(config))
    if lacking:
        algorithm = config.get('algorithm', 'ppo')
        raise errors.ConfigError(
            f'The config is not made for the algorithm {algorithm!r}, it lacks '
            f'{", ".join(lacking)}. Write one from configs.{algorithm}().'
        )
    for key, value in config.items():
        if key in SETTINGS:
            _require_allowed(key, value, SETTINGS[key].kind)
    _require_distinct('log_info', config['log_info'])
    _require_demonstrations(config)
    sizes.require_minibatches(config, config['network'] == 'recurrent')
    sizes.require_weights(config)
    cloning = config['algorithm'] == 'behaviour_cloning'
    if cloning and config['distribute'] == 'gather':
        raise errors.ConfigError(
            'distribute must be average for behaviour cloning, which has no rollouts '
            'to gather. Choose --set distribute=average.'
        )
    sizes.share(config, ranks)


def _require_demonstrations(config: Mapping[str, Any]) -> None:
    """Refuse imitation learning without demonstrations."""
    cloning = config['algorithm'] == 'behaviour_cloning'
    if not cloning and config['rewards'] == 'environment':
        return
    if config['demonstrations'] is None:
        raise errors.ConfigError(
            'There are no demonstrations to learn from: --set '
            'demonstrations=FILE, where a run has been recorded by `agents '
            'record --logdir RUN --outfile FILE`.'
        )
    if cloning and (config['rewards'] != 'environment' or not config['clone_steps']):
        raise errors.ConfigError(
            'Behaviour cloning needs rewards=environment and clone_steps of at least 1. Set both.'
        )


def _require_distinct(key: str, names: Sequence[str]) -> None:
    twice = [name for name in names if list(names).count(name) > 1]
    if twice:
        raise errors.ConfigError(f'The setting {key!r} has {twice[0]!r} twice.')


def convert_value(key: str, value: Any, present: Any = None) -> Any:
    """Convert the value of a setting that was read from text, and validate it.

    Args:
        key: Name of the setting.
        value: Value.
        present: Value that it replaces, for settings of the user.

    Returns:
        Value in the type of the setting.
    """
    if key in SETTINGS:
        kind = SETTINGS[key].kind
    elif present is None:
        return value
    else:
        kind = Kind(type(present))
    converted = kind.convert(value)
    _require_allowed(key, converted, kind)
    return converted


def _require_allowed(key: str, value: Any, kind: Kind) -> None:
    if kind.allows(value):
        return
    hint = '.'
    if isinstance(value, str) and kind.choices:
        hint = errors.nearest(value, kind.choices)
    elif isinstance(value, gym.vector.VectorEnv):
        hint = (
            ', which is a vector already. Give a function of num_envs that '
            'makes it: training and evaluation have vectors of their own.'
        )
    elif hasattr(value, 'reset') and hasattr(value, 'step'):
        hint = (
            ', which is one already. Give its class, or a function that makes '
            'it: every agent has one of its own.'
        )
    raise errors.ConfigError(
        f'The setting {key!r} has to be {kind.describe()}, not {value!r}{hint}'
    )
