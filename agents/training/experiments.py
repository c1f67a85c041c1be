"""Settings for a command line: from a config, or from an environment and an algorithm."""

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import gymnasium as gym

from agents.config import lookup, overrides
from agents.config.settings import NATIVE
from agents.parts import encodings
from agents.tools import errors
from agents.tools.attr_dict import AttrDict
from agents.tools.batch import headless
from agents.training import env_kinds, env_names, vectors

# Environments that have configs of every algorithm that suits their kind.
MUJOCO = 'HalfCheetah-v5'
ATARI = 'vector:ale_py:ALE/Pong-v5'

# Where environments of Gymnasium are, which can be made in this process.
GYMNASIUM = 'gymnasium.envs.'

# Where settings come from that depend on what is observed.
DEFAULTS_OF_PPO = 'the defaults of ppo'


@dataclasses.dataclass(frozen=True)
class Experiment:
    """Settings of a training.

    Attributes:
        name: Name for its runs.
        config: Settings.
        origin: Origin of the settings, if not a config that was named.
    """

    name: str
    config: AttrDict
    origin: str = ''


def name_of(config: str | None, env: str | None = None, algorithm: str | None = None) -> str:
    """Return the name for runs of a config, or of an environment and an algorithm."""
    parts = [config.rpartition(':')[2] if config else None]
    if env:
        last = re.split('[:/]', env)[-1]
        parts.append(re.sub(r'[^\w.-]', '_', last))
    if not config:
        parts.append(algorithm or lookup.configs().ALGORITHMS[0])
    return '-'.join(filter(None, parts))


def find(
    config: str | None = None,
    env: str | None = None,
    algorithm: str | None = None,
    env_processes: bool = True,
    changes: Sequence[str] = (),
    look: bool = True,
) -> Experiment:
    """Find the settings for a command line.

    Args:
        config: Name of a config, or file.py:function.
        env: Environment instead of that of the config, or without one: an Id, module:Id or
            file.py:function.
        algorithm: Algorithm if there is no config, by default PPO.
        env_processes: Whether an environment that is needed for its observations is made in a
            worker.
        changes: Texts `key=value` by which the caller replaces settings; here only for making the
            environment.
        look: Make the environment if the settings depend on its observations; otherwise see
            `suit_observations`.
    """
    name = name_of(config, env, algorithm)
    if config:
        given = lookup.find_config(config)()
        if env:
            given = given.copy(env=find_env(env))
        return Experiment(name, given)
    if not env:
        raise errors.ConfigError(
            'There is nothing to train: give --config=NAME, see `agents configs`, or --env=ENV.'
        )
    algorithm = algorithm or lookup.configs().ALGORITHMS[0]
    errors.require_known('algorithm', algorithm, lookup.configs().ALGORITHMS)
    found = Experiment(name, *_choose(find_env(env), algorithm))
    if not (look and _may_need_images(found)):
        return found
    changed = overrides.apply(found.config, changes)
    return suit_observations(found, env_kinds.of(changed).observation_space(changed, env_processes))


def suit_observations(found: Experiment, space: gym.Space) -> Experiment:
    """Choose the settings for images if the observations are large images.

    Args:
        found: Result of `find` without a look at the environment.
        space: Space of the observations.
    """
    if _may_need_images(found) and encodings.has_large_images(space, found.config):
        config = lookup.configs().images(found.config.env)
        origin = found.origin.replace(DEFAULTS_OF_PPO, 'those for images')
        return Experiment(found.name, config, origin)
    return found


def find_for_run(config: str | None, env: str | None, trusted: bool) -> dict[str, Any]:
    """Convert options of a command to arguments of functions that open a run.

    Args:
        config: Name of a config, or file.py:function.
        env: Environment to play in, as of `find`.
        trusted: Use code that the run names though it is not signed.

    Returns:
        Arguments of the functions that open a run.
    """
    return {
        'config': find(config).config if config else None,
        'env': find_env(env) if env else None,
        'trust': trusted,
    }


def find_env(text: str) -> Any:
    """Return the setting `env` for a text of the command line."""
    file, _, function = text.rpartition(':')
    if file.endswith('.py'):
        with headless.disabled():
            return lookup.find_in_file(file, function)
    if text.endswith('.py'):
        raise errors.ConfigError(
            f'--env={text} names a file alone. Give the class or function in '
            f'it that makes the environment: --env={text}:NAME.'
        )
    # As a vector frames are made small, gray and stacked, as is usual.
    return f'vector:ale_py:{text}' if text.startswith('ALE/') else text


def _choose(env: Any, algorithm: str) -> tuple[AttrDict, str]:
    """Return settings for an environment, and their origin."""
    if name := _find_config(env, algorithm):
        return getattr(lookup.configs(), name)(), f'those of the config {name}'
    for like in _list_alike(env):
        if name := _find_config(like, algorithm):
            config = getattr(lookup.configs(), name)().copy(env=env)
            return config, f'those of the config {name}, which is like it'
    return getattr(lookup.configs(), algorithm)(env=env), f'the defaults of {algorithm}'


def _find_config(env: Any, algorithm: str) -> str | None:
    """Return the config of an environment and an algorithm."""
    for name in lookup.list_configs():
        config = getattr(lookup.configs(), name)()
        found = config.env, lookup.configs().algorithm_of(config)
        if name != 'debug' and found == (env, algorithm):
            return name
    return None


def _list_alike(env: Any) -> list[str]:
    """Return environments of the same kind whose configs fit, the best first."""
    if not isinstance(env, str) or env.startswith(NATIVE):
        return []
    if env.startswith('vector:ale_py:'):
        return [ATARI]
    if env.startswith(env_names.ENVPOOL):
        name = env.removeprefix(env_names.ENVPOOL)
        family = vectors.envpool_family(name)
        if family == 'atari':
            return [f'vector:ale_py:ALE/{name}', ATARI]
        return _list_mujoco(name) if family == 'mujoco.gym' else [name]
    if not env.startswith(env_names.VECTOR):
        point = str(env_names.find_spec(env).entry_point)
        if point.startswith(f'{GYMNASIUM}mujoco'):
            return _list_mujoco(env)
    return []


def _list_mujoco(name: str) -> list[str]:
    return [re.sub(r'-v\d+$', '-v5', name), MUJOCO]


def _may_need_images(found: Experiment) -> bool:
    """Return whether the settings are defaults, which images would change."""
    return found.origin.startswith(DEFAULTS_OF_PPO) and env_kinds.of(found.config).may_have_images
