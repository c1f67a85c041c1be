"""What the scripts share: from a configuration to a graph and to files."""

import contextlib
import os
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from agents import algorithms, tools
from agents.scripts import env_setup
from agents.tools import errors, spaces
from agents.tools.attr_dict import AttrDict
from agents.tools.envs import wire
from agents.tools.graph import compile_cache
from agents.tools.runs import checkpoints, files

if TYPE_CHECKING:  # These import TensorFlow.
    from agents.tools.graph.in_graph_batch_env import InGraphBatchEnv
    from agents.tools.runs.records import Records
    from agents.tools.runs.saver import Saver

Path = str | pathlib.Path

# Rows of a rollout from which on several threads share an operation.
MANY_ROWS = 16_384

CHECKPOINTS = 'checkpoints'
SPACES = 'spaces.bin'

# Limits for spaces that may come from strangers, whose bounds are arrays.
SPACES_BYTES = 2**27
MAX_WIDTH = 2**24


def define_batch_env(
    constructor: Callable[[], gym.Env],
    num_agents: int,
    env_processes: bool = True,
    **settings: Any,
) -> 'InGraphBatchEnv':
    """Make a batch of native environments; see `env_setup.start`."""
    envs = env_setup.start(constructor, num_agents, env_processes, **settings)
    return tools.InGraphBatchEnv(tools.BatchEnv(envs))


def use_threads(config: AttrDict) -> None:
    """Import TensorFlow and give its operations the threads that suit them."""
    from agents.tools.graph import backend

    # The policy and the value are learnt on threads of their own.
    cores = max(1, (os.cpu_count() or 1) // 2)
    rows = config.num_agents * config.update_every
    backend.use_threads(cores if rows > MANY_ROWS else 1)


def define_native_batch_envs(config: AttrDict) -> list[Any]:
    """Make the batches for training and evaluation of a native environment."""
    from agents.environments.native_batch_env import NativeBatchEnv

    env = env_setup.native(config)
    limit = min(config.max_length, env.max_length or config.max_length)
    return [
        NativeBatchEnv(env, count, limit, config.seed, purpose)
        for purpose, count in (
            ('train', config.num_agents),
            ('eval', config.eval_episodes),
        )
    ]


def define_simulation_graph(
    batch_env: Any,
    eval_env: Any,
    config: AttrDict,
    updates: int | None = None,
) -> AttrDict:
    """Build the algorithm of a configuration and the operations of its phases.

    Args:
        batch_env: Environments to train in, see `InGraphBatchEnv`.
        eval_env: Environments to evaluate in.
        config: Settings.
        updates: How many updates make one program with their rollouts, see
            `agents.tools.graph.simulation.training`.

    Returns:
        Dictionary of `algo`, the operations `train` and `eval` for a `Loop`,
        the function `restart`, and the `variables` of a checkpoint by name.
    """
    from agents.algorithms.actor import Actor
    from agents.scripts import networks
    from agents.tools.graph import episode_scores, simulation, weights
    from agents.tools.graph.backend import SECOND_DEVICE, tf

    critic_device = SECOND_DEVICE if updates is None else None
    spaces = batch_env.observation_space, batch_env.action_space
    algo = algorithms.find(config.algorithm)(
        networks.define(*spaces, config, critic_device),
        *spaces,
        len(batch_env),
        config,
        critic_device,
    )
    actor = Actor(algo.policy, len(eval_env))
    scores = episode_scores.EpisodeScores(len(batch_env))
    train = simulation.training(
        batch_env, algo, scores, config.update_every, updates
    )
    eval_scores = episode_scores.EpisodeScores(len(eval_env))

    @tf.function(autograph=False, jit_compile=eval_env.compiled)
    def evaluate() -> dict[str, tf.Tensor]:
        simulation.evaluation(eval_env, actor, eval_scores, config.max_length)
        return eval_scores.clear()

    saved = {'algo': algo, 'scores': scores}
    if batch_env.native:
        saved.update(env=batch_env, eval_env=eval_env)

    def restart() -> None:
        batch_env.reset()
        scores.restart()
        algo.restart()

    return AttrDict(
        algo=algo,
        train=lambda: _call(train, batch_env, algo.failure),
        eval=lambda: _call(evaluate, eval_env),
        restart=restart,
        variables=weights.named_variables(saved),
    )


def define_saver(
    variables: Mapping[str, Any],
    logdir: Path,
    partial: bool = False,
    place: str | None = None,
) -> 'Saver':
    """Make the saver of a run, see `agents.tools.runs.saver`.

    What only matters within a rollout is left out, as checkpoints are written
    between them.
    """
    from agents.tools.runs.saver import Saver

    kept = {
        name: variable
        for name, variable in variables.items()
        if not re.match(r'algo/(memory|log|kl|sound)(/|$)|\w+/seed$', name)
    }
    directory = pathlib.Path(logdir) / CHECKPOINTS
    return Saver(directory, kept, partial=partial, place=place)


def last_checkpoint(logdir: Path | None) -> int | None:
    """The training step of the last checkpoint of a run, without TensorFlow."""
    if logdir is None:
        return None
    steps = checkpoints.steps(pathlib.Path(logdir) / CHECKPOINTS)
    return steps[-1] if steps else None


@contextlib.contextmanager
def define_records(logdir: Path, step: int) -> Iterator['Records']:
    """Open the results of a run, see `agents.tools.runs.records`."""
    from agents.tools.runs.records import Records

    with contextlib.closing(Records(logdir, step)) as records:
        yield records


def save_spaces(batch_env: Any, logdir: Path) -> None:
    """Write the spaces of the environments, which a policy is built from."""
    found = batch_env.observation_space, batch_env.action_space
    files.write_changed(pathlib.Path(logdir) / SPACES, wire.dumps(found))


def load_spaces(logdir: Path) -> tuple[gym.Space, gym.Space]:
    """Read what `save_spaces` wrote; runs no code."""
    path = pathlib.Path(logdir) / SPACES
    data = files.read(path, SPACES_BYTES)
    try:
        found = wire.loads(data, files.parse_json)
        if not isinstance(found, tuple) or len(found) != 2:
            raise ValueError('it does not hold two spaces')
        spaces.require_supported(*found)
        for space in found:
            width = spaces.width(space)
            if not 0 < width <= MAX_WIDTH:
                raise ValueError(f'it describes {width} numbers')
        return found
    except (ValueError, errors.EnvError) as error:
        reason = str(error).rstrip('.')
        raise errors.ConfigError(f'Cannot read {path}: {reason}.') from error


def _call(
    operation: Callable[[], Mapping[str, Any]],
    batch_env: Any,
    failure: Callable[[], Exception | None] = lambda: None,
) -> dict[str, float]:
    """Run an operation, or raise what went wrong within the graph."""
    from agents.tools.graph.backend import tf

    raised = batch_env.failure()
    if raised is not None:
        raise raised
    before = batch_env.seconds
    try:
        results = operation()
    except tf.errors.DataLossError as error:
        raise errors.UserError(
            f'A compiled program in {compile_cache.clear()} was damaged. They '
            'have been removed; start again.'
        ) from error
    except Exception:
        raised = batch_env.failure()
        if raised is None:
            raise
        raise raised from None
    reason = failure()
    if reason is not None:
        raise reason
    numbers = {name: float(value) for name, value in results.items()}
    numbers['env_seconds'] = batch_env.seconds - before
    return numbers
