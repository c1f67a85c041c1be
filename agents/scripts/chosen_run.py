"""Run that a command line asks for: its directory and settings."""

import argparse
import contextlib
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from agents.config import overrides, plain_yaml, render, store
from agents.terminal import console
from agents.tools import errors
from agents.tools.attr_dict import AttrDict
from agents.tools.world import ALONE, World
from agents.training import env_names, experiments, plan, run_directory
from agents.training.experiments import Experiment


def claim(
    given: argparse.Namespace, terminal: console.Console, stack: contextlib.ExitStack, ranks: World
) -> tuple[pathlib.Path, AttrDict]:
    """Return the directory of the run and its settings, and print them.

    Args:
        given: Options of `agents train`.
        terminal: Console.
        stack: Removes the directory at the end if it is empty.
        ranks: All ranks.
    """
    directory, experiment, old, config = _choose(given, ranks)
    plan.require_valid(config, ranks.size)
    if directory is None and ranks.is_first:
        name = experiment.name
        directory = stack.enter_context(run_directory.claimed(given.home, name))
    share = directory and str(directory.relative_to(given.home))
    directory = given.home / ranks.share(share)
    terminal.say('agents', f'{experiment.name}: {_title(config)}, seed {config.seed}')
    if experiment.origin:
        told = f'{experiment.origin}; --settings lists them'
        terminal.say('settings', told)
    new = f'new run named {given.timestamp}' if given.timestamp else 'new'
    shown = as_given(given, directory)
    terminal.say('run', f'{shown} ({new if old is None else "resumed"})')
    if old is not None:
        written = experiment.config if given.config else old
        _tell_differences(old, config, written, terminal)
    return directory, config


def find_settings(given: argparse.Namespace) -> AttrDict:
    """Return the settings that a training would have."""
    *_, config = _choose(given, ALONE)
    return config


def pattern(given: argparse.Namespace) -> str:
    """Return a pattern for the name of the directory of the run."""
    return given.name or f'*-{_name(given)}'


def as_given(given: argparse.Namespace, directory: pathlib.Path) -> pathlib.Path:
    """Return the directory of a run relative to the one that the user gave."""
    return pathlib.Path(given.logdir) / directory.relative_to(given.home)


def _choose(
    given: argparse.Namespace, ranks: World
) -> tuple[pathlib.Path | None, Experiment, AttrDict | None, AttrDict]:
    """Find the run and its settings.

    Returns:
        Directory that is named; experiment; settings of an existing run in it, if any; and settings
        of the run to be.
    """
    directory, read = _directory(given), None
    # Other machines need not see the files of this one, nor the user's key.
    if directory and ranks.is_first and run_directory.is_run(directory):
        read = store.read(directory)
    shared = ranks.share(read)
    saved = shared and store.Saved(*shared)
    changes = _changes(given)
    if directory is None or saved is None:
        if directory and not (given.config or given.env):
            raise errors.ConfigError(
                f'There is no run {as_given(given, directory)} to go on with. '
                'A new one needs --config or --env as well.'
            )
        experiment = experiments.find(
            given.config, given.env, given.algorithm, given.env_processes is not False, changes
        )
        changed = overrides.apply(experiment.config, changes)
        return directory, experiment, None, changed
    base = experiments.find(given.config).config if given.config else None
    env = experiments.find_env(given.env) if given.env else None
    if given.name:
        asked: dict[str, Any] = {}
        if base is not None:
            asked = {'algorithm': base.algorithm, 'env': base.env}
        if env is not None:
            asked['env'] = env
        shown = as_given(given, directory)
        _require_same(shown, saved, asked, changes, given.trust)
    old = store.restore_config(base, directory, changes, (), saved, env, given.trust)
    experiment = Experiment(_name(given), old if base is None else base)
    return directory, experiment, old, overrides.apply(old, changes)


def _directory(given: argparse.Namespace) -> pathlib.Path | None:
    """Return the directory for a name or a timestamp."""
    if given.name:
        run_directory.require_name(given.name, given.logdir)
        return given.home / given.name
    if given.timestamp:
        name = f'{given.timestamp}-{_name(given)}'
        run_directory.require_name(name, given.logdir)
        return given.home / name
    return None


def _name(given: argparse.Namespace) -> str:
    """Return the name of the run."""
    if given.config or given.env:
        return experiments.name_of(given.config, given.env, given.algorithm)
    return given.name


def _changes(given: argparse.Namespace) -> list[str]:
    """Return the settings that options replace, as `overrides` takes them."""
    changes = [*given.set]
    for key in ('steps', 'seed'):
        value = getattr(given, key)
        if value is not None:
            changes.append(f'{key}={value}')
    if given.begin_from is not None:
        changes.append(f'begin_from={json.dumps(given.begin_from)}')
    return changes


def _require_same(
    shown: pathlib.Path,
    saved: store.Saved,
    asked: Mapping[str, Any],
    changes: list[str],
    trusted: bool,
) -> None:
    """Refuse to resume a run of another environment or algorithm.

    A function takes the place of one that cannot be imported again.

    Args:
        shown: Directory of the run.
        saved: Its settings.
        asked: Environment and algorithm of the command.
        changes: Texts `key=value` of settings that are changed on purpose.
        trusted: Use code that the run names though it is not signed.
    """
    for key, value in asked.items():
        old, new = saved.values.get(key), plain_yaml.simplify(value)
        if old == new or any(text.startswith(f'{key}=') for text in changes):
            continue
        are_functions = all(map(plain_yaml.names_function, (old, new)))
        if not are_functions or saved.can_import(key, trusted):
            raise errors.ConfigError(
                f'{shown} is a run with {key}={old}, not {key}={new}. Choose '
                'another --name for a new run, or go on with that one by '
                '--name alone.'
            )


def _tell_differences(
    config: AttrDict, changed: AttrDict, written: AttrDict, terminal: console.Console
) -> None:
    """Print which settings of a run are changed, and which are kept.

    Args:
        config: Settings as the run has them.
        changed: Settings as they are changed.
        written: Settings of the config that it is resumed with.
        terminal: Console.
    """
    # Whatever is asked for, what it began from stays what it was.
    for key in [key for key in config if key != 'begin_from']:
        old, new, other = [
            render.format_value(settings[key]) for settings in (config, changed, written)
        ]
        if config[key] != changed[key]:
            terminal.say('', f'{key}: {old} → {new}')
        elif config[key] != written[key]:
            kept = f'{key}: {old} as before, not {other}'
            terminal.say('', f'{kept}; --set changes it')


def _title(config: AttrDict) -> str:
    env = env_names.name_of(config.env)
    algorithm = config.algorithm
    if callable(algorithm):
        name = getattr(algorithm, '__name__', 'an algorithm of yours')
    else:
        name = algorithm.upper().replace('_', ' ')
    title = f'{name} on {env}'
    if config.demonstrations is None:
        return title
    shown = render.format_value(config.demonstrations)
    return f'{title}, as shown in {shown}'
