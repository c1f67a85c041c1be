"""Storage of the settings of a run in its config.yaml."""

import copy
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from agents.config import checks, lookup, overrides, plain_yaml, sizes, trust
from agents.config.settings import ALGORITHM_GROUPS, NATIVE, SETTINGS, find_defaults
from agents.tools import errors
from agents.tools.attr_dict import AttrDict
from agents.tools.runs import files

CONFIG_FILE = 'config.yaml'

# Settings that the sizes of what a run saves follow from, or how it counts
# updates; some only where another setting begins with one of some texts, as
# that of a function does with <.
ALWAYS = 'algorithm', ('',)
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
    'env': ('env', (NATIVE,)),
}

# A setting that only a training uses; a config that the caller gives decides
# it, since nothing that was learnt depends on it.
CALLBACKS = 'callbacks'

# Settings that a policy does without, once it has learnt.
UNUSED_BY_POLICY = 'env', 'env_kwargs', CALLBACKS

# The entry of the file that says where functions are found again, and the
# signature of all that names code.
CODE = 'code'

# How much of the names of other runs is told where one is not found.
MOST_CHARACTERS = 200

# Limit for files that may come from strangers.
MAX_BYTES = 50_000

# How deep runs may be in a directory.
DEPTH = 3

# Settings that this process has saved and no process can import again, as a
# class of a notebook, with their plain values; by path of the file and name.
_not_located: dict[tuple[str, str], tuple[Any, Any]] = {}

# What to do with settings that are gone, or do not have such values any more.
OTHER_VERSION = (
    'If another version has written that file, go on with that version, or '
    'begin a new run in another directory.'
)


class Saved(NamedTuple):
    """Settings of a run, as they are in its file.

    Attributes:
        values: Plain values by name, with texts in place of functions.
        functions: Settings with functions, as `trust.locate` describes them.
        doubt: Reason not to use values that name code, or ''.
    """

    values: Mapping[str, Any]
    functions: Mapping[str, Any]
    doubt: str

    @property
    def is_own(self) -> bool:
        """Return whether all settings that name code may be used."""
        return not self.doubt

    def can_import(self, key: str, trusted: bool) -> bool:
        """Return whether the functions of a setting may and can be imported."""
        value = self.functions.get(key, self.values.get(key))
        return (
            (trusted or self.is_own)
            and trust.is_located(value)
            and not trust.find_missing_file(value)
        )


def save_config(config: Mapping[str, Any], directory: str | pathlib.Path) -> None:
    """Write a configuration as plain values, and sign those that name code.

    A function is written as its name in angle brackets, and its location under the key CODE.
    """
    path = pathlib.Path(directory) / CONFIG_FILE
    values = {key: plain_yaml.simplify(value) for key, value in config.items()}
    if CALLBACKS in values:
        values[CALLBACKS] = [*map(lookup.absolute, values[CALLBACKS])]
    functions = {
        key: trust.locate(config[key])
        for key, value in values.items()
        if plain_yaml.names_function(value)
    }
    for key, located in functions.items():
        if not trust.is_located(located):
            place = os.path.realpath(path), key
            _not_located[place] = values[key], config[key]
    signature = trust.sign(path, [*values.items(), *functions.items()])
    if functions or signature:
        values[CODE] = {'functions': functions, 'signature': signature}
    files.write_changed(path, f'{plain_yaml.format_value(values)}\n'.encode())


def renew_signature(config: Mapping[str, Any], directory: str | pathlib.Path) -> None:
    """Save the settings of a complete run again, if its code could not be imported.

    Does nothing if other settings have changed, as the run was not trained with them.
    """
    saved = read(pathlib.Path(directory))
    if all(saved.can_import(key, trusted=False) for key in saved.values):
        return
    for key, old in saved.values.items():
        new = plain_yaml.simplify(config.get(key))
        are_functions = all(map(plain_yaml.names_function, (old, new)))
        if old != new and not are_functions:
            return
    save_config(config, directory)


