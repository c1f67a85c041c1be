"""Command `agents`, which runs all others.

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

# Commands by stage of the work, each with the module of its `main` and its help.
COMMANDS = {
    'before training': {
        'configs': ('config_list', 'list the configs, or the settings of one'),
        'check': ('check', 'check an environment: API, speed, scores'),
    },
    'training': {
        'train': ('train', 'train a policy, or resume a run'),
        'sweep': ('sweep', 'train several times: seeds, a grid, or a search'),
    },
    'after training': {
        'evaluate': ('evaluate', 'play episodes and print their scores'),
        'plot': ('plot', 'plot learning curves'),
        'visualize': ('visualize', 'make videos of a policy'),
        'record': ('record', 'record episodes as demonstrations'),
        'export': ('export', 'export a policy for use without this package'),
    },
}

EXIT_CODES = {
    '0': 'success',
    '1': 'user error, printed in one line; for check, problems found',
    '2': 'invalid options; for check, nothing to check',
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
    parts.append('`agents COMMAND --help` lists its options, with examples.')
    parts += ['', 'exit codes:']
    parts += [f'  {code:<11}{text}' for code, text in EXIT_CODES.items()]
    return '\n'.join(parts)


if __name__ == '__main__':
    sys.exit(run())
