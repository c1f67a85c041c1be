"""Writes and reads the file in which a run keeps its settings."""

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from agents.algorithms import sizes
from agents.scripts import checks, env_setup, overrides, plain_yaml, trust
from agents.scripts.settings import ALGORITHM_GROUPS, find_defaults
from agents.tools import errors
from agents.tools.attr_dict import AttrDict
from agents.tools.runs import files

CONFIG_FILE = 'config.yaml'

# Settings that the sizes of what a run saves follow from, or how it counts
# updates; some only where another setting begins with one of some texts, as
# that of a function does with <.
ALWAYS = 'algorithm', ('',)
NATIVE = 'env', (env_setup.NATIVE,)
NETWORK_SIZES = {
    'network': ALWAYS,
    'normalize_observ': ALWAYS,
    'policy_layers': ALWAYS,
    'value_layers': ALWAYS,
    'recurrent_units': ('network', ('recurrent', '<')),
    'convolutions': ALWAYS,
    'image_units': ALWAYS,
}
SIZES = {
    'algorithm': ALWAYS,
    'update_every': ALWAYS,
    **NETWORK_SIZES,
    'shared_encoder': ('algorithm', ('ppo',)),
    'rewards': ALWAYS,
    'discriminator_layers': ('rewards', ('airl', 'gail', 'log')),
    'env': NATIVE,
}

# A setting that is the caller's in any case: it names code, and nothing that
# was learnt depends on it.
CALLBACKS = 'callbacks'

# How much of the names of other runs is told where one is not found.
MOST_CHARACTERS = 200

# Limit for files that may come from strangers.
MAX_BYTES = 50_000

# What to do with settings that are gone, or do not have such values any more.
OTHER_VERSION = (
    'If another version has written that file, go on with that version, or '
    'begin a new run in another directory.'
)


def save_config(
    config: Mapping[str, Any], directory: str | pathlib.Path
) -> None:
    """Write a configuration as plain values.

    A function, such as that of an environment, is written as a text that
    names it, in angle brackets; it cannot be read back.
    """
    values = {key: plain_yaml.simplify(value) for key, value in config.items()}
    path = pathlib.Path(directory) / CONFIG_FILE
    files.write_changed(path, f'{plain_yaml.format_value(values)}\n'.encode())


def require_plain(config: Mapping[str, Any]) -> None:
    """Refuse values that `save_config` cannot write."""
    for key, value in config.items():
        try:
            plain_yaml.simplify(value)
        except errors.ConfigError as error:
            raise errors.ConfigError(f'{error} It is {key!r}.') from None


def load_config(directory: pathlib.Path) -> AttrDict:
    """Read the values that `save_config` wrote; runs no code."""
    path = pathlib.Path(directory) / CONFIG_FILE
    if not os.path.lexists(path):
        raise errors.ConfigError(
            f'There is no {path}. Expected the directory of a run'
            f'{_suggest_run(path.parent)}'
        )
    try:
        text = files.read(path, MAX_BYTES).decode()
    except UnicodeDecodeError as error:
        raise errors.ConfigError(f'Cannot read {path}: {error}.') from error
    values = plain_yaml.parse(text, str(path))
    if not isinstance(values, dict):
        raise errors.ConfigError(f'{path} does not hold settings.')
    return AttrDict(values)


def _suggest_run(directory: pathlib.Path) -> str:
    """End a sentence with the runs that are in or beside what is none."""
    place = directory if directory.is_dir() else directory.parent
    names = sorted(path.parent.name for path in place.glob(f'*/{CONFIG_FILE}'))
    near = errors.nearest(directory.name, names)
    listed = errors.shorten(', '.join(names), MOST_CHARACTERS)
    return f'{near} In {place} there is {listed}.' if names else near


def restore_config(
    config: AttrDict | None,
    directory: pathlib.Path,
    changes: Sequence[str] = (),
    unused: Sequence[str] = (),
    saved: Mapping[str, Any] | None = None,
) -> AttrDict:
    """Give a configuration the values that a run was started with.

    Functions, which are not saved, are taken from the configuration. Other
    names of code, such as of a module to be imported, count only where the
    configuration has the same, since a file may come from a stranger. Callbacks
    are those of the configuration.

    Args:
        config: The configuration, or None for the defaults.
        directory: Directory of the run.
        changes: Texts `key=value` that belong to the configuration.
        unused: Settings that are not going to be used, whatever they are.
        saved: What `load_config` has read, where another rank has.
    """
    if saved is None:
        saved = load_config(directory)
    asked = config is not None
    if config is None:
        algorithm: Any = saved.get('algorithm')
        if plain_yaml.names_function(algorithm):
            raise trust.refuse('algorithm', algorithm, '', directory)
        errors.require_known('algorithm', algorithm, ALGORITHM_GROUPS)
        config = find_defaults(algorithm)
    _require_known(saved, config, directory)
    given = overrides.apply(config, changes)
    values = {}
    for key, value in saved.items():
        if key == CALLBACKS:
            continue
        own = plain_yaml.simplify(given[key])
        has_function = plain_yaml.names_function(value)
        if not has_function:
            value = _convert(key, value, config[key], directory)
        if trust.is_trusted(key, value, own):
            values[key] = given[key] if has_function else value
        elif key not in unused:
            hint = f'; yours is {own!r}' if asked else ''
            raise trust.refuse(key, saved[key], hint, directory)
    restored = config.copy(**values)
    sizes.require_weights(restored)
    return restored


def require_same_sizes(config: AttrDict, directory: pathlib.Path) -> None:
    """Refuse to go on with settings that do not fit what a run has saved."""
    saved = load_config(directory)
    for key in SIZES:
        old, new = compare(saved, config, key)
        if old != new:
            raise errors.ConfigError(
                f'{directory} was trained with {key}={old}; its checkpoint '
                f'does not fit {key}={new}. Leave {key} as it was, or begin a '
                'new run.'
            )


def compare(
    saved: Mapping[str, Any], config: Mapping[str, Any], key: str
) -> tuple[Any, Any]:
    """The values of a setting before and now; equal if it does not matter."""
    old, new = saved.get(key), plain_yaml.simplify(config.get(key))
    condition, beginnings = SIZES.get(key, ALWAYS)
    matters = any(
        str(plain_yaml.simplify(settings.get(condition))).startswith(beginnings)
        for settings in (saved, config)
    )
    return (old, new) if matters and key in saved else (new, new)


def _require_known(
    saved: Mapping[str, Any], config: AttrDict, directory: pathlib.Path
) -> None:
    """Refuse settings of a file that are not among those of a config."""
    unknown = sorted(set(saved) - set(config))
    if unknown:
        raise errors.ConfigError(
            f'{directory / CONFIG_FILE} has settings that this version does '
            f'not know: {", ".join(unknown)}. {OTHER_VERSION}'
        )


def _convert(
    key: str, value: Any, present: Any, directory: pathlib.Path
) -> Any:
    """Convert a value of a file, and check it."""
    try:
        return checks.convert_value(key, value, present)
    except errors.ConfigError as error:
        path = directory / CONFIG_FILE
        raise errors.ConfigError(f'{path}: {error} {OTHER_VERSION}') from None
