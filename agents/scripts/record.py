"""Records episodes of a trained policy as demonstrations.

agents record --logdir logdir/ant --outfile demos.npz --num_episodes 4

See `agents.tools.runs.demonstrations` for the format of the file.
"""

import argparse
import sys
from collections.abc import Sequence

if __name__ == '__main__':  # Before what takes long to import.
    from agents import systems

    systems.end_silently()

import numpy as np

from agents.policies.recording import record
from agents.scripts import options
from agents.terminal import console, interrupts
from agents.tools.runs.demonstrations import Demonstrations
from agents.training import experiments


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    given = _parse(arguments)

    def command() -> None:
        code = experiments.find_for_run(given.config, given.env, given.trust)
        played = record(
            given.logdir,
            given.outfile,
            given.num_episodes,
            given.checkpoint,
            deterministic=not given.sample,
            env_processes=given.env_processes,
            changes=given.set,
            **code,
        )
        _tell(given.outfile, played, console.on_terminal(not given.quiet))

    return interrupts.run(command, given.quiet)


def _tell(outfile: str, played: Demonstrations, terminal: console.Console) -> None:
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
        description='Record episodes of a trained policy as demonstrations.',
        examples=[
            'agents record --logdir logdir/ant --outfile demos.npz',
            'agents train --config=ant_trpo --set rewards=airl --set demonstrations=demos.npz',
        ],
    )
    parser.add_run()
    parser.add_argument('--outfile', required=True, metavar='FILE', help='file to write (.npz)')
    parser.add_argument(
        '--num_episodes', type=int, default=4, metavar='N', help='number of episodes (4)'
    )
    parser.add_sample()
    parser.add_functions()
    parser.add_set()
    parser.add_env_processes()
    parser.add_quiet()
    return parser.parse(arguments)


if __name__ == '__main__':
    sys.exit(main())
