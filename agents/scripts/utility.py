"""What the scripts share: from a configuration to a graph and to files."""

import io
import os
import pathlib
import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from agents import algorithms, tools
from agents.scripts import environments
from agents.tools import errors
from agents.tools.attr_dict import AttrDict

if TYPE_CHECKING:  # These import TensorFlow.
    from agents.tools.in_graph_batch_env import InGraphBatchEnv
    from agents.tools.saver import Saver


def define_batch_env(
    constructor: Callable[[], gym.Env],
    num_agents: int,
    env_processes: bool = True,
    **settings: Any,
) -> 'InGraphBatchEnv':
    """Make a batch of environments in the graph; see `environments.start`."""
    envs = environments.start(constructor, num_agents, env_processes, **settings)
    return tools.InGraphBatchEnv(tools.BatchEnv(envs))


def define_simulation_graph(
    batch_env: Any, eval_env: Any, config: AttrDict
) -> AttrDict:
    """Build the algorithm of a configuration and the operations of its phases.

    Args:
        batch_env: Environments to train in, see `InGraphBatchEnv`.
        eval_env: Environments to evaluate in.
        config: Settings.

    Returns:
        Dictionary of `algo`, the operations `train` and `eval` for a `Loop`,
        the function `restart`, and the `variables` of a checkpoint by name.
    """
    from agents.algorithms.actor import Actor
    from agents.scripts import networks
    from agents.tools import simulation, weights
    from agents.tools.backend import SECOND_DEVICE, tf

    # A function that is compiled as a whole is on one device.
    critic_device = None if batch_env.compiled else SECOND_DEVICE
    spaces = batch_env.observation_space, batch_env.action_space
    algo = algorithms.find(config.algorithm)(
        networks.define(*spaces, config, critic_device),
        *spaces,
        len(batch_env),
        config,
        critic_device,
    )
    actor = Actor(algo.policy, len(eval_env))
    scores = simulation.EpisodeScores(len(batch_env))
    eval_scores = simulation.EpisodeScores(len(eval_env))

    @tf.function(autograph=False)
    def rollout():
        simulation.rollout(batch_env, algo, scores, config.update_every)

    def train():
        rollout()
        return {**algo.update(), **scores.clear()}

    @tf.function(autograph=False, jit_compile=eval_env.compiled)
    def evaluate() -> dict[str, tf.Tensor]:
        simulation.evaluation(eval_env, actor, eval_scores, config.max_length)
        return eval_scores.clear()

    def restart() -> None:
        batch_env.reset()
        scores.restart()
        algo.restart()

    return AttrDict(
        algo=algo,
        train=lambda reset: _call(train, batch_env),
        eval=lambda reset: _call(evaluate, eval_env),
        restart=restart,
        variables=weights.named_variables({'algo': algo, 'scores': scores}),
    )


def _call(operation: Callable[[], Mapping[str, Any]], batch_env: Any) -> dict:
    """Run an operation, or raise what an environment raised within it."""
    before = batch_env.seconds
    try:
        results = operation()
    except Exception:
        failure = batch_env.failure()
        if failure is None:
            raise
        raise failure from None
    numbers = {name: float(value) for name, value in results.items()}
    numbers['env_seconds'] = batch_env.seconds - before
    numbers['update_seconds'] = time.perf_counter() - batch_env.replied
    return numbers
