"""Parses the options of commands and refuses those that there are not."""

import argparse
import difflib
import shutil
import textwrap
from collections.abc import Collection, Sequence
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """Parses options that are written out, and suggests the nearest.

    Args:
        prog: The command.
        description: What it does.
        epilog: What the help ends with.
        settings: Names that are not options but settings of a config.
        examples: Commands that the help shows.
    """

    def __init__(
        self,
        prog: str,
        description: str,
        epilog: str | None = None,
        settings: Collection[str] = (),
        examples: Sequence[str] = (),
    ):
        shown = 'examples:' + ''.join(f'\n  {each}' for each in examples)
        parts = [shown if examples else None, epilog and _wrap(epilog)]
        super().__init__(
            prog,
            description=_wrap(description),
            epilog='\n\n'.join(filter(None, parts)) or None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self._settings = settings

    def parse(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """Parse arguments, by default those of the command line."""
        options, unknown = self.parse_known_args(arguments)
        if unknown:
            self._refuse(unknown)
        return options

    def add_set(self) -> None:
        """Add the option that replaces settings, see `overrides`."""
        self.add_argument(
            '--set',
            action='append',
            default=[],
            metavar='KEY=VALUE',
            help='replace a setting of the config; repeatable',
        )

    def add_env_processes(self) -> None:
        """Add the options that decide where environments are stepped."""
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
            help='step them in this process',
        )

    def add_ranks(self) -> None:
        """Add the option for several processes, see `launcher`."""
        self.add_argument(
            '--nprocs',
            type=int,
            metavar='N',
            help='learn with N processes together, as the setting distribute '
            'says; the same as mpiexec -n N before the command',
        )

    def _refuse(self, unknown: Sequence[str]) -> NoReturn:
        text = f'unrecognized arguments: {" ".join(unknown)}'
        option, equals, value = unknown[0].partition('=')
        name = option.lstrip('-').replace('-', '_')
        near = difflib.get_close_matches(
            option, list(self._option_string_actions), n=1
        )
        if name in self._settings:
            given = value if equals else ' '.join(unknown[1:2]) or 'VALUE'
            text += f'; it is a setting: --set {name}={given}'
        elif near:
            text += f'; did you mean {near[0]}?'
        self.error(text)


def _wrap(text: str) -> str:
    return textwrap.fill(text, shutil.get_terminal_size().columns - 2)
