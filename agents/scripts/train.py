"""Trains a policy.

agents train --config=pendulum
agents train --env=Ant-v5 --algorithm=ppo --name=ant
"""

import argparse
import contextlib
import functools
import pathlib
import signal
import sys
from collections.abc import Sequence

if __name__ == '__main__':  # Before what takes long to import.
    from agents import systems

    systems.end_silently()

from agents.scripts import chosen_run, config_list, options
from agents.terminal import console, interrupts, launcher
from agents.tools import errors, world
from agents.tools.world import World
from agents.training import plan, run_directory, storage
from agents.training.reporter import Reporter
from agents.training.session import Session
from agents.training.train import Training


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    given = _parse(arguments)
    if given.settings:
        find = functools.partial(chosen_run.find_settings, given)
        return config_list.print_settings(find)
    try:
        ranks = world.connect()
        if given.nprocs not in (None, ranks.size):
            return _start_ranks(given, ranks, arguments)
    except errors.UserError as error:
        if world.guess_rank() == 0:
            console.complain(str(error))
        return 1
    code, alone = _train_as_asked(given, ranks)
    if alone:
        ranks.abort(code)
    return code


def _train_as_asked(given: argparse.Namespace, ranks: World) -> tuple[int, bool]:
    """Train; returns the exit code, and whether other ranks have to be told."""
    directory = None
    shown = ranks.is_first and not given.quiet
    with (
        interrupts.Interrupts('saving', ranks, given.quiet) as signals,
        console.on_terminal(shown) as terminal,
        contextlib.ExitStack() as stack,
    ):
        try:
            directory, config = chosen_run.claim(given, terminal, stack, ranks)
            signals.call_last(terminal.close)
            unused = functools.partial(run_directory.remove_unused, directory)
            signals.call_last(unused)
            reporter = Reporter(terminal, console.process_start())
            session = Session(config, directory, given.env_processes, reporter=reporter)
            Training(session, directory).run()
        except (Exception, KeyboardInterrupt) as error:
            name = directory and chosen_run.as_given(given, directory)
            if not signals.agreed:
                late = isinstance(error, errors.ElsewhereError)
                ranks.wait_for_turn(late)
            again = None
            if directory:
                again = f'--name={directory.relative_to(given.home)}'
            code = _end(error, directory, name, again, terminal, signals)
            return code, not signals.agreed
    name = chosen_run.as_given(given, directory)
    terminal.say('done', f'see tensorboard --logdir {name}')
    return 0, False


def _end(
    error: BaseException,
    directory: pathlib.Path | None,
    name: pathlib.Path | None,
    again: str | None,
    terminal: console.Console,
    signals: interrupts.Interrupts,
) -> int:
    """Print why the training ended early; returns the exit code.

    Args:
        error: Exception that ended it.
        directory: Directory of the run, if there is one already.
        name: Directory as the user gave it.
        again: Options to resume it.
        terminal: Console.
        signals: Signal context.
    """
    stopped = isinstance(error, (errors.Cancelled, KeyboardInterrupt))
    mistake = isinstance(error, errors.UserError) and not stopped
    # What is interrupted while it is imported may raise anything.
    if not (stopped or mistake or signals.signal):
        raise error
    signals.disarm()
    terminal.close()
    step = _last_checkpoint(directory)
    saved = f'{name} is saved'
    if mistake:
        console.complain(str(error))
        saved = f'{name} has a checkpoint of step {step or 0:,}'
    if directory and step is not None:
        told = f'{saved}; {again} goes on'
        terminal.say('stopped', told, wrap=False)
    elif not mistake:
        terminal.say('stopped', 'before anything was learnt')
    if mistake:
        return 1
    return 128 + (signals.signal or signal.SIGINT)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = options.Parser(
        prog='agents train',
        description='Train a policy, in a new run or an existing one, which is resumed.',
        examples=[
            'agents train --config=pendulum',
            'agents train --config=cheetah --seed=1 --set learning_rate=1e-4',
            'agents train --env=Ant-v5 --algorithm=ppo --name=ant',
            'agents train --env=my_maze.py:make_maze --steps=200_000',
            'agents train --name=ant  # Goes on with that run.',
            'agents train --env=Ant-v5 --name=again --from=logdir/ant@best',
        ],
    )
    parser.add_experiment()
    parser.add_argument(
        '--logdir', default='./logdir', metavar='DIRECTORY', help='directory of all runs (./logdir)'
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        '--name',
        metavar='NAME',
        help='name of the run, its directory within the logdir, such as ant '
        'or robots/ant (the time and the config); one that exists is resumed, '
        'and needs no config',
    )
    which.add_argument('--timestamp', metavar='TIME', help='the same as --name=TIME-CONFIG')
    parser.add_steps()
    parser.add_argument(
        '--from',
        metavar='RUN',
        dest='begin_from',
        help='run whose weights and statistics initialize a new one: its last '
        'checkpoint, or RUN@STEP or RUN@best',
    )
    parser.add_argument(
        '--settings', action='store_true', help='print all settings with their meanings, and exit'
    )
    parser.add_trust()
    parser.add_set()
    parser.add_seed()
    parser.add_env_processes()
    parser.add_ranks()
    parser.add_quiet()
    given = parser.parse(arguments)
    if not (given.config or given.env or given.name):
        parser.error(
            'there is nothing to train: give --config or --env, or --name of a run to go on with'
        )
    if given.algorithm and (given.config or not given.env):
        parser.error('--algorithm goes with --env; a config has its own')
    # Environments may change the working directory.
    given.home = pathlib.Path(given.logdir).absolute()
    return given


def _start_ranks(given: argparse.Namespace, ranks: World, arguments: Sequence[str] | None) -> int:
    """Run the command on several ranks; returns the exit code."""
    if given.nprocs < 1:
        raise errors.ConfigError(
            f'--nprocs must be at least 1, got {given.nprocs}. Leave it out for one process.'
        )
    if ranks.size > 1:
        raise errors.ConfigError(
            f'--nprocs must be left out under a launcher, or equal its {ranks.size} '
            f'ranks, got {given.nprocs}. Leave out one of both.'
        )
    # So that a mistake is told at once, and once.
    plan.require_valid(chosen_run.find_settings(given), given.nprocs)
    as_given = sys.argv[1:] if arguments is None else arguments
    try:
        return launcher.run(given.nprocs, 'agents.scripts.train', as_given)
    finally:
        pattern = chosen_run.pattern(given)
        run_directory.remove_abandoned(given.home, pattern)


def _last_checkpoint(directory: pathlib.Path | None) -> int | None:
    with contextlib.suppress(errors.UserError):  # It was told already.
        return storage.last_checkpoint(directory)
    return None


if __name__ == '__main__':
    sys.exit(interrupts.limit_exit(main()))
