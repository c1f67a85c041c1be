"""Names of environments, and the packages that they need."""

import importlib
import importlib.util
import sys
from typing import Any

import gymnasium as gym

from agents.tools import errors
from agents.tools.batch import headless

# Before the name of an environment of which there is to be a vector, and before
# the name of one of EnvPool's, see `agents.training.vectors`.
VECTOR = 'vector:'
ENVPOOL = 'envpool:'

# What environments of Gymnasium need beside it, by where they are: the package
# and the name by which pip installs it along with Gymnasium.
PACKAGES = {
    'gymnasium.envs.mujoco': ('mujoco', 'mujoco'),
    'gymnasium.envs.box2d': ('Box2D', 'box2d'),
    'gymnasium.envs.phys2d': ('jax', 'jax'),
    'gymnasium.envs.tabular': ('jax', 'jax'),
}

# Where environments are that others register, by what their names begin with:
# the module that does it and how it is installed with all that they need.
REGISTERED_BY = {
    'ALE/': ('ale_py', "pip install 'agents[atari]'"),
    'dm_control/': ('shimmy', "pip install 'shimmy[dm-control]'"),
}

# Said of environments that others register elsewhere.
OTHERS = (
    'If a package that you have installed registers it, name its module as well: {module}:{name}.'
)


def find_spec(name: str) -> gym.envs.registration.EnvSpec:
    """Look up the spec of `Id` or `module:Id`, after importing the module."""
    module, _, registered = name.rpartition(':')
    try:
        if module:
            with headless.disabled():
                importlib.import_module(module)
        spec = gym.spec(registered)
    except gym.error.Error as error:
        near = errors.nearest(registered, gym.registry)
        reason = str(error).rstrip('.?') + ('?' if '?' in str(error) else '.')
        others = OTHERS.format(module=module or 'MODULE', name=registered)
        hint = _hint(module, registered) or others
        raise errors.ConfigError(
            f'There is no environment {name!r}{near} {reason} {hint}'
        ) from error
    except Exception as error:
        hint = _hint(module, registered)
        raise errors.ConfigError(
            f'The environment {name!r} cannot be imported: {error}.{hint and " "}{hint}'
        ) from error
    _require_installed(spec)
    return spec


def _hint(asked: str, name: str) -> str:
    """Return which known package registers an environment, to end an error.

    Empty if the package has registered others already.

    Args:
        asked: Module that was given, or ''.
        name: Id of the environment.
    """
    for prefix, (module, remedy) in REGISTERED_BY.items():
        there = any(each.startswith(prefix) for each in gym.registry)
        if name.startswith(prefix) and not there:
            if asked == module:
                return f'It is there after {remedy}.'
            return f'Ask for it as {f"{module}:{name}"!r}, after {remedy}.'
    return ''


def _require_installed(spec: gym.envs.registration.EnvSpec) -> None:
    """Refuse an environment whose package is missing, before workers start."""
    point = spec.entry_point or spec.vector_entry_point
    module = str(point).partition(':')[0]
    needed = {
        package: f": pip install 'gymnasium[{extra}]'"
        for place, (package, extra) in PACKAGES.items()
        if place in module
    }
    if isinstance(point, str):
        needed[module.partition('.')[0]] = '.'
    for package, remedy in needed.items():
        found = sys.modules.get(package) or importlib.util.find_spec(package)
        if found is None:
            raise errors.ConfigError(
                f'The environment {spec.id!r} needs the package {package!r}, '
                f'which is not installed{remedy}'
            )


def name_of(env: Any) -> str:
    """Return the name of an environment, also of a function or class."""
    return getattr(env, '__name__', str(env))
