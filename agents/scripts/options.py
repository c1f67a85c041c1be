"""Option parser of the commands.

Options of several commands are added by methods, so that they are the same everywhere. Their order
in a help is: the subject (a run, or what to train), options of the command alone, and then
`add_functions`, `add_set`, `add_steps`, `add_seed`, `add_env_processes`, `add_ranks` and
`add_quiet`.
"""

import argparse
import difflib
import os
import shutil
import textwrap
from collections.abc import Collection, Sequence
from typing import NoReturn

from agents.config.settings import SETTINGS, SYNONYMS
from agents.tools.runs import checkpoints

# How alike a name and what it is taken for are at least.
LIKENESS = 0.6


class Parser(argparse.ArgumentParser):
    """Parses options without abbreviations, and suggests the closest for unknown ones.

    Args:
        prog: Name of the command.
        description: Description.
        epilog: End of the help.
        examples: Examples in the help.
        usage: Usage line, by default with all options.
    """

    def __init__(
        self,
        prog: str,
        description: str,
        epilog: str | None = None,
        examples: Sequence[str] = (),
        usage: str | None = None,
    ):
        shown = 'examples:' + ''.join(f'\n  {each}' for each in examples)
        parts = [shown if examples else None, epilog]
        super().__init__(
            prog,
            usage,
            description=_wrap(description),
            epilog='\n\n'.join(filter(None, parts)) or None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self._settings: Collection[str] = ()

    def parse(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """Parse arguments, by default those of the command line."""
        options, unknown = self.parse_known_args(arguments)
        if unknown:
            self._refuse(unknown)
        for action in self._actions:
            if getattr(options, action.dest, None) == '':
                name = ''.join(action.option_strings[-1:]) or action.metavar
                self.error(f'argument {name} must not be empty')
        try:
            os.getcwd()
        except OSError:
            self.exit(
                1,
                'error: The working directory must exist, but it has been '
                'removed. Change to another one.\n',
            )
        return options

    def add_run(self) -> None:
        """Add the options that choose a run and a checkpoint."""
        self.add_argument('--logdir', required=True, metavar='RUN', help='directory of the run')
        self.add_argument(
            '--checkpoint',
            type=_parse_checkpoint,
            metavar='STEP',
            help='training step of a checkpoint, or best (the last)',
        )

    def add_experiment(self, algorithm: bool = True) -> None:
        """Add the options that choose what to train, see `experiments.find`.

        Args:
            algorithm: Whether to add the option for the algorithm.
        """
        self.add_argument(
            '--config', metavar='NAME', help='config of `agents configs`, or file.py:function'
        )
        self.add_argument(
            '--env',
            metavar='ENV',
            help='environment instead of that of the config, or without a config: '
            'an Id, module:Id, or file.py:function, which makes it',
        )
        if algorithm:
            self.add_argument(
                '--algorithm', metavar='NAME', help='algorithm if there is no config (ppo)'
            )

    def add_sample(self) -> None:
        """Add the option to sample actions."""
        self.add_argument(
            '--sample',
            action='store_true',
            help='sample actions instead of taking the most probable ones',
        )

    def add_functions(self) -> None:
        """Add the options for functions and the environment of a run.

        See `experiments.find_for_run`.
        """
        self.add_argument(
            '--config',
            metavar='NAME',
            help='config with the functions of the run, if they cannot be found again',
        )
        self.add_argument(
            '--env', metavar='ENV', help='environment to play in, instead of that of the run'
        )
        self.add_trust()

    def add_trust(self) -> None:
        """Add the option to run code that an unsigned run names, see `trust`."""
        self.add_argument(
            '--trust',
            action='store_true',
            help='run code that a run or sweep names though you have not signed it on this machine',
        )

    def add_set(self) -> None:
        """Add the option that replaces settings, see `overrides`.

        An unknown option that resembles a setting is refused with that hint.
        """
        self._settings = SETTINGS
        self.add_argument(
            '--set',
            action='append',
            default=[],
            metavar='KEY=VALUE',
            help='replace a setting of the config; repeatable',
        )

    def add_steps(self) -> None:
        self.add_argument(
            '--steps',
            metavar='N',
            help='training steps of all agents together (those of the config)',
        )

    def add_seed(self) -> None:
        self.add_argument('--seed', type=int, metavar='N', help='random seed (that of the config)')

    def add_quiet(self, text: str = 'print errors only') -> None:
        """Add the option that silences progress.

        Args:
            text: Output that remains.
        """
        self.add_argument('--quiet', action='store_true', help=text)

    def add_env_processes(self) -> None:
        """Add the options for worker processes."""
        self.add_argument(
            '--env_processes',
            action='store_true',
            default=None,
            help='step environments in worker processes (the default unless a '
            'step takes only some microseconds)',
        )
        self.add_argument(
            '--noenv_processes',
            action='store_false',
            dest='env_processes',
            help='step environments in this process',
        )

    def add_ranks(self) -> None:
        """Add the option for several ranks, see `launcher`."""
        self.add_argument(
            '--nprocs',
            type=int,
            metavar='N',
            help='train on N ranks, see the setting distribute; the same as '
            'mpiexec -n N before the command',
        )

    def _refuse(self, unknown: Sequence[str]) -> NoReturn:
        text = f'unrecognized arguments: {" ".join(unknown)}'
        option, equals, value = unknown[0].partition('=')
        name = option.lstrip('-').replace('-', '_').lower()
        meant = SYNONYMS.get(name, name)
        # Of equally near ones, max takes the first: a setting.
        near = max(
            [*self._settings, *self._option_string_actions],
            key=lambda each: _likeness(each.lstrip('-'), meant),
        )
        if not option.startswith('-'):
            near = ''
        value = value if equals else ' '.join(unknown[1:2]) or 'VALUE'
        if near in self._settings and near == name:
            text += f'; it is a setting: --set {name}={value}'
        elif near and _likeness(near.lstrip('-'), meant) > LIKENESS:
            is_setting = near in self._settings
            near = f'--set {near}={value}' if is_setting else near
            text += f'; did you mean {near}?'
        self.error(text)


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()


def _parse_checkpoint(text: str) -> int | str:
    if text == checkpoints.BEST:
        return text
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f'{text!r} is neither a training step nor {checkpoints.BEST}'
        ) from None


def _wrap(text: str) -> str:
    return textwrap.fill(text, shutil.get_terminal_size().columns - 2)
