"""Which values each setting may have, told before anything is started.

Needs neither TensorFlow nor workers, so that a mistake is refused at once.
"""

import dataclasses
import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym

from agents.algorithms import ALGORITHMS, sizes
from agents.scripts import configs
from agents.tools import errors
from agents.tools.attr_dict import AttrDict
from agents.tools.envs import wrappers

# Names that Keras and `networks.py` know, which cannot be asked for them
# without importing TensorFlow.
ACTIVATIONS = (
    'celu', 'elu', 'exponential', 'gelu', 'glu', 'hard_shrink',
    'hard_sigmoid', 'hard_silu', 'hard_swish', 'hard_tanh', 'leaky_relu',
    'linear', 'log_sigmoid', 'log_softmax', 'mish', 'relu', 'relu6', 'selu',
    'sigmoid', 'silu', 'soft_shrink', 'softmax', 'softplus', 'softsign',
    'sparse_plus', 'sparse_sigmoid', 'sparsemax', 'squareplus', 'swish',
    'tanh', 'tanh_shrink', 'threshold',
)  # fmt: skip
NETWORKS = (
    'feed_forward_gaussian',
    'feed_forward_categorical',
    'recurrent_gaussian',
    'recurrent_categorical',
    'convolutional_categorical',
)

KINDS = {
    int: 'a whole number',
    float: 'a number',
    bool: 'true or false',
    str: 'a name',
    dict: 'names with their values, such as {size: 9}',
}


@dataclasses.dataclass(frozen=True)
class Setting:
    """Which values a setting may have.

    Attributes:
        kind: Type of the value, or of the parts of a list.
        least: The smallest number.
        above: What the number has to exceed.
        most: The largest number.
        choices: The names that there are.
        is_list: Whether the value is a list.
        or_none: Whether it may be None.
        or_function: Whether it may be a function.
        name: What the value is, where its type does not tell.
    """

    kind: type
    least: float | None = None
    above: float | None = None
    most: float | None = None
    choices: Sequence[str] = ()
    is_list: bool = False
    or_none: bool = False
    or_function: bool = False
    name: str = ''

    def convert(self, value: Any) -> Any:
        """The value that was meant by a text, such as an integer by 1e6."""
        if self.is_list and isinstance(value, list):
            return [self._convert_one(part) for part in value]
        if self.or_none and str(value).lower() == 'none':
            return None
        return self._convert_one(value)

    def allows(self, value: Any) -> bool:
        if value is None:
            return self.or_none
        if self.or_function and callable(value):
            return True
        if self.is_list:
            parts = value if isinstance(value, (list, tuple)) else [None]
            return all(self._allows_one(part) for part in parts)
        return self._allows_one(value)

    def describe(self) -> str:
        """Say which values there may be, to go on after 'has to be'."""
        text = f'{self.name or KINDS[self.kind]}{self._describe_range()}'
        if self.choices:
            text = f'one of {", ".join(self.choices)}'
        if self.is_list:
            text = f'a list, such as [64, 64], each part {text}'
        others = [
            name
            for name, possible in (
                ('a function', self.or_function and not self.name),
                ('None', self.or_none),
            )
            if possible
        ]
        return ' or '.join([text, *others])

    def _convert_one(self, value: Any) -> Any:
        if self.kind is float and type(value) is int:
            return float(value)
        if self.kind is int and isinstance(value, float) and value % 1 == 0:
            return int(value)
        return value

    def _allows_one(self, value: Any) -> bool:
        if self.choices:
            return value in self.choices
        if self.kind not in (int, float):
            return isinstance(value, self.kind)
        kind = numbers.Integral if self.kind is int else numbers.Real
        if isinstance(value, bool) or not isinstance(value, kind):
            return False
        number: Any = value
        return (
            math.isfinite(number)
            and (self.least is None or number >= self.least)
            and (self.above is None or number > self.above)
            and (self.most is None or number <= self.most)
        )

    def _describe_range(self) -> str:
        if self.above is not None:
            return f' above {self.above:g}'
        if self.least is not None and self.most is not None:
            return f' from {self.least:.12g} to {self.most:.12g}'
        return '' if self.least is None else f' of at least {self.least:g}'


COUNT = Setting(int, least=1)
COUNTS = Setting(int, least=1, is_list=True)
FLAG = Setting(bool)
FRACTION = Setting(float, least=0, most=1)
POSITIVE = Setting(float, above=0)
POSITIVE_OR_NONE = Setting(float, above=0, or_none=True)
WEIGHT = Setting(float, least=0)

