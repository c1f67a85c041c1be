"""The command `agents`: what there is to do before, during and after training.

agents train --config=pendulum
agents --help
"""

import argparse
import importlib
import sys
from collections.abc import Sequence

import agents
from agents import systems
from agents.scripts import options
from agents.tools import errors

# Commands by what people do, each with the module whose `main` it is and what
# it does. A module is imported when its command is asked for.
COMMANDS = {
    'before training': {
        'configs': ('config_list', 'list the configs that there are, or the settings of one'),
        'check': ('check', 'look an environment over: contract, speed, scores'),
    },
    'training': {
        'train': ('train', 'train a policy, or go on with a run'),
        'sweep': ('sweep', 'train several: seeds, settings, or a search'),
    },
    'after training': {
        'evaluate': ('evaluate', 'play episodes and tell their scores'),
        'plot': ('plot', 'draw how one or several runs have learnt'),
        'visualize': ('visualize', 'make videos of a policy'),
        'record': ('record', 'record episodes for others to learn from'),
        'export': ('export', 'write a policy that needs no agents to run'),
    },
}

EXIT_CODES = {
    '0': 'it is done',
    '1': 'a mistake, which one line tells; of check, something is wrong',
    '2': 'options that there are not; of check, nothing to check',
    '128+N': 'ended by signal N; 130 is Ctrl-C',
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code."""
    systems.end_silently()
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    parser = options.Parser(
        prog='agents',
        description='Train policies on batches of Gymnasium environments, and '
        'see what they have learnt.',
        epilog=_list_commands(),
        usage='agents COMMAND [options]',
    )
    parser.add_argument('--version', action='version', version=f'agents {agents.__version__}')
    parser.add_argument('command', nargs='?', help=argparse.SUPPRESS)
    given = parser.parse(arguments[:1])
    if given.command is None:
        parser.print_help()
        return 0
    modules = {name: module for group in COMMANDS.values() for name, (module, _) in group.items()}
    if given.command not in modules:
        near = errors.nearest(given.command, modules)
        parser.error(f'there is no command {given.command!r}{near}')
    module = importlib.import_module(f'agents.scripts.{modules[given.command]}')
    return module.main(arguments[1:])


def run() -> int:
    """Run a command as the whole process; returns its exit code."""
    code = main()
    from agents.terminal import interrupts

    return interrupts.limit_exit(code)


def _list_commands() -> str:
    parts = []
    for title, group in COMMANDS.items():
        parts.append(f'{title}:')
        parts += [f'  {name:<11}{text}' for name, (_, text) in group.items()]
        parts.append('')
    parts.append('`agents COMMAND --help` tells its options, with examples.')
    parts += ['', 'exit codes:']
    parts += [f'  {code:<11}{text}' for code, text in EXIT_CODES.items()]
    return '\n'.join(parts)


if __name__ == '__main__':
    sys.exit(run())
