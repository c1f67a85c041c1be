"""Makes videos of a trained policy, and a plot of its learning curve.

agents visualize --logdir logdir/ant
"""

import argparse
import pathlib
import sys
from collections.abc import Sequence

if __name__ == '__main__':  # Before what takes long to import.
    from agents import systems

    systems.end_silently()


from agents.policies.video import visualize
from agents.scripts import options
from agents.terminal import console, interrupts
from agents.training import experiments


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    given = _parse(arguments)

    def command() -> None:
        code = experiments.find_for_run(given.config, given.env, given.trust)
        terminal = console.on_terminal(not given.quiet)

        def written(file: pathlib.Path, score: float | None) -> None:
            told = '' if score is None else f'  score {console.score(score)}'
            terminal.print(f'{file}{told}')

        visualize(
            given.logdir,
            given.outdir,
            given.num_agents,
            given.num_episodes,
            given.checkpoint,
            env_processes=given.env_processes,
            changes=given.set,
            written=written,
            **code,
        )

    return interrupts.run(command, given.quiet)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = options.Parser(
        prog='agents visualize',
        description='Make videos of a trained policy and plot its learning curve.',
        examples=[
            'agents visualize --logdir logdir/ant',
            'agents visualize --logdir logdir/ant --checkpoint=best '
            '--num_episodes=3 --outdir=videos',
            'agents visualize --logdir logdir/maze --env=my_maze.py:make_maze',
        ],
    )
    parser.add_run()
    parser.add_argument(
        '--outdir', metavar='DIRECTORY', help='directory for the files (the logdir)'
    )
    parser.add_argument(
        '--num_agents', type=int, default=1, metavar='N', help='number of environments (1)'
    )
    parser.add_argument(
        '--num_episodes', type=int, default=1, metavar='N', help='number of episodes of each (1)'
    )
    parser.add_functions()
    parser.add_set()
    parser.add_env_processes()
    parser.add_quiet()
    return parser.parse(arguments)


if __name__ == '__main__':
    sys.exit(main())
