"""Records episodes of a trained policy, for others to learn from."""

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from agents.policies import playing
from agents.tools import errors, nested
from agents.tools.attr_dict import AttrDict
from agents.tools.runs import demonstrations, files
from agents.tools.runs.demonstrations import Demonstrations

# How many episodes are played at the same time, at most.
MOST_AGENTS = 16


def record(
    logdir: str | pathlib.Path,
    outfile: str | pathlib.Path,
    num_episodes: int = 4,
    checkpoint: int | str | None = None,
    config: AttrDict | None = None,
    deterministic: bool = True,
    env_processes: bool | None = None,
    changes: Sequence[str] = (),
    env: Any = None,
    trust: bool = False,
) -> Demonstrations:
    """Record episodes of a run's policy in a file, to learn from.

    Args:
        logdir: Directory of the run.
        outfile: The file.
        num_episodes: How many episodes.
        checkpoint: Training step of a checkpoint, or 'best'; by default the
            last.
        config: The configuration, where functions of it cannot be found again.
        deterministic: Take the most probable actions rather than sample.
        env_processes: Whether environments have processes of their own, None
            for where that is quicker.
        changes: Texts `key=value` that replace settings.
        env: Environment to play in instead of that of the run: a name, or a
            class or function.
        trust: Whether to run code that the run names though this user has not
            signed it on this machine.

    Returns:
        The recorded steps, with `scores` and `lengths` of the episodes.
    """
    # Environments may change the working directory.
    logdir, file = pathlib.Path(logdir).absolute(), files.place(outfile)
    most = playing.MOST_EPISODES
    errors.require_integer('num_episodes', num_episodes, 1, most)
    run = playing.open_run(logdir, checkpoint, config, changes, env, trust)
    num_agents = min(num_episodes, MOST_AGENTS)
    with run.start(num_agents, env_processes) as (batch_env, policy):
        played = _collect(batch_env, policy, num_episodes, deterministic)
        spaces = batch_env.observation_space, batch_env.action_space
    demonstrations.write(file, played, *spaces)
    return played


def _collect(batch_env: Any, policy: Any, num_episodes: int, deterministic: bool) -> Demonstrations:
    """Play episodes and collect their steps, agent by agent."""
    episodes: list[list[list[Any]]] = [[[]] for _ in range(len(batch_env))]
    for step in playing.play(batch_env, policy, num_episodes, deterministic):
        # The first fields are those of demonstrations.
        kept = Demonstrations(*step[: len(Demonstrations._fields)])
        for agent in np.flatnonzero(step.counts).tolist():
            if step.lost[agent]:
                episodes[agent][-1] = []
                continue
            row = nested.map(lambda x, agent=agent: x[agent].copy(), kept)
            episodes[agent][-1].append(row)
            if step.done[agent]:
                episodes[agent].append([])
    whole = [rows for parts in episodes for part in parts[:-1] for rows in part]
    return nested.map(lambda *leaves: np.stack(leaves), *whole)
