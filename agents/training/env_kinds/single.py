"""Single environments of Gymnasium, in worker processes or in this process."""

import contextlib
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from agents import tools
from agents.tools.attr_dict import AttrDict
from agents.tools.checking import inspection
from agents.tools.checking.inspection_report import Report
from agents.tools.workers.external_process import ExternalProcess
from agents.training import batches, env_arguments, env_names, env_setup
from agents.training.env_kinds.kind import EnvKind, Request

if TYPE_CHECKING:  # It imports TensorFlow.
    from agents.tools.graph.graph_env import GraphEnv

# What a step of a batch in workers takes beyond that of its environments, and
# what one of an environment takes beyond itself, to be checked and recorded.
ROUND_TRIP_SECONDS = 25e-6
RECORDING_SECONDS = 2.4e-6

# How much quicker a step of the batch has to be in this process. Workers are
# safer: an environment that crashes or hangs takes only its worker along.
WORTH_IT = 0.9


class Single(EnvKind):
    """Environments that are made one by one."""

    def matches(self, config: AttrDict) -> bool:
        return True

    def require(self, config: AttrDict) -> None:
        env_setup.constructor(config)

    def start_training(self, request: Request) -> 'list[GraphEnv]':
        """Start the environments, see `EnvKind`.

        Their processes start while TensorFlow is imported, which takes longer. If a step takes
        less time than a request to another process, the workers are closed again and the
        environments step in this process.
        """
        config, reporter = request.config, request.reporter
        with contextlib.ExitStack() as stack:
            members = _start_members(request, request.env_processes is not False)
            for process in itertools.chain(*members):
                stack.callback(process.close)
            batches.import_tensorflow(reporter)
            starting = functools.partial(_count_up, members)
            if request.env_processes is None and _may_leave_workers(config):
                with reporter.busy('starting', starting):
                    seconds = members[0][0].measure()
                if is_quicker_here(config.num_agents, len(members[0]), seconds):
                    reporter.say(
                        'stepping',
                        f'in this process, as a step takes {1e6 * seconds:.1f} µs '
                        '(--env_processes for workers)',
                    )
                    # The stack closes the workers.
                    return batches.combine(_start_members(request, False), request)
            with reporter.busy('starting', starting):
                graph_envs = batches.combine(members, request)
            stack.pop_all()
        if request.env_processes is not False:
            train, evaluation = map(len, members)
            reporter.say('workers', f'{train} for training and {evaluation} for evaluation up')
        return graph_envs

    def start_playing(
        self,
        config: AttrDict,
        num_agents: int,
        env_processes: bool | None = None,
        render_mode: str | None = None,
    ) -> Any:
        constructor = env_setup.constructor(config, render_mode)
        if env_processes is None and render_mode:
            # What draws, as MuJoCo by EGL, may crash in a process of TensorFlow's.
            env_processes = True
        start = functools.partial(
            env_setup.start,
            constructor,
            num_agents,
            num_workers=config.num_workers,
            seed=(config.seed, env_setup.VIDEO),
            timeout=config.worker_timeout,
        )
        envs = start(env_processes=env_processes is not False)
        if env_processes is None:
            envs = _leave_if_quicker_here(envs, num_agents) or start(env_processes=False)
        return tools.BatchEnv(envs, timeout=config.worker_timeout)

    def observation_space(self, config: AttrDict, env_processes: bool) -> gym.Space:
        if isinstance(config.env, str):
            point = str(env_names.find_spec(config.env).entry_point)
            # These come with Gymnasium, and crash no process.
            env_processes = env_processes and not point.startswith('gymnasium.envs.')
        make, timeout = env_setup.constructor(config), config.worker_timeout
        (member,) = env_setup.start(make, 1, env_processes, timeout=timeout)
        with contextlib.closing(member):
            return member.observation_space

    def inspection(self, config: AttrDict) -> tuple[Callable[..., Report], Callable[[], Any]]:
        unbounded = config.copy(observ_bounds='ignore')
        return inspection.inspect, env_setup.constructor(unbounded, limited=False)

    def video_obstacle(self, config: AttrDict, render_modes: Sequence[str]) -> str | None:
        if env_arguments.takes_render_mode(config.env):
            return None
        return (
            f'{env_names.name_of(config.env)} takes no argument render_mode, '
            'which videos need: add render_mode=None'
        )


def is_quicker_here(count: int, workers: int, seconds: float) -> bool:
    """Return whether environments step faster in this process, one by one.

    Args:
        count: Number of environments.
        workers: Number of processes that would step them.
        seconds: Duration of a step of one environment.
    """
    seconds += RECORDING_SECONDS
    there = -(-count // workers) * seconds + ROUND_TRIP_SECONDS
    return count * seconds < WORTH_IT * there


def _leave_if_quicker_here(workers: Sequence[Any], count: int) -> list[Any] | None:
    """Return workers that are faster than this process; else close them."""
    with contextlib.ExitStack() as stack:
        for each in workers:
            stack.callback(each.close)
        seconds = workers[0].measure()
        if is_quicker_here(count, len(workers), seconds):
            return None
        stack.pop_all()
    return [*workers]


def _may_leave_workers(config: AttrDict) -> bool:
    """Return whether no setting requires worker processes."""
    return config.num_workers is None and not config.worker_restarts


def _start_members(request: Request, env_processes: bool) -> list[Any]:
    config = request.config
    constructor = env_setup.constructor(config)
    counts = batches.counts(config)
    if env_processes:
        numbers = [count for _, count in counts]
        env_setup.require_descriptors(numbers, config.num_workers)
    return [
        env_setup.start(
            constructor,
            count,
            env_processes,
            config.num_workers,
            (config.seed, purpose, request.step),
            config.worker_timeout,
            request.ranks.rank * count,
            config.log_info,
        )
        for purpose, count in counts
    ]


def _count_up(members: list[Any]) -> str:
    """Format the number of workers that are up."""
    found = [member for member in itertools.chain(*members) if isinstance(member, ExternalProcess)]
    up = sum(member.is_up for member in found)
    return f'workers {up} of {len(found)}' if found else ''