def require_plain(config: Mapping[str, Any]) -> None:
    """Refuse values that `save_config` cannot write."""
    for key, value in config.items():
        try:
            plain_yaml.simplify(value)
        except errors.ConfigError as error:
            raise errors.ConfigError(f'{error} It is {key!r}.') from None


def load_config(directory: pathlib.Path) -> AttrDict:
    """Read the values that `save_config` wrote; runs no code."""
    return _read(directory)[0]


def read(directory: pathlib.Path) -> Saved:
    """Read the settings of a run, and check their signature; runs no code."""
    values, code = _read(directory)
    functions = code.get('functions', {})
    functions = functions if isinstance(functions, dict) else {}
    doubt = trust.find_doubt(
        directory / CONFIG_FILE, [*values.items(), *functions.items()], code.get('signature')
    )
    return Saved(values, functions, doubt)


def _read(directory: pathlib.Path) -> tuple[AttrDict, dict[str, Any]]:
    """Read the settings of a run, and the entry CODE."""
    path = pathlib.Path(directory) / CONFIG_FILE
    if not os.path.lexists(path):
        raise errors.ConfigError(
            f'There is no {path}. Expected the directory of a run{_suggest_run(path.parent)}'
        )
    try:
        text = files.read(path, MAX_BYTES).decode()
    except UnicodeDecodeError as error:
        raise errors.ConfigError(f'Cannot read {path}: {error}.') from error
    values = plain_yaml.parse(text, str(path))
    if not isinstance(values, dict):
        raise errors.ConfigError(f'{path} does not hold settings.')
    code = values.pop(CODE, {})
    return AttrDict(values), code if isinstance(code, dict) else {}


def _suggest_run(directory: pathlib.Path) -> str:
    """List the runs in or beside a directory that is no run, to end a sentence."""
    place = directory if directory.is_dir() else directory.parent
    # What is beside may be as much as the home of a user has.
    names = list_inside(place, DEPTH if directory.is_dir() else 2)
    near = errors.nearest(directory.name, names)
    return f'{near} {place} holds {describe(names)}.' if names else near


def list_inside(directory: pathlib.Path, depth: int = DEPTH) -> list[str]:
    """Return the runs in a directory, as relative paths."""
    return sorted(
        str(path.parent.relative_to(directory))
        for parts in range(1, depth + 1)
        for path in directory.glob('*/' * parts + CONFIG_FILE)
    )


def describe(names: Sequence[str]) -> str:
    """Format runs of `list_inside`, within a sentence."""
    listed = errors.shorten(', '.join(names), MOST_CHARACTERS)
    return f'the run{"s" if len(names) > 1 else ""} {listed}'


def restore_config(
    config: AttrDict | None,
    directory: pathlib.Path,
    changes: Sequence[str] = (),
    unused: Sequence[str] = (CALLBACKS,),
    saved: Saved | None = None,
    env: Any = None,
    trusted: bool = False,
) -> AttrDict:
    """Return a configuration with the values that a run was started with.

    Values that name code are used if the user has signed or trusts the run, if the configuration
    has the same, or if this process has saved them. Functions are those of the configuration if it
    has any.

    Args:
        config: Configuration, or None for the defaults.
        directory: Directory of the run.
        changes: Texts `key=value` that belong to the configuration.
        unused: Settings that will not be used, whatever they are.
        saved: Settings of the run, if already read.
        env: Environment in place of that of the run, or None.
        trusted: Use values that name code though the run is not signed.
    """
    saved = read(directory) if saved is None else saved
    asked = config is not None
    if config is None:
        config = _find_defaults(saved, directory, trusted)
    if env is not None:
        config = config.copy(env=env)
    _require_known(saved.values, config, directory)
    given = overrides.apply(config, changes)
    changed = {text.partition('=')[0] for text in changes}
    values = {}
    for key, value in saved.values.items():
        if (key == 'env' and env is not None) or (key == CALLBACKS and asked):
            continue
        has_function = plain_yaml.names_function(value)
        if not has_function:
            value = _convert(key, value, config[key], directory)
        own = plain_yaml.simplify(given[key])
        same_kind = has_function and plain_yaml.names_function(own)
        if not trust.names_code(key, value):
            values[key] = value
        elif same_kind or own == value:
            values[key] = given[key]
        elif key in unused:
            continue
        elif key in changed and not (trusted or saved.is_own):
            values[key] = given[key]
        else:
            hint = f'; yours is {own!r}' if asked else ''
            values[key] = _find_code(key, saved, directory, trusted, hint)
    if 'env' not in saved.values and env is None:
        raise errors.ConfigError(
            f"{directory / CONFIG_FILE} lacks the setting 'env'. Put back what "
            'was removed, or pass --env (env= in Python).'
        )
    restored = config.copy(**values)
    sizes.require_weights(restored)
    return restored


