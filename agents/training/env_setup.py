"""Construction of Gymnasium environments by settings, for training, evaluation and videos.

Workers import this module, so that it does not import TensorFlow.
"""

import contextlib
import functools
import importlib.metadata
import importlib.util
import os
import resource
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs import registration

from agents import environments as registry
from agents.config.settings import NATIVE
from agents.tools import cpu, errors, spaces
from agents.tools.attr_dict import AttrDict
from agents.tools.batch import headless, masking, wrappers
from agents.tools.batch.env_slice import EnvSlice
from agents.tools.workers import launch
from agents.tools.workers.external_process import ExternalProcess
from agents.training import env_arguments, env_names

NO_COUNT = (
    'is a vector of environments, but it cannot be told how many. Give it an '
    'argument num_envs, or let it make a single one.'
)

# What tells Gymnasium to truncate no episode.
NO_LIMIT = -1

# Length at which evaluation truncates an episode that has no other limit.
ENDLESS = 100_000

# File descriptors that the rest of the program needs.
OTHER_DESCRIPTORS = 100

# What environments are for, so that their seeds differ.
TRAIN, EVAL, VIDEO = range(3)


def constructor(
    config: AttrDict, render_mode: str | None = None, limited: bool = True
) -> Callable[[], gym.Env]:
    """Return a function that makes the environment of a configuration.

    Names are looked up here instead of in the worker, which lacks registrations of the user.

    Args:
        config: Settings.
        render_mode: Render mode, or None.
        limited: Truncate episodes, see `limit`.
    """
    kwargs = dict(config.env_kwargs)
    max_length = limit(config) if limited else None
    if render_mode:
        env_arguments.require_rendering(config.env)
        kwargs['render_mode'] = render_mode
    env = config.env if callable(config.env) else env_names.find_spec(config.env)
    if callable(env) or not str(env.entry_point).startswith('gymnasium.'):
        headless.prepare_workers()
    made = functools.partial(make, env, kwargs, max_length, config.observ_bounds)
    if limited and config.action_masks:
        return functools.partial(_wrap, made, masking.Masking())
    return made


def _wrap(make: Callable[[], gym.Env], wrapper: Callable[[gym.Env], gym.Env]) -> gym.Env:
    return wrapper(make())


def limit(config: AttrDict) -> int | None:
    """Return the length at which episodes are truncated, None if unknown.

    Native environments and those of EnvPool have limits of their own as well.
    """
    limits = [config.max_length]
    if isinstance(config.env, str) and not config.env.startswith((NATIVE, env_names.ENVPOOL)):
        spec = env_names.find_spec(config.env.removeprefix(env_names.VECTOR))
        limits.append(spec.max_episode_steps)
    return lowest(*limits)


def lowest(*limits: int | None) -> int | None:
    """Return the lowest of some limits, where None is no limit."""
    return min((limit for limit in limits if limit), default=None)


def is_native(config: AttrDict) -> bool:
    """Return whether the environment is written in TensorFlow."""
    if isinstance(config.env, str):
        return config.env.startswith(NATIVE)
    # If nobody has imported the contract, the environment cannot meet it.
    contract = sys.modules.get('agents.environments.native_env')
    if contract is None or not isinstance(config.env, type):
        return False
    return issubclass(config.env, contract.NativeEnv)


def native(config: AttrDict) -> Any:
    """Make the native environment of a configuration."""
    kind, name, kwargs = config.env, env_names.name_of(config.env), config.env_kwargs
    if isinstance(kind, str):
        kind = registry.find(kind.removeprefix(NATIVE))
    env_arguments.require_arguments(kind, name, kwargs)
    try:
        env = kind(**kwargs)
        spaces.require_supported(env.observation_space, env.action_space)
        return env
    except errors.UserError:
        raise
    except Exception:
        trace = traceback.format_exc().rstrip()
        raise errors.EnvError(
            f'{name} raised an error while it was constructed:\n{trace}'
        ) from None


def start(
    constructor: Callable[[], gym.Env],
    count: int,
    env_processes: bool = True,
    num_workers: int | None = None,
    seed: Sequence[int] = (0,),
    timeout: float = 60.0,
    first: int = 0,
    log_info: Sequence[str] = (),
) -> list[EnvSlice] | list[ExternalProcess]:
    """Make environments, or start the worker processes that make them.

    Processes start at the same time and continue to start after the return. The result is for a
    `BatchEnv`. The seed of an environment depends on its index, not on its process.

    Args:
        constructor: Function that makes an environment.
        count: Number of environments.
        env_processes: Use worker processes.
        num_workers: Number of workers, by default one per core.
        seed: Numbers from which the seeds of the environments are derived.
        timeout: Maximum seconds of a request to a worker.
        first: Index of the first environment, after those of other ranks.
        log_info: Names of numbers of infos to report.
    """
    seeds = [
        int(np.random.SeedSequence([*seed, first + index]).generate_state(1)[0])
        for index in range(count)
    ]
    if not env_processes:
        here = [constructor] * count
        return [EnvSlice(here, seeds, first, log_info=log_info)]
    require_descriptors([count], num_workers)
    cores, workers = cpu.cores(), _workers(count, num_workers)
    # With a worker for every core, each stays on its own; a scheduler left to
    # itself is slow to find out that two of them share one.
    pinned = cores if workers == len(cores) > 1 else [None] * workers
    parts = np.array_split(np.arange(count), workers)
    with contextlib.ExitStack() as stack:
        started = []
        for indices, core in zip(parts, pinned, strict=True):
            process = ExternalProcess(
                [constructor] * len(indices),
                seeds=[seeds[index] for index in indices],
                first=first + int(indices[0]),
                timeout=timeout,
                core=core,
                log_info=log_info,
            )
            started.append(process)
            stack.callback(process.close)
        stack.pop_all()
    return started