SETTINGS = {
    # All algorithms.
    'env': Setting(
        str,
        or_function=True,
        name='the name of an environment, or a class or function that makes '
        'one',
    ),
    'env_kwargs': Setting(dict),
    'max_length': COUNT,
    'observ_bounds': Setting(
        str, choices=('ignore', *wrappers.BoundObserv.CHOICES)
    ),
    'num_agents': COUNT,
    'num_workers': Setting(int, least=1, or_none=True),
    'worker_timeout': POSITIVE,
    'worker_restarts': Setting(int, least=0),
    'seed': Setting(int, least=0, most=2**32 - 1),
    'steps': COUNT,
    'update_every': COUNT,
    'eval_every': COUNT,
    'eval_episodes': COUNT,
    'checkpoint_every': COUNT,
    'network': Setting(str, choices=NETWORKS, or_none=True, or_function=True),
    'policy_layers': COUNTS,
    'value_layers': COUNTS,
    'recurrent_units': COUNT,
    'convolution_filters': COUNTS,
    'activation': Setting(str, choices=ACTIVATIONS, or_function=True),
    'init_output_factor': WEIGHT,
    'init_std': POSITIVE,
    'learning_rate': POSITIVE,
    'value_learning_rate': POSITIVE_OR_NONE,
    'learning_rate_schedule': Setting(str, choices=('constant', 'linear')),
    'gradient_clip': POSITIVE_OR_NONE,
    'adam_epsilon': POSITIVE,
    'discount': FRACTION,
    'gae_lambda': FRACTION,
    'normalize_advantage': FLAG,
    'normalize_observ': FLAG,
    'observ_clip': POSITIVE_OR_NONE,
    'normalize_reward': FLAG,
    'reward_clip': POSITIVE_OR_NONE,
    'value_clip': POSITIVE_OR_NONE,
    'algorithm': Setting(str, choices=tuple(ALGORITHMS)),
    # PPO.
    'update_epochs': COUNT,
    'batch_size': COUNT,
    'surrogate': Setting(str, choices=('clip', 'penalty')),
    'clip_range': POSITIVE,
    'kl_target': POSITIVE,
    'kl_init_penalty': WEIGHT,
    'kl_cutoff_factor': WEIGHT,
    'kl_cutoff_coef': WEIGHT,
    'kl_stop': POSITIVE_OR_NONE,
    'entropy_bonus': WEIGHT,
    # REINFORCE.
    'value_epochs': COUNT,
    'value_batch_size': COUNT,
}


def require_settings(config: Mapping[str, Any]) -> None:
    """Refuse a configuration that no training can be started with."""
    lacking = sorted({'algorithm', *defaults(config)} - set(config))
    if lacking:
        algorithm = config.get('algorithm', 'ppo')
        raise errors.ConfigError(
            f'The config is not made for the algorithm {algorithm!r}, it lacks '
            f'{", ".join(lacking)}. Write one from configs.{algorithm}().'
        )
    for key, value in config.items():
        if key in SETTINGS and not SETTINGS[key].allows(value):
            raise _refusal(key, value, SETTINGS[key])
    recurrent = str(config['network']).startswith('recurrent_')
    sizes.require_minibatches(config, recurrent)


def defaults(config: Mapping[str, Any]) -> AttrDict:
    """The defaults that belong to the algorithm of a configuration."""
    algorithm = config.get('algorithm')
    if algorithm in list(ALGORITHMS):  # It may be anything.
        return getattr(configs, algorithm)()
    return configs.default()


def parse_value(key: str, value: Any, present: Any = None) -> Any:
    """Check the value of a setting that comes from a text.

    Args:
        key: Name of the setting.
        value: The value.
        present: What it replaces, for settings that are not among ours.

    Returns:
        The value in the type of the setting.
    """
    setting = SETTINGS.get(key)
    if setting is None:
        setting = Setting(type(present), or_none=present is None)
        if present is None:
            return value
    value = setting.convert(value)
    if not setting.allows(value):
        raise _refusal(key, value, setting)
    return value


def _refusal(key: str, value: Any, setting: Setting) -> errors.ConfigError:
    hint = '.'
    if isinstance(value, str) and setting.choices:
        hint = errors.nearest(value, setting.choices)
    elif isinstance(value, (gym.Env, gym.vector.VectorEnv)):
        hint = (
            ', which is one already. Give its class, or a function that makes '
            'it: every agent has one of its own.'
        )
    return errors.ConfigError(
        f'The setting {key!r} has to be {setting.describe()}, not {value!r}'
        f'{hint}'
    )
