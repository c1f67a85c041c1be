"""Trains several times: with several seeds, a grid of settings, or a search.

agents sweep --config=cartpole_native --seeds=0..7
agents sweep --config=pendulum --grid learning_rate=1e-3,3e-4 --seeds=0..4
"""

import argparse
import sys
from collections.abc import Sequence

if __name__ == '__main__':  # Before what takes long to import.
    from agents import systems

    systems.end_silently()

from agents.config import overrides
from agents.scripts import options
from agents.sweeps import sweep_plan
from agents.sweeps.run_sweep import sweep
from agents.sweeps.trials import Trial
from agents.terminal import console, interrupts


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    given = _parse(arguments)
    failed: list[Trial] = []
    changes = [*given.set]
    if given.steps is not None:
        changes.append(f'steps={given.steps}')

    def command() -> None:
        with console.on_terminal(not given.quiet) as terminal:
            made = sweep(
                given.config,
                sweep_plan.parse_seeds(given.seeds) if given.seeds else None,
                dict(overrides.split(text, '--grid') for text in given.grid),
                sweep_plan.parse_search(given.search) if given.search else None,
                given.trials,
                given.jobs,
                given.logdir,
                given.name,
                changes,
                given.env,
                given.algorithm,
                terminal,
                given.trust,
            )
            failed.extend(made.failed)

    code = interrupts.run(command, given.quiet)
    return code or (1 if failed else 0)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = options.Parser(
        prog='agents sweep',
        description='Train several times, in parallel processes: with several seeds, '
        'a grid of settings, or a search for good ones. Run it again to resume '
        'it after an interruption.',
        examples=[
            'agents sweep --config=cartpole_native --seeds=0..7',
            'agents sweep --config=pendulum --seeds=0..4 --grid '
            'learning_rate=1e-3,3e-4 clip_range=0.1,0.2',
            'agents sweep --env=Ant-v5 --trials=30 --search '
            'learning_rate=log:1e-5..1e-2 discount=0.98..0.999',
            'agents sweep --logdir=logdir/sweep-pendulum  # Goes on.',
        ],
    )
    parser.add_experiment()
    parser.add_argument(
        '--seeds',
        metavar='A..B',
        help='seeds of all settings, as 0..7 or 0,3,5 (that of the config)',
    )
    parser.add_argument(
        '--grid',
        nargs='+',
        action='extend',
        default=[],
        metavar='KEY=A,B',
        help='values of settings; all combinations are tried',
    )
    parser.add_argument(
        '--search',
        nargs='+',
        metavar='KEY=LOW..HIGH',
        help='ranges of settings to search, also as log:LOW..HIGH or A,B,C, or a '
        'YAML file of ranges; needs Optuna, agents[sweep]',
    )
    parser.add_argument(
        '--trials',
        type=int,
        default=sweep_plan.POINTS,
        metavar='N',
        help=f'number of settings that a search tries ({sweep_plan.POINTS})',
    )
    parser.add_argument(
        '--jobs', type=int, metavar='N', help='number of parallel processes (one per core)'
    )
    parser.add_argument(
        '--logdir',
        default='./logdir',
        metavar='DIRECTORY',
        help='directory of all runs (./logdir), or alone that of a sweep to resume',
    )
    parser.add_argument(
        '--name',
        metavar='NAME',
        help='name of the sweep, its directory within the logdir, such as '
        'ant or robots/ant (sweep-CONFIG)',
    )
    parser.add_trust()
    parser.add_set()
    parser.add_steps()
    parser.add_quiet()
    return parser.parse(arguments)


if __name__ == '__main__':
    sys.exit(main())
