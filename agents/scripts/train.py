"""Trains a policy.

python -m agents.scripts.train --config=pendulum
"""

import argparse
import contextlib
import functools
import pathlib
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

if __name__ == '__main__':  # Before what takes long to import.
    from agents.scripts import interrupts

    interrupts.end_silently()

from agents.scripts import (
    checks,
    config_file,
    config_names,
    console,
    interrupts,
    launcher,
    options,
    overrides,
    run_directory,
    settings,
    settings_text,
    utility,
)
from agents.scripts.training import require_valid, train
from agents.tools import errors, world
from agents.tools.attr_dict import AttrDict
from agents.tools.world import World


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit code."""
    given = _parse(arguments)
    if given.settings:
        return _print_settings(given)
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


def _train_as_asked(
    given: argparse.Namespace, ranks: World
) -> tuple[int, bool]:
    """Train; returns the exit code and whether other ranks know nothing."""
    directory = None
    with (
        interrupts.Interrupts('saving', ranks) as signals,
        console.on_terminal(ranks.is_first) as terminal,
        contextlib.ExitStack() as stack,
    ):
        try:
            directory, config = _open(given, terminal, stack, ranks)
            unused = functools.partial(run_directory.remove_unused, directory)
            signals.call_last(unused)
            scores = train(
                config,
                directory,
                given.env_processes,
                terminal,
                signals,
                console.process_start(),
            )
            with contextlib.closing(scores):
                for _ in scores:
                    pass
        except (Exception, KeyboardInterrupt) as error:
            shown = directory and _as_given(given, directory)
            if not signals.agreed:
                late = isinstance(error, errors.ElsewhereError)
                ranks.wait_for_turn(late)
            code = _end(error, directory, shown, terminal, signals)
            return code, not signals.agreed
    name = _as_given(given, directory)
    terminal.say('done', f'see tensorboard --logdir {name}')
    return 0, False


def _end(
    error: BaseException,
    directory: pathlib.Path | None,
    shown: pathlib.Path | None,
    terminal: console.Console,
    signals: interrupts.Interrupts,
) -> int:
    """Tell why the training ended early; returns the exit code.

    Args:
        error: What ended it.
        directory: Directory of the run, if there is one already.
        shown: How the user calls it.
        terminal: Where to tell.
        signals: The signal that ended it, if one did.
    """
    stopped = isinstance(error, (errors.Cancelled, KeyboardInterrupt))
    mistake = isinstance(error, errors.UserError) and not stopped
    # What is interrupted while it is imported may raise anything.
    if not (stopped or mistake or signals.signal):
        raise error
    signals.disarm()
    step = _last_checkpoint(directory)
    if mistake:
        console.complain(str(error))
        if step is not None:
            what = f'{shown} has a checkpoint of step {step:,}'
            terminal.say('stopped', f'{what}; give its timestamp to go on')
        return 1
    saved = f'{shown} is saved; give its timestamp to go on'
    nothing = 'before anything was learnt'
    terminal.say('stopped', nothing if step is None else saved)
    return 128 + (signals.signal or signal.SIGINT)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = options.Parser(
        prog='agents train',
        description='Train a policy.',
        epilog=f'Configs: {", ".join(config_names.list_configs())}.',
        settings=settings.SETTINGS,
        examples=[
            'agents train --config=pendulum',
            'agents train --config=cheetah --seed=1 --set learning_rate=1e-4',
        ],
    )
    parser.add_argument(
        '--config',
        required=True,
        help='a name from configs.py, or file.py:function',
    )
    parser.add_argument(
        '--logdir', default='./logdir', help='directory of all runs (./logdir)'
    )
    parser.add_argument(
        '--timestamp',
        metavar='NAME',
        help='name of the run instead of the time; one that exists is resumed',
    )
    parser.add_argument('--seed', type=int, help='seed of everything random')
    parser.add_set()
    parser.add_argument(
        '--settings',
        action='store_true',
        help='print all settings of the config with their meanings and end',
    )
    parser.add_env_processes()
    parser.add_ranks()
    given = parser.parse(arguments)
    # Environments may change the working directory.
    given.home = pathlib.Path(given.logdir).absolute()
    return given


def _start_ranks(
    given: argparse.Namespace,
    ranks: World,
    arguments: Sequence[str] | None,
) -> int:
    """Run the command on several ranks; returns the exit code."""
    if given.nprocs < 1:
        raise errors.ConfigError(
            f'--nprocs has to be 1 or more, not {given.nprocs}.'
        )
    if ranks.size > 1:
        raise errors.ConfigError(
            f'A launcher has started {ranks.size} ranks, where --nprocs asks '
            f'for {given.nprocs}. Leave out one of both.'
        )
    # So that a mistake is told at once, and once.
    written = config_names.find_config(given.config)()
    _, changed = _change_settings(given, written, *_find_run(given))
    require_valid(changed, given.nprocs)
    as_given = sys.argv[1:] if arguments is None else arguments
    try:
        return launcher.run(given.nprocs, 'agents.scripts.train', as_given)
    finally:
        run_directory.remove_abandoned(given.home, _config_name(given))


def _open(
    given: argparse.Namespace,
    terminal: console.Console,
    stack: contextlib.ExitStack,
    ranks: World,
) -> tuple[pathlib.Path, AttrDict]:
    """The directory of the run and its settings, told on the terminal."""
    written = config_names.find_config(given.config)()
    directory, saved = _name_run(given), None
    if ranks.is_first:
        directory, saved = _find_run(given)
    # Other machines need not see the files of this one.
    saved = ranks.share(saved)
    config, changed = _change_settings(given, written, directory, saved)
    require_valid(changed, ranks.size)
    name = _config_name(given)
    if directory is None and ranks.is_first:
        directory = stack.enter_context(run_directory.claimed(given.home, name))
    directory = given.home / ranks.share(directory and directory.name)
    terminal.say('agents', f'{name}: {_title(changed)}, seed {changed.seed}')
    new = f'new run named {given.timestamp}' if given.timestamp else 'new'
    shown = _as_given(given, directory)
    terminal.say('run', f'{shown} ({new if saved is None else "resumed"})')
    if saved is not None:
        _tell_differences(config, changed, written, terminal)
    return directory, changed


def _tell_differences(
    config: AttrDict,
    changed: AttrDict,
    written: AttrDict,
    terminal: console.Console,
) -> None:
    """Tell which settings of a run are changed, and which are kept.

    Args:
        config: The settings as the run has them.
        changed: The settings as they are changed.
        written: The settings of the config that it is resumed with.
        terminal: Where to tell.
    """
    for key in config:
        old, new, other = [
            settings_text.format_value(settings[key])
            for settings in (config, changed, written)
        ]
        if config[key] != changed[key]:
            terminal.say('', f'{key}: {old} → {new}')
        elif config[key] != written[key]:
            kept = f'{key}: {old} as before, not {other}'
            terminal.say('', f'{kept}; --set changes it')


def _print_settings(given: argparse.Namespace) -> int:
    """Print the settings that a training would have; returns the exit code."""
    terminal = console.on_terminal()
    try:
        written = config_names.find_config(given.config)()
        _, changed = _change_settings(given, written, *_find_run(given))
        checks.require_settings(changed)
        config_file.require_plain(changed)
        terminal.print(settings_text.format_columns(changed, terminal.width))
    except errors.UserError as error:
        console.complain(str(error))
        return 1
    return 0


def _name_run(given: argparse.Namespace) -> pathlib.Path | None:
    """The directory that a timestamp names."""
    if not given.timestamp:
        return None
    return given.home / f'{given.timestamp}-{_config_name(given)}'


def _find_run(
    given: argparse.Namespace,
) -> tuple[pathlib.Path | None, AttrDict | None]:
    """The directory that a timestamp names, and the settings of its run."""
    directory = _name_run(given)
    if directory is None or not run_directory.is_run(directory):
        return directory, None
    return directory, config_file.load_config(directory)


def _change_settings(
    given: argparse.Namespace,
    config: AttrDict,
    directory: pathlib.Path | None,
    saved: Mapping[str, Any] | None,
) -> tuple[AttrDict, AttrDict]:
    """Settings as a run that is resumed has them, and as they are changed.

    Args:
        given: The options.
        config: The settings of the config.
        directory: Directory of the run.
        saved: What its file of settings holds, if it is resumed.
    """
    changes = [*given.set]
    if given.seed is not None:
        changes.append(f'seed={given.seed}')
    if directory and saved is not None:
        config = config_file.restore_config(
            config, directory, changes, saved=saved
        )
    return config, overrides.apply(config, changes)


def _config_name(given: argparse.Namespace) -> str:
    return given.config.rpartition(':')[2]


def _as_given(
    given: argparse.Namespace, directory: pathlib.Path
) -> pathlib.Path:
    """The directory of a run as the user has named the one it is in."""
    return pathlib.Path(given.logdir) / directory.relative_to(given.home)


def _last_checkpoint(directory: pathlib.Path | None) -> int | None:
    with contextlib.suppress(errors.UserError):  # It was told already.
        return utility.last_checkpoint(directory)
    return None


def _title(config: AttrDict) -> str:
    env = getattr(config.env, '__name__', config.env)
    title = f'{config.algorithm.upper().replace("_", " ")} on {env}'
    if config.demonstrations is None:
        return title
    shown = settings_text.format_value(config.demonstrations)
    return f'{title}, as shown in {shown}'


if __name__ == '__main__':
    sys.exit(main())
