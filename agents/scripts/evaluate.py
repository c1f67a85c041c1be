"""Evaluates a trained policy.

agents evaluate --logdir logdir/ant --num_episodes 100
"""

import argparse
import sys
from collections.abc import Sequence

if __name__ == '__main__':  # Before what takes long to import.
    from agents import systems

    systems.end_silently()


from agents.policies.evaluation import STDOUT, evaluate
from agents.scripts import options
from agents.terminal import console, interrupts
from agents.tools.runs import files
from agents.training import experiments


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    given = _parse(arguments)

    def command() -> None:
        in_place = given.json == STDOUT
        file = files.place(given.json) if given.json and not in_place else None
        code = experiments.find_for_run(given.config, given.env, given.trust)
        evaluation = evaluate(
            given.logdir,
            given.num_episodes,
            given.checkpoint,
            deterministic=not given.sample,
            seed=given.seed,
            env_processes=given.env_processes,
            changes=given.set,
            **code,
        )
        terminal = console.on_terminal()
        terminal.print(evaluation.to_json() if in_place else str(evaluation))
        if file:  # Last, as it may be refused.
            files.write(file, f'{evaluation.to_json()}\n'.encode())

    return interrupts.run(command, given.quiet)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = options.Parser(
        prog='agents evaluate',
        description='Play episodes with a trained policy and print the scores.',
        examples=[
            'agents evaluate --logdir logdir/ant',
            'agents evaluate --logdir RUN --num_episodes 1000 --sample',
            'agents evaluate --logdir RUN --checkpoint best --json -',
        ],
    )
    parser.add_run()
    parser.add_argument(
        '--num_episodes', type=int, default=100, metavar='N', help='number of episodes (100)'
    )
    parser.add_argument(
        '--json',
        metavar='FILE',
        help='file to write scores and lengths to; - prints them instead of the table',
    )
    parser.add_sample()
    parser.add_functions()
    parser.add_set()
    parser.add_seed()
    parser.add_env_processes()
    parser.add_quiet('print the scores and errors only')
    return parser.parse(arguments)


if __name__ == '__main__':
    sys.exit(main())
