"""Construction of vector environments by settings.

A vector environment steps several environments at once, often on threads of its own, in this
process. See `agents.training.env_setup` for single environments.
"""

import contextlib
import functools
import importlib.util
import inspect
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from agents.tools import errors
from agents.tools.attr_dict import AttrDict
from agents.tools.batch import headless, masking, wrappers
from agents.tools.batch.in_worker import InWorker
from agents.tools.vector.vector_slice import VectorSlice
from agents.training import env_names, env_setup

# What registered vectors are made with unless the user says otherwise, if they
# take it: no step is spent on resets, and scores are of whole rewards.
DEFAULTS = {'autoreset_mode': AutoresetMode.SAME_STEP, 'reward_clipping': False}

# Where Gymnasium steps environments in processes of their own.
ASYNC = r'gymnasium\.vector\.async_vector_env'

# Frames of an Atari game for each step, if the user says nothing else.
FRAMES = 4


def is_vector(config: AttrDict) -> bool:
    """Return whether the environments of a configuration are a vector environment."""
    env = config.env
    if callable(env):
        return _takes_count(env, config.env_kwargs)
    if env.startswith((env_names.VECTOR, env_names.ENVPOOL)):
        return True
    return env_names.find_spec(env).entry_point is None


def require(config: AttrDict) -> None:
    """Refuse settings that vector environments cannot be made of; makes none."""
    for setting, without in (
        ('observ_bounds', 'ignore'),
        ('num_workers', None),
        ('worker_restarts', 0),
    ):
        if config[setting] != without:
            raise errors.ConfigError(
                f'The setting {setting!r} is for environments that are made '
                'one by one, in workers. Those of a vector step in this '
                f'process: leave it at {without}.'
            )
    _find_maker(config)


def start(
    config: AttrDict,
    count: int,
    seed: Sequence[int],
    first: int = 0,
    render_mode: str | None = None,
    log_info: Sequence[str] = (),
) -> VectorSlice:
    """Make a vector environment, as a member of a `BatchEnv`.

    Args:
        config: Settings.
        count: Number of environments.
        seed: Numbers from which the seeds are derived.
        first: Index of the first environment, after those of other ranks.
        render_mode: Render mode, or None.
        log_info: Names of numbers of infos to report.
    """
    make = _find_maker(config, render_mode)
    drawn = np.random.SeedSequence([*seed, first]).generate_state(1)
    number = int(drawn[0]) >> 1  # Some take signed ones of 32 bits.
    constructor = functools.partial(make, count, number)
    made = VectorSlice(constructor, number, first, config.max_length, log_info, config.action_masks)
    wrappers.warn_of_normalizers(made.env)
    return made


def describe(found: VectorSlice) -> str:
    """Describe a vector environment and its autoreset mode in one line."""
    mode = found.mode.name
    text = {
        'SAME_STEP': 'in the step that ends the last',
        'DISABLED': 'in the step that ends the last, as it is asked to',
        'NEXT_STEP': 'in a step of their own, which is not learnt from',
    }[mode]
    guess = f' (assumed, as its metadata has no autoreset_mode: {mode})' if found.assumed else ''
    vector = found.env.unwrapped
    is_async = isinstance(vector, gym.vector.AsyncVectorEnv)
    where = 'processes of its own' if is_async else 'this process'
    return (
        f'{len(found)} environments of a {type(vector).__name__} in {where}; '
        f'episodes begin {text}{guess}'
    )


def _find_maker(
    config: AttrDict, render_mode: str | None = None
) -> Callable[[int, int], gym.vector.VectorEnv]:
    """Return a function of a size and a seed that makes a vector environment."""
    env, kwargs = config.env, dict(config.env_kwargs)
    if callable(env):
        if render_mode and _takes(env, 'render_mode'):
            kwargs['render_mode'] = render_mode
        return functools.partial(_call, env, kwargs)
    if env.startswith(env_names.ENVPOOL):
        name = env.removeprefix(env_names.ENVPOOL)
        _require_in_envpool(name)
        return functools.partial(_make_envpool, name, config.max_length, kwargs)
    spec = env_names.find_spec(env.removeprefix(env_names.VECTOR))
    return functools.partial(
        _make_registered, spec, kwargs, config.max_length, render_mode, config.action_masks
    )


def _call(function: Callable, kwargs: dict, count: int, seed: int) -> gym.vector.VectorEnv:
    """Call a function of the user, or make a vector environment of their class."""
    del seed  # It gets one with the first reset.
    made = function(num_envs=count, **kwargs)
    name = env_names.name_of(function)
    if not isinstance(made, gym.vector.VectorEnv):
        raise errors.EnvError(
            f'{name} takes num_envs and must return a gymnasium.vector.VectorEnv, got '
            f'{made!r}. A function that makes a single environment takes no such '
            'argument.'
        )
    if made.num_envs != count:
        made.close()
        raise errors.EnvError(
            f'{name} was asked for num_envs={count} and made a vector of {made.num_envs}.'
        )
    return made


