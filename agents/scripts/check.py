"""Checks an environment before training.

agents check --env CartPole-v1
agents check --env my_maze.py:make_maze

Steps it with random actions, in a process of its own, and prints its observations, speed and
scores, violations of the API of Gymnasium, whether a seed repeats it, and the networks of a policy
for it. Exits with 0 if nothing is wrong, with 1 if something is, and with 2 if there is nothing to
check.
"""

import argparse
import shlex
import sys
from collections.abc import Sequence

if __name__ == '__main__':  # Before what takes long to import.
    from agents import systems

    systems.end_silently()


from agents.config import overrides
from agents.scripts import options
from agents.terminal import console, interrupts
from agents.tools import errors
from agents.tools.checking.inspection_report import Breach
from agents.training import experiments
from agents.training.check_env import SECONDS, TRAIN, as_trained, check_config
from agents.training.experiments import Experiment


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    given = _parse(arguments)
    breaches: list[Breach] = []

    def command() -> None:
        with console.on_terminal() as terminal:
            interrupts.current().call_last(terminal.close)

            def progress(step: int) -> None:
                share = step / given.steps
                text = f'step {step:,} of {given.steps:,}'
                view = console.View('checking', text, share)
                if not given.quiet:
                    terminal.show(lambda: view)

            experiment, train = _find(given)
            config = overrides.apply(experiment.config, given.set)
            seed = config.seed if given.seed is None else given.seed
            found = check_config(config, given.steps, seed, train, progress, given.seconds)
            found = as_trained(found, experiment, given.set)
            terminal.close()
            for line in found.lines(terminal.width, given.quiet):
                terminal.print(errors.escape(line))
            breaches.extend(found.breaches)

    code = interrupts.run(command, given.quiet, mistake=2)
    return code or (1 if breaches else 0)


def _find(given: argparse.Namespace) -> tuple[Experiment, list[str]]:
    """Return the settings, and the command to train with them."""
    # The check makes the environment itself, and sees its observations.
    experiment = experiments.find(given.config, given.env, look=False)
    shown = [
        f'--{option}={value}'
        for option, value in (('config', given.config), ('env', given.env))
        if value
    ]
    changed = [f'--set {shlex.quote(text)}' for text in given.set]
    return experiment, [' '.join([TRAIN, *shown, *changed])]


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = options.Parser(
        prog='agents check',
        description='Check an environment before training: ranges of its numbers, speed, '
        'violations of the API of Gymnasium, and whether a seed repeats it.',
        examples=[
            'agents check --env=CartPole-v1',
            'agents check --env=my_maze.py:make_maze --steps=10_000',
            "agents check --env=my_maze.py:Maze --set 'env_kwargs={size: 9}'",
        ],
    )
    parser.add_experiment(algorithm=False)
    parser.add_argument(
        '--steps', type=int, default=2000, metavar='N', help='number of steps (2000)'
    )
    parser.add_argument(
        '--seconds',
        type=float,
        default=SECONDS,
        metavar='S',
        help=f'time limit ({SECONDS:g})',
    )
    parser.add_set()
    parser.add_seed()
    parser.add_quiet('print only what is wrong')
    given = parser.parse(arguments)
    if not (given.config or given.env):
        parser.error('there is nothing to check: give --env or --config')
    return given


if __name__ == '__main__':
    sys.exit(main())