def _find_defaults(saved: Saved, directory: pathlib.Path, trusted: bool) -> AttrDict:
    """Return the defaults for the settings of a run."""
    algorithm: Any = saved.values.get('algorithm')
    if not plain_yaml.names_function(algorithm):
        errors.require_known('algorithm', algorithm, ALGORITHM_GROUPS)
        return find_defaults(algorithm)
    _find_code('algorithm', saved, directory, trusted)
    defaults = {
        key: copy.deepcopy(SETTINGS[key].default) for key in saved.values if key in SETTINGS
    }
    return AttrDict(defaults)


def _find_code(
    key: str, saved: Saved, directory: pathlib.Path, trusted: bool, hint: str = ''
) -> Any:
    """Return a value that names code, with its functions imported."""
    place = os.path.realpath(directory / CONFIG_FILE), key
    plain, used = _not_located.get(place, (None, None))
    if plain is not None and plain == saved.values[key]:
        return used
    value = saved.functions.get(key, saved.values[key])
    if not saved.can_import(key, trusted):
        raise trust.refuse(key, value, str(directory), saved.doubt, hint)
    if not saved.is_own:
        trust.show(key, value, directory)
    return trust.find_functions(key, value)


def require_same_sizes(config: AttrDict, directory: pathlib.Path) -> None:
    """Refuse to resume with settings that do not fit the checkpoints of a run."""
    saved = load_config(directory)
    for key in SIZES:
        old, new = compare(saved, config, key)
        if old != new:
            raise errors.ConfigError(
                f'{directory} was trained with {key}={old}; its checkpoint '
                f'does not fit {key}={new}. Leave {key} as it was, or begin a '
                'new run.'
            )


def compare(saved: Mapping[str, Any], config: Mapping[str, Any], key: str) -> tuple[Any, Any]:
    """Return the values of a setting before and now; equal if a change has no effect."""
    old, new = saved.get(key), plain_yaml.simplify(config.get(key))
    condition, beginnings = SIZES.get(key, ALWAYS)
    matters = any(
        str(plain_yaml.simplify(settings.get(condition))).startswith(beginnings)
        for settings in (saved, config)
    )
    return (old, new) if matters and key in saved else (new, new)


def _require_known(saved: Mapping[str, Any], config: AttrDict, directory: pathlib.Path) -> None:
    """Refuse settings of a file that the config does not have."""
    unknown = sorted(set(saved) - set(config))
    if unknown:
        raise errors.ConfigError(
            f'{directory / CONFIG_FILE} has settings that this version does '
            f'not know: {", ".join(unknown)}. {OTHER_VERSION}'
        )


def _convert(key: str, value: Any, present: Any, directory: pathlib.Path) -> Any:
    """Convert a value of a file, and validate it."""
    try:
        return checks.convert_value(key, value, present)
    except errors.ConfigError as error:
        path = directory / CONFIG_FILE
        raise errors.ConfigError(f'{path}: {error} {OTHER_VERSION}') from None