def require_descriptors(counts: Sequence[int], num_workers: int | None = None) -> None:
    """Refuse more workers than the limit of file descriptors allows.

    Args:
        counts: Number of environments of each batch.
        num_workers: Number of workers of each batch, by default one per core.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    workers = sum(_workers(count, num_workers) for count in counts)
    try:
        used = len(os.listdir('/dev/fd'))
    except OSError:
        used = 0
    needed = used + OTHER_DESCRIPTORS + workers * launch.DESCRIPTORS
    if limit != resource.RLIM_INFINITY and needed > limit:
        raise errors.ConfigError(
            f'{workers} workers need {needed} file descriptors, but this '
            f'process may have {limit}. Allow more (ulimit -n {needed}) or use '
            'fewer workers (num_workers).'
        )


def _workers(count: int, num_workers: int | None) -> int:
    """Return the number of workers for a number of environments."""
    return min(num_workers or len(cpu.cores()), count)


def make(
    env: Callable[..., gym.Env] | gym.envs.registration.EnvSpec,
    kwargs: dict,
    max_length: int | None,
    observ_bounds: str = 'ignore',
) -> gym.Env:
    """Make an environment with the wrappers that the settings ask for."""
    if 'render_mode' in kwargs:
        headless.prepare()
    with warnings.catch_warnings():
        # That is told by what fails, if anything does.
        text = '.*not in the possible render_modes'
        warnings.filterwarnings('ignore', text)
        made = _make_limited(env, kwargs, max_length)
    wrappers.warn_of_normalizers(made)
    if observ_bounds == 'ignore':
        return made
    return wrappers.BoundObserv(made, observ_bounds)


def _make_limited(
    env: Callable[..., gym.Env] | gym.envs.registration.EnvSpec,
    kwargs: dict,
    max_length: int | None,
) -> gym.Env:
    """Make an environment with its time limit."""
    if callable(env):
        _quiet_mujoco()
        env_arguments.require_arguments(env, env_names.name_of(env), kwargs)
        name = env_names.name_of(env)
        try:
            made = env(**kwargs)
        except gym.error.UnregisteredEnv as error:
            raise errors.EnvError(
                f'{name} makes an environment that is not registered: {error} '
                f'Import the package that registers it within {name}, as '
                'workers get the function alone and not the file around it.'
            ) from None
        if isinstance(made, gym.vector.VectorEnv):
            raise errors.EnvError(f'What {name} makes {NO_COUNT}')
        if not isinstance(made, gym.Env):
            raise errors.EnvError(
                f'What {name} makes is no gymnasium.Env but a '
                f'{type(made).__module__}.{type(made).__name__}. Derive it '
                f'from that, or wrap one of the older package gym with '
                f'{_old_wrapper()}.'
            )
        if max_length is None:
            return made
        return wrappers.LimitDuration(made, max_length)
    if 'gymnasium.envs.mujoco' in str(env.entry_point):
        kwargs = _with_camera(kwargs)
    prepare_single(env)
    creator: Any = env.entry_point
    if isinstance(creator, str):
        creator = registration.load_env_creator(creator)
    if 'render_mode' in kwargs:
        _require_frames(creator, env.id)
    if creator is not None:
        env_arguments.require_arguments(creator, env.id, {**env.kwargs, **kwargs})
    length = max_length or NO_LIMIT
    return gym.make(env, length, disable_env_checker=True, **kwargs)


def _require_frames(creator: Any, name: str) -> None:
    """Refuse an environment that declares no frames for videos."""
    metadata = getattr(creator, 'metadata', None)
    if not isinstance(metadata, dict):
        return
    modes = metadata.get('render_modes') or []
    # Some declare nothing and draw nevertheless.
    may_draw = 'rgb_array' in modes if modes else env_arguments.takes_render_mode(creator)
    if not may_draw:
        raise errors.EnvError(
            f'The environment {name!r} draws no frames: videos need the render '
            f"mode 'rgb_array', and it has {', '.join(modes) or 'none'}."
        )


def _old_wrapper() -> str:
    """Return Shimmy's wrapper for environments of the package gym."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        version = importlib.metadata.version('gym').split('.')
        if (int(version[0]), int(version[1])) >= (0, 26):
            return (
                'shimmy.GymV26CompatibilityV0(env=...), made by gym.make(..., '
                'apply_api_compatibility=True) if its step returns four values'
            )
    return 'shimmy.GymV21CompatibilityV0(env=...)'


def prepare_single(spec: gym.envs.registration.EnvSpec) -> None:
    """Prepare the process for the packages of an environment, and silence them."""
    if 'mujoco' in str(spec.entry_point):
        importlib.import_module('mujoco')
    _quiet_mujoco()
    if str(spec.entry_point).startswith('ale_py'):
        ale: Any = importlib.import_module('ale_py')
        # Otherwise each process tells its version and its makers.
        ale.ALEInterface.setLoggerMode(ale.LoggerMode.Error)


def _with_camera(kwargs: dict) -> dict:
    """Choose the camera that follows the body, if there is one.

    The default camera of Gymnasium stays at the start, and bodies leave the frame.
    """
    if 'render_mode' not in kwargs or {'camera_id', 'camera_name'} & {*kwargs}:
        return kwargs
    return {**kwargs, 'camera_name': 'track'}


def _quiet_mujoco() -> None:
    """Keep MuJoCo from writing a log file and from warnings about deprecations."""

    def warn(message: str) -> None:
        if 'deprecated' not in message:
            print(f'MuJoCo: {message}', file=sys.stderr)

    if 'mujoco' in sys.modules:
        sys.modules['mujoco'].set_mju_user_warning(warn)
