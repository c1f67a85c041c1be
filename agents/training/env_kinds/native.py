"""Native environments, which step as a part of the graph."""

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from agents import environments, tools
from agents.config.settings import NATIVE
from agents.tools import errors
from agents.tools.attr_dict import AttrDict
from agents.tools.checking.inspection_report import Report
from agents.training import batches, env_names, env_setup, simulation_graph
from agents.training.env_kinds.kind import EnvKind, Request

if TYPE_CHECKING:  # It imports TensorFlow.
    from agents.tools.graph.graph_env import GraphEnv


class Native(EnvKind):
    """Environments of `agents.environments`, and native ones of a user."""

    in_graph = True
    may_have_images = False
    most_agents = 1024  # Stepping many takes no longer than stepping one.
    inspected_agents = 16

    def matches(self, config: AttrDict) -> bool:
        return env_setup.is_native(config)

    def require(self, config: AttrDict) -> None:
        if config.observ_bounds != 'ignore':
            raise errors.ConfigError(
                "The setting 'observ_bounds' is for environments in processes; "
                'nothing comes between a native one and its policy.'
            )
        if config.log_info:
            raise errors.ConfigError(
                "The setting 'log_info' is for environments in processes; a native one has no info."
            )
        if isinstance(config.env, str):
            environments.require_known(config.env.removeprefix(NATIVE))

    def start_training(self, request: Request) -> 'list[GraphEnv]':
        batches.import_tensorflow(request.reporter)
        return simulation_graph.define_native_batch_envs(request.config, request.ranks)

    def start_playing(
        self,
        config: AttrDict,
        num_agents: int,
        env_processes: bool | None = None,
        render_mode: str | None = None,
    ) -> Any:
        if not render_mode:
            return simulation_graph.define_native_steps(config, num_agents)
        make = constructor(config, render_mode)
        seed = config.seed, env_setup.VIDEO
        # Workers have no TensorFlow.
        envs = env_setup.start(make, num_agents, env_processes=False, seed=seed)
        return tools.BatchEnv(envs, timeout=config.worker_timeout)

    def observation_space(self, config: AttrDict, env_processes: bool) -> gym.Space:
        return env_setup.native(config).observation_space

    def inspection(self, config: AttrDict) -> tuple[Callable[..., Report], Callable[[], Any]]:
        return _inspect, functools.partial(env_setup.native, config)

    def video_obstacle(self, config: AttrDict, render_modes: Sequence[str]) -> str | None:
        if render_modes:
            return None
        return 'videos need a twin in Gymnasium, or a method render'


def constructor(config: AttrDict, render_mode: str | None = None) -> Callable[[], gym.Env]:
    """Return a function that makes a native environment with the Gymnasium API."""
    if render_mode and not env_setup.native(config).can_render:
        raise errors.ConfigError(
            f'{env_names.name_of(config.env)} must have a method render to be filmed. '
            'Define render(self, state), which returns a frame '
            '[height, width, 3] of bytes; see docs/environments.md.'
        )
    limit = env_setup.native(config).max_length
    max_length = env_setup.lowest(env_setup.limit(config), limit)
    return functools.partial(env_setup.make, functools.partial(_as_gym, config), {}, max_length)


def _as_gym(config: AttrDict) -> gym.Env:
    from agents.environments.as_gym_env import AsGymEnv  # Imports TensorFlow.

    return AsGymEnv(env_setup.native(config))


def _inspect(**arguments: Any) -> Report:
    """Inspect a native environment, in a process that may import TensorFlow."""
    from agents.environments import native_inspection

    return native_inspection.inspect(**arguments)