def _make_envpool(
    name: str, max_length: int | None, kwargs: dict, count: int, seed: int
) -> gym.vector.VectorEnv:
    from agents.tools.vector.env_pool import EnvPoolVector

    with warnings.catch_warnings():  # Of bounds that are rounded to 32 bits.
        warnings.simplefilter('ignore', UserWarning)
        return EnvPoolVector(name, count, seed, max_length, **kwargs)


def _make_registered(
    spec: gym.envs.registration.EnvSpec,
    kwargs: dict,
    max_length: int | None,
    render_mode: str | None,
    action_masks: bool,
    count: int,
    seed: int,
) -> gym.vector.VectorEnv:
    """Make a vector environment by its own entry point, or of single environments."""
    del seed  # It gets one with the first reset.
    mode = kwargs.get('vectorization_mode')
    if mode is None and spec.vector_entry_point is not None:
        mode = 'vector_entry_point'
    if mode == 'vector_entry_point':
        kwargs = _complete(spec, kwargs, max_length, render_mode)
    else:
        env_setup.prepare_single(spec)
        limit = env_setup.lowest(max_length, spec.max_episode_steps)
        kwargs = {
            'max_episode_steps': limit or env_setup.NO_LIMIT,
            'disable_env_checker': True,
            **({'render_mode': render_mode} if render_mode else {}),
            **kwargs,
        }
        kwargs['vector_kwargs'] = {
            'autoreset_mode': AutoresetMode.SAME_STEP,
            **kwargs.get('vector_kwargs', {}),
        }
        kwargs['wrappers'] = [
            *(kwargs.get('wrappers') or ()),
            *([masking.Masking()] if action_masks else []),
            *([InWorker(os.getpid())] if mode == 'async' else []),
        ]
    if mode == 'async':  # What it warns of is told by the error that follows.
        warnings.filterwarnings('ignore', module=ASYNC)
    if render_mode:
        headless.prepare()
    with warnings.catch_warnings():  # Of metadata, which are told of anyway.
        warnings.simplefilter('ignore', UserWarning)
        return gym.make_vec(spec, count, **{'vectorization_mode': mode, **kwargs})


def _complete(
    spec: gym.envs.registration.EnvSpec,
    kwargs: dict,
    max_length: int | None,
    render_mode: str | None,
) -> dict:
    """Add arguments that a vector environment takes, such as its time limit."""
    point: Any = spec.vector_entry_point
    if isinstance(point, str):
        point = gym.envs.registration.load_env_creator(point)
    given = {**spec.kwargs, **kwargs}
    frames = max_length and max_length * given.get('frameskip', FRAMES)
    limits = {
        'max_episode_steps': (max_length, spec.max_episode_steps),
        'max_num_frames_per_episode': (frames, None),
    }
    found: dict[str, Any] = {}
    for key, wanted in limits.items():
        limit = env_setup.lowest(*wanted, given.get(key))
        if limit and _takes(point, key):
            found[key] = limit
    defaults = {**DEFAULTS, 'render_mode': render_mode}
    for key, value in defaults.items():
        if value is not None and _takes(point, key):
            found[key] = given.get(key, value)
    return {**kwargs, **found}


def envpool_family(name: str) -> str:
    """Return the family of an EnvPool environment, such as `atari`."""
    _require_in_envpool(name)
    from envpool.registration import registry

    # Not documented: nothing is known where another version lacks it.
    module, *_ = getattr(registry, 'specs', {}).get(name, ('',))
    return module.removeprefix('envpool.')


def _require_in_envpool(name: str) -> None:
    """Refuse a name that EnvPool does not have."""
    if importlib.util.find_spec('envpool') is None:
        raise errors.ConfigError(
            f"The environment 'envpool:{name}' needs the package 'envpool', "
            "which is not installed: pip install 'agents[envpool]'"
        )
    import envpool

    names = envpool.list_all_envs()
    if name not in names:
        raise errors.ConfigError(
            f'There is no environment {name!r} of EnvPool{errors.nearest(name, names)}'
        )


def _takes_count(env: Any, kwargs: dict) -> bool:
    """Return whether a function or class makes a given number of environments."""
    if isinstance(env, type) and issubclass(env, gym.Env):
        return False
    return 'num_envs' not in kwargs and _takes(env, 'num_envs')


def _takes(function: Any, name: str) -> bool:
    """Return whether a function has an argument of a name."""
    with contextlib.suppress(TypeError, ValueError):  # It may not tell.
        return name in inspect.signature(function).parameters
    return False
