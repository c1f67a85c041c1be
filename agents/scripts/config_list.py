"""Lists the configs, or all settings of one.

agents configs
agents configs pendulum
"""

import argparse
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence

from agents.config import lookup
from agents.scripts import configs, options
from agents.terminal import console
from agents.tools import errors
from agents.tools.attr_dict import AttrDict


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    given = _parse(arguments)
    if given.config:
        return print_settings(lambda: _find(given))
    terminal = console.on_terminal()
    names = lookup.list_configs()
    for line in names if given.quiet else list_lines(terminal.width):
        terminal.print(line)
    return 0


def print_settings(find: Callable[[], AttrDict]) -> int:
    """Print all settings of a config; returns the exit code."""
    from agents.config import checks, render, store

    terminal = console.on_terminal()
    try:
        config = find()
        checks.require_settings(config)
        store.require_plain(config)
        terminal.print(render.format_columns(config, terminal.width))
    except errors.UserError as error:
        console.complain(str(error))
        return 1
    return 0


def list_lines(width: int | None = None) -> Iterator[str]:
    """Format configs by environment: name, algorithm, steps and description.

    Args:
        width: Width of the terminal; by default each config is one line.
    """
    names = lookup.list_configs()
    made = {name: getattr(configs, name)() for name in names}
    name_width = max(map(len, names))
    for env in dict.fromkeys(config.env for config in made.values()):
        yield str(env)
        for name, config in made.items():
            if config.env == env:
                algorithm = configs.algorithm_of(config)
                row = f'  {name:<{name_width}}  {algorithm:<17}  {config.steps:>10,} steps'
                yield from _append(row, _first_line(name), width)
    yield ''
    yield from textwrap.wrap(
        '`agents configs NAME` prints the settings of one, and `agents train '
        '--config=NAME` trains with them.',
        width or 80,
    )


def _first_line(name: str) -> str:
    return (inspect.getdoc(getattr(configs, name)) or '').partition('\n')[0]


def _append(row: str, text: str, width: int | None) -> Iterator[str]:
    """Append a text to a row, or put it below if there is no room."""
    if not text:
        yield row
    elif not width or len(row) + 2 + len(text) <= width:
        yield f'{row}  {text}'
    else:
        yield row
        indent = ' ' * 4
        yield from textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent)


def _find(given: argparse.Namespace) -> AttrDict:
    from agents.config import overrides

    config = lookup.find_config(given.config)()
    return overrides.apply(config, given.set)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = options.Parser(
        prog='agents configs',
        description='List the configs by environment, or all settings of one with their meanings.',
        examples=[
            'agents configs',
            'agents configs cheetah',
            'agents configs my_configs.py:lander',
        ],
    )
    parser.add_argument(
        'config',
        nargs='?',
        metavar='NAME',
        help='config whose settings are printed, or file.py:function',
    )
    parser.add_set()
    parser.add_quiet('print names only')
    return parser.parse(arguments)


if __name__ == '__main__':
    sys.exit(main())
