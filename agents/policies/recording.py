"""Recording of demonstrations."""

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
    """Record episodes of the policy of a run in a file, as demonstrations.

    Args:
        logdir: Directory of the run.
        outfile: File to write.
        num_episodes: Number of episodes.
        checkpoint: Training step of a checkpoint, or 'best'; by default the last.
        config: Configuration, if its functions cannot be found again.
        deterministic: Take the most probable actions instead of sampling.
        env_processes: Use worker processes, None for whichever is faster.
        changes: Texts `key=value` that replace settings.
        env: Environment instead of that of the run: a name, or a class or function.
        trust: Run code that the run names though this user has not signed it on this machine.

    Returns:
        Recorded steps, with `scores` and `lengths` of the episodes.
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
