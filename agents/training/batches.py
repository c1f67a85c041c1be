"""The batches of environments that a training uses, and where they step."""

import contextlib
import functools
import importlib
import itertools
from typing import Any

from agents import tools
from agents.tools import errors
from agents.tools.attr_dict import AttrDict
from agents.tools.workers.external_process import ExternalProcess
from agents.tools.workers.restarts import Restarts
from agents.tools.world import ALONE, World
from agents.training import env_setup, simulation_graph, vectors
from agents.training.reporter import Reporter

# What a step of a batch in workers takes beyond that of its environments, and
# what one of an environment takes beyond itself, to be checked and recorded.
ROUND_TRIP_SECONDS = 25e-6
RECORDING_SECONDS = 2.4e-6

# How much quicker a step of the batch has to be in this process. Workers are
# safer: an environment that crashes or hangs takes only its worker along.
WORTH_IT = 0.9


def start(
    config: AttrDict,
    env_processes: bool | None,
    session: int,
    reporter: Reporter,
    restarts: Restarts,
    ranks: World = ALONE,
) -> list[Any]:
    """Start the environments for training and for evaluation.

    Their processes start while TensorFlow is imported, which takes longer.
    Where a step takes less time than to ask another process for it, they are
    left for environments in this process, which step in the same way.

    Args:
        config: Settings of this rank.
        env_processes: Whether to use worker processes, None for whichever is
            quicker.
        session: The step at which this session begins. A resumed run goes
            through other episodes than it did at its start.
        reporter: Prints what is going on.
        restarts: How many workers may be started anew.
        ranks: Those that have environments of their own.

    Returns:
        The batches for training and for evaluation, in the graph.
    """
    if env_setup.is_native(config):
        _import_tensorflow(reporter)
        return simulation_graph.define_native_batch_envs(config, ranks)
    if vectors.is_vector(config):
        return _start_vectors(config, env_processes, session, reporter, restarts, ranks)
    seed = config.seed, session
    with contextlib.ExitStack() as stack:
        processes = env_processes is not False
        members = _start_members(config, seed, processes, ranks.rank)
        for process in itertools.chain(*members):
            stack.callback(process.close)
        _import_tensorflow(reporter)
        starting = functools.partial(_count_up, members)
        if env_processes is None and _may_leave_workers(config):
            with reporter.busy('starting', starting):
                seconds = members[0][0].measure()
            if is_quicker_here(config.num_agents, len(members[0]), seconds):
                reporter.say(
                    'stepping',
                    f'in this process, as a step takes {1e6 * seconds:.1f} µs '
                    '(--env_processes for workers)',
                )
                # The stack closes the workers.
                members = _start_members(config, seed, False, ranks.rank)
                return _combine(members, config, restarts, reporter, ranks)
        with reporter.busy('starting', starting):
            batches = _combine(members, config, restarts, reporter, ranks)
        stack.pop_all()
    if env_processes is not False:
        train, evaluation = map(len, members)
        reporter.say('workers', f'{train} for training and {evaluation} for evaluation up')
    return batches


def _start_vectors(
    config: AttrDict,
    env_processes: bool | None,
    session: int,
    reporter: Reporter,
    restarts: Restarts,
    ranks: World,
) -> list[Any]:
    """Make a vector for training and another for evaluation."""
    if env_processes:
        raise errors.ConfigError(
            'The environments come as a vector, which steps in this process: '
            'there are no --env_processes to be had.'
        )
    with contextlib.ExitStack() as stack:
        members = []
        for purpose, count in _counts(config):
            seed = config.seed, purpose, session
            first = ranks.rank * count
            found = vectors.start(config, count, seed, first, log_info=config.log_info)
            members.append([found])
            stack.callback(found.close)
        reporter.say('vector', vectors.describe(members[0][0]))
        _import_tensorflow(reporter)
        batches = _combine(members, config, restarts, reporter, ranks)
        stack.pop_all()
    return batches


def _import_tensorflow(reporter: Reporter) -> None:
    reporter.say('tensorflow', 'importing')
    with reporter.busy('starting', lambda: 'importing tensorflow'):
        importlib.import_module('agents.tools.graph.backend')


def _counts(config: AttrDict) -> list[tuple[int, int]]:
    """What environments are for, and how many there are for it."""
    return [(env_setup.TRAIN, config.num_agents), (env_setup.EVAL, config.eval_episodes)]


def is_quicker_here(count: int, workers: int, seconds: float) -> bool:
    """Whether environments had better step in this process, one by one.

    Args:
        count: Number of environments.
        workers: Number of processes that would step them.
        seconds: Time that a step of one environment takes.
    """
    seconds += RECORDING_SECONDS
    there = -(-count // workers) * seconds + ROUND_TRIP_SECONDS
    return count * seconds < WORTH_IT * there


def _tell_if_slow(reporter: Reporter) -> None:
    """Tell if a program has to be left at every step."""
    from agents.tools.graph import foreign

    reason = foreign.why_not()
    if reason is not None:
        reporter.say('stepping', f'slowly, as compiled programs cannot call Python here: {reason}')


def _may_leave_workers(config: AttrDict) -> bool:
    """Whether nothing was asked for that needs processes."""
    return config.num_workers is None and not config.worker_restarts


def _start_members(
    config: AttrDict, seed: tuple[int, int], env_processes: bool, rank: int
) -> list[Any]:
    constructor = env_setup.constructor(config)
    counts = _counts(config)
    if env_processes:
        numbers = [count for _, count in counts]
        env_setup.require_descriptors(numbers, config.num_workers)
    return [
        env_setup.start(
            constructor,
            count,
            env_processes,
            config.num_workers,
            (seed[0], purpose, seed[1]),
            config.worker_timeout,
            rank * count,
            config.log_info,
        )
        for purpose, count in counts
    ]


def _count_up(members: list[Any]) -> str:
    """Say how many workers are there."""
    found = [member for member in itertools.chain(*members) if isinstance(member, ExternalProcess)]
    up = sum(member.is_up for member in found)
    return f'workers {up} of {len(found)}' if found else ''


def _combine(
    members: list[Any], config: AttrDict, restarts: Restarts, reporter: Reporter, ranks: World
) -> list[Any]:
    """Make a batch of each, or leave nothing."""
    batches = []
    with contextlib.ExitStack() as stack:
        for each in members:
            batch = tools.BatchEnv(each, timeout=config.worker_timeout, restarts=restarts)
            stack.callback(batch.close)
            batches.append(batch)
        # Before TensorFlow has run something.
        simulation_graph.use_threads(config, batches[0].observation_space, ranks)
        _tell_if_slow(reporter)
        made = [tools.InGraphBatchEnv(batch) for batch in batches]
        stack.pop_all()
    return made
