"""What a command is about: a config, or an environment and an algorithm."""

import contextlib
import dataclasses
import pathlib
import re
from collections.abc import Mapping
from typing import Any

from agents.parts import encodings
from agents.scripts import (
    config_file,
    config_names,
    configs,
    env_setup,
    settings,
    vectors,
)
from agents.tools import errors
from agents.tools.attr_dict import AttrDict

# Environments that have configs of every algorithm that suits their kind.
MUJOCO = 'HalfCheetah-v5'
ATARI = 'vector:ale_py:ALE/Pong-v5'

# Where environments of Gymnasium are, which can be made in this process.
GYMNASIUM = 'gymnasium.envs.'


@dataclasses.dataclass(frozen=True)
class Experiment:
    """What to train.

    Attributes:
        name: What runs of it are called.
        config: Its settings.
        origin: Where these come from, if not from a config that was named.
    """

    name: str
    config: AttrDict
    origin: str = ''


def name_of(
    config: str | None, env: str | None = None, algorithm: str | None = None
) -> str:
    """What to call runs of a config, or of an environment and an algorithm."""
    parts = [config.rpartition(':')[2] if config else None]
    if env:
        last = re.split('[:/]', env)[-1]
        parts.append(re.sub(r'[^\w.-]', '_', last))
    if not config:
        parts.append(algorithm or configs.ALGORITHMS[0])
    return '-'.join(filter(None, parts))


def find(
    config: str | None = None,
    env: str | None = None,
    algorithm: str | None = None,
    env_processes: bool = True,
) -> Experiment:
    """Find the settings of what a command line asks for.

    Args:
        config: Name of a config, or file.py:function.
        env: Environment instead of that of the config, or without one: an Id,
            module:Id, or file.py:function.
        algorithm: What learns where there is no config, by default PPO.
        env_processes: Whether an environment that has to be looked at is made
            in a process of its own.
    """
    name = name_of(config, env, algorithm)
    if config:
        found = config_names.find_config(config)()
        if env:
            found = found.copy(env=find_env(env))
        return Experiment(name, found)
    if not env:
        raise errors.ConfigError(
            'There is nothing to train: give --config=NAME, see `agents '
            'configs`, or --env=ENV.'
        )
    algorithm = algorithm or configs.ALGORITHMS[0]
    errors.require_known('algorithm', algorithm, configs.ALGORITHMS)
    wanted = find_env(env)
    return Experiment(name, *_choose(wanted, algorithm, env_processes))


def find_for_run(
    logdir: str | pathlib.Path, config: str | None, env: str | None
) -> AttrDict | None:
    """Find the config that has what a run does not save, if one is given.

    Args:
        logdir: Directory of the run.
        config: Name of a config, or file.py:function.
        env: Environment, as of `find`.
    """
    if not (config or env):
        return None
    saved = config_file.load_config(pathlib.Path(logdir).absolute())
    return complete(saved, config, env)


def complete(
    saved: Mapping[str, Any], config: str | None, env: str | None
) -> AttrDict | None:
    """The same for settings that a run has saved."""
    if config:
        return find(config, env).config
    if not env:
        return None
    algorithm: Any = saved.get('algorithm')
    errors.require_known('algorithm', algorithm, settings.ALGORITHM_GROUPS)
    return settings.find_defaults(algorithm).copy(env=find_env(env))


def find_env(text: str) -> Any:
    """What a config has as `env`, for the text of a command line."""
    file, _, function = text.rpartition(':')
    if file.endswith('.py'):
        return config_names.find_in_file(file, function)
    if text.endswith('.py'):
        raise errors.ConfigError(
            f'--env={text} names a file alone. Give the class or function in '
            f'it that makes the environment: --env={text}:NAME.'
        )
    # As a vector frames are made small, gray and stacked, as is usual.
    return f'vector:ale_py:{text}' if text.startswith('ALE/') else text


def _choose(
    env: Any, algorithm: str, env_processes: bool
) -> tuple[AttrDict, str]:
    """Settings for an environment, and where they come from."""
    if name := _find_config(env, algorithm):
        return getattr(configs, name)(), f'those of the config {name}'
    likeness = _find_likeness(env)
    if likeness and (name := _find_config(likeness, algorithm)):
        config = getattr(configs, name)().copy(env=env)
        return config, f'those of the config {name}, which is like it'
    define = getattr(configs, algorithm)
    config = define(env=env)
    if algorithm == 'ppo' and _shows_images(config, env_processes):
        return configs.images(env), 'those for images'
    return config, f'the defaults of {algorithm}'


def _find_config(env: Any, algorithm: str) -> str | None:
    """The config of an environment and an algorithm."""
    for name in config_names.list_configs():
        config = getattr(configs, name)()
        found = config.env, configs.algorithm_of(config)
        if name != configs.debug.__name__ and found == (env, algorithm):
            return name
    return None


def _find_likeness(env: Any) -> str | None:
    """The environment whose configs suit others of its kind."""
    if not isinstance(env, str) or env.startswith(
        (env_setup.NATIVE, env_setup.ENVPOOL)
    ):
        return None
    if env.startswith('vector:ale_py:'):
        return ATARI
    if not env.startswith(env_setup.VECTOR):
        point = str(env_setup.find_spec(env).entry_point)
        if point.startswith(f'{GYMNASIUM}mujoco'):
            return MUJOCO
    return None


def _shows_images(config: AttrDict, env_processes: bool) -> bool:
    """Whether an environment shows images that need large networks."""
    if env_setup.is_native(config) or vectors.is_vector(config):
        return False
    if isinstance(config.env, str):
        point = str(env_setup.find_spec(config.env).entry_point)
        env_processes = env_processes and not point.startswith(GYMNASIUM)
    make = env_setup.constructor(config)
    timeout = config.worker_timeout
    members = env_setup.start(make, 1, env_processes, timeout=timeout)
    with contextlib.closing(members[0]) as member:
        return encodings.has_large_images(member.observation_space, config)
