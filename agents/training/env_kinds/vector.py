"""Vector environments, which step in this process."""

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from agents import tools
from agents.tools import errors
from agents.tools.attr_dict import AttrDict
from agents.tools.checking.inspection_report import Report
from agents.training import batches, env_names, env_setup, vectors
from agents.training.env_kinds.kind import EnvKind, Request

if TYPE_CHECKING:  # It imports TensorFlow.
    from agents.tools.graph.graph_env import GraphEnv


class Vector(EnvKind):
    """Vector environments of Gymnasium, EnvPool or a user, see `vectors`."""

    def matches(self, config: AttrDict) -> bool:
        return vectors.is_vector(config)

    def require(self, config: AttrDict) -> None:
        vectors.require(config)

    def start_training(self, request: Request) -> 'list[GraphEnv]':
        config = request.config
        if request.env_processes:
            raise errors.ConfigError(
                '--env_processes must not be given for a vector environment, which steps in '
                'this process. Leave it out.'
            )
        with contextlib.ExitStack() as stack:
            members = []
            for purpose, count in batches.counts(config):
                seed = config.seed, purpose, request.step
                first = request.ranks.rank * count
                vector = vectors.start(config, count, seed, first, log_info=config.log_info)
                members.append([vector])
                stack.callback(vector.close)
            request.reporter.say('vector', vectors.describe(members[0][0]))
            batches.import_tensorflow(request.reporter)
            graph_envs = batches.combine(members, request)
            stack.pop_all()
        return graph_envs

    def start_playing(
        self,
        config: AttrDict,
        num_agents: int,
        env_processes: bool | None = None,
        render_mode: str | None = None,
    ) -> Any:
        seed = config.seed, env_setup.VIDEO
        made = vectors.start(config, num_agents, seed, render_mode=render_mode)
        return tools.BatchEnv([made], timeout=config.worker_timeout)

    def observation_space(self, config: AttrDict, env_processes: bool) -> gym.Space:
        made = vectors.start(config, config.num_agents, (config.seed,))
        with contextlib.closing(made):
            return made.observation_space

    def inspection(self, config: AttrDict) -> tuple[Callable[..., Report], Callable[[], Any]]:
        raise errors.ConfigError(
            'agents check needs a single environment, got the vector environment '
            f'{env_names.name_of(config.env)!r}. Check one of its environments.'
        )
