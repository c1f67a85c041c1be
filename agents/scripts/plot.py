"""Plots learning curves: of one run, several, or groups of seeds.

agents plot logdir/ant --outfile curves.png
agents plot logdir --by learning_rate
"""

import argparse
import sys
from collections.abc import Sequence

if __name__ == '__main__':  # Before what takes long to import.
    from agents import systems

    systems.end_silently()


from agents.analysis import drawing
from agents.analysis.plotting import AXES, BOTH, PHASES, STATISTICS, plot
from agents.scripts import options
from agents.terminal import console, interrupts
from agents.tools import errors
from agents.tools.runs import curves


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    given = _parse(arguments)

    def command() -> None:
        made = plot(
            given.runs,
            given.outfile,
            given.axis,
            given.phase,
            given.by,
            given.theme,
            given.title,
            given.smooth,
            given.statistic,
            given.y,
            given.labels.split(',') if given.labels else (),
        )
        terminal = console.on_terminal(not given.quiet)
        for line in made.lines(terminal.width):
            terminal.print(line)
        for note in made.notes:
            terminal.say('note', errors.escape(note))
        terminal.say('plot', str(made.file))

    return interrupts.run(command, given.quiet)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = options.Parser(
        prog='agents plot',
        description='Plot learning curves, with a panel for each '
        'environment. Runs with the same settings but the seed are one line, '
        'with a 95% bootstrap interval over the seeds; a single run has the '
        'standard deviation over its episodes.',
        examples=[
            'agents plot logdir/20261119T120000-pendulum',
            'agents plot logdir --outfile curves.svg --theme dark',
            'agents plot logdir --by learning_rate --statistic iqm',
            'agents plot logdir/ant logdir/ant_trpo --y kl --labels PPO,TRPO',
        ],
    )
    parser.add_argument(
        'runs', nargs='+', metavar='RUN', help='directory of a run, or one that contains runs'
    )
    parser.add_argument(
        '--outfile',
        default='curves.png',
        metavar='FILE',
        help='file to write, .png or .svg (curves.png)',
    )
    parser.add_argument(
        '--axis',
        choices=AXES,
        default='steps',
        metavar='AXIS',
        help='horizontal axis, steps or seconds (steps)',
    )
    parser.add_argument(
        '--phase',
        choices=[*PHASES, BOTH],
        metavar='PHASE',
        help='phase of the values, eval, train or both (eval, or train for a column '
        'that evaluations do not have)',
    )
    parser.add_argument(
        '--y',
        default=curves.SCORE,
        metavar='COLUMN',
        help='column of progress.csv to draw, such as kl or length (score)',
    )
    parser.add_argument(
        '--labels',
        metavar='A,B',
        help='names of the lines, in the order of RUN; within a directory of '
        'several runs, in the order of their names (named after the config, '
        'or after settings that differ)',
    )
    parser.add_argument(
        '--by',
        default='config',
        metavar='WHAT',
        help='grouping of runs: config, which is all settings but the seed, '
        'run, seed, or a setting (config)',
    )
    parser.add_argument(
        '--theme',
        choices=list(drawing.THEMES),
        default='light',
        metavar='THEME',
        help='colors, light or dark (light)',
    )
    parser.add_argument('--title', metavar='TEXT', help='title')
    parser.add_argument(
        '--smooth', type=int, default=1, metavar='N', help='moving average over N reports (1)'
    )
    parser.add_argument(
        '--statistic',
        choices=list(STATISTICS),
        default='mean',
        metavar='NAME',
        help='statistic of several runs: mean, median or iqm, the interquartile mean (mean)',
    )
    parser.add_quiet()
    return parser.parse(arguments)


if __name__ == '__main__':
    sys.exit(main())
