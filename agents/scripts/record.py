"""Records episodes of a trained policy, for others to learn from.

agents record --logdir logdir/ant --outfile demos.npz --num_episodes 4

See `agents.tools.runs.demonstrations` for what the file holds.
"""

import argparse
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

if __name__ == '__main__':  # Before what takes long to import.
    from agents import systems

    systems.end_silently()

import numpy as np

from agents.config import overrides, store
from agents.policies import playing
from agents.scripts import options
from agents.terminal import console, interrupts
from agents.tools import errors, nested
from agents.tools.attr_dict import AttrDict
from agents.tools.runs import demonstrations, files
from agents.tools.runs.demonstrations import Demonstrations
from agents.training import experiments


def record(
    logdir: str | pathlib.Path,
    outfile: str | pathlib.Path,
    num_episodes: int = 4,
    checkpoint: int | str | None = None,
    config: AttrDict | None = None,
    deterministic: bool = True,
    env_processes: bool | None = None,
    changes: Sequence[str] = (),
    signals: interrupts.Interrupts | None = None,
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
        signals: Where signals are heard, by default nowhere.
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
    config = store.restore_config(
        config, logdir, changes, env=env, trusted=trust
    )
    changed = overrides.apply(config, changes)
    num_agents = min(num_episodes, playing.MOST_AGENTS)
    with playing.opened(
        logdir,
        config,
        changed,
        num_agents,
        checkpoint,
        env_processes,
        signals,
    ) as (batch_env, policy):
        played = _collect(batch_env, policy, num_episodes, deterministic)
        spaces = batch_env.observation_space, batch_env.action_space
    demonstrations.write(file, played, *spaces)
    return played


def _collect(
    batch_env: Any, policy: Any, num_episodes: int, deterministic: bool
) -> Demonstrations:
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    given = _parse(arguments)

    def command(signals: interrupts.Interrupts) -> None:
        code = experiments.find_for_run(given.config, given.env, given.trust)
        played = record(
            given.logdir,
            given.outfile,
            given.num_episodes,
            given.checkpoint,
            deterministic=not given.sample,
            env_processes=given.env_processes,
            changes=given.set,
            signals=signals,
            **code,
        )
        _tell(given.outfile, played, console.on_terminal(not given.quiet))

    return interrupts.run(command, given.quiet)


def _tell(
    outfile: str, played: Demonstrations, terminal: console.Console
) -> None:
    """Print what was played and where it is."""
    pairs = zip(played.scores, played.lengths, strict=True)
    for number, (score, length) in enumerate(pairs):
        told = f'score {console.score(score)}  steps {length}'
        terminal.print(f'episode {number}  {told}')
    scores = np.array(played.scores)
    mean, std = scores.mean(), scores.std()
    told = f'{console.score(mean)} ± {console.score(std, mean)}'
    terminal.print(f'{outfile}  score {told}')


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = options.Parser(
        prog='agents record',
        description='Record episodes of a trained policy, for others to learn '
        'from.',
        examples=[
            'agents record --logdir logdir/ant --outfile demos.npz',
            'agents train --config=ant_trpo --set rewards=airl '
            '--set demonstrations=demos.npz',
        ],
    )
    parser.add_run()
    parser.add_argument(
        '--outfile',
        required=True,
        metavar='FILE',
        help='file to write (.npz)',
    )
    parser.add_argument(
        '--num_episodes',
        type=int,
        default=4,
        metavar='N',
        help='how many episodes (4)',
    )
    parser.add_sample()
    parser.add_functions()
    parser.add_set()
    parser.add_env_processes()
    parser.add_quiet()
    return parser.parse(arguments)


if __name__ == '__main__':
    sys.exit(main())
