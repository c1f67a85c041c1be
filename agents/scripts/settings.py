"""Configurations by name, by file, from the command line and on the disk."""

import functools
import importlib.util
import inspect
import io
import os
import pathlib
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import cloudpickle
import ruamel.yaml

from agents.scripts import checks, configs, env_setup
from agents.tools import errors
from agents.tools.attr_dict import AttrDict
from agents.tools.runs import files

CONFIG_FILE = 'config.yaml'

# Settings that the sizes of what a run saves follow from, or how it counts
# updates; some only where another setting begins with one of some texts, as
# that of a function does with <.
ALWAYS = 'algorithm', ('',)
NATIVE = 'env', (env_setup.NATIVE,)
SIZES = {
    'algorithm': ALWAYS,
    'network': ALWAYS,
    'num_agents': ALWAYS,
    'update_every': ALWAYS,
    'normalize_observ': ALWAYS,
    'policy_layers': ALWAYS,
    'value_layers': ALWAYS,
    'recurrent_units': ('network', ('recurrent_', '<')),
    'convolution_filters': ('network', ('convolutional_', '<')),
    'env': NATIVE,
    'eval_episodes': NATIVE,
}

# Settings that may name code; all others are looked up among what there is.
ENV, KWARGS = 'env', 'env_kwargs'

# Limits for files that may come from strangers.
MAX_BYTES = 50_000
MAX_VALUES = 5_000
MAX_DEPTH = 10


def find_config(name: str) -> Callable[[], AttrDict]:
    """Find a function of `configs.py`, or of a file as `file.py:function`."""
    if ':' in name:
        file, _, function = name.rpartition(':')
        return functools.partial(_call, _find_in_file(file, function), file)
    known = config_names()
    if name not in known:
        raise errors.ConfigError(
            f'There is no config {name!r}{errors.nearest(name, known)} There '
            f'are {", ".join(known)}; your own is --config=file.py:function.'
        )
    return getattr(configs, name)


def config_names() -> list[str]:
    """The experiments of `configs.py`."""
    return [
        name
        for name, value in vars(configs).items()
        if getattr(value, '__module__', None) == configs.__name__
        and name != 'default'
        and not inspect.signature(value).parameters  # Which helpers have.
    ]


def override(config: AttrDict, settings: Sequence[str]) -> AttrDict:
    """Replace values of a configuration by `key=value` texts.

    A value is read as YAML and has to be one that the setting may have.
    """
    changes = {}
    for setting in settings:
        key, equals, text = setting.partition('=')
        if not equals:
            raise errors.ConfigError(
                f'Expected --set key=value, not --set {setting}.'
            )
        errors.require_known('setting', key, sorted(config))
        value = _parse(text, f'The value of {key}')
        changes[key] = checks.parse_value(key, value, config[key])
    return config.copy(**changes)


def save_config(
    config: Mapping[str, Any], directory: str | pathlib.Path
) -> None:
    """Write a configuration as plain values.

    A function, such as that of an environment, is written as a text that
    names it, in angle brackets; it cannot be read back.
    """
    text = _dumped({key: _plain(value) for key, value in config.items()})
    path = pathlib.Path(directory) / CONFIG_FILE
    files.write_changed(path, f'{text}\n'.encode())


def require_plain(config: Mapping[str, Any]) -> None:
    """Refuse values that `save_config` cannot write."""
    for key, value in config.items():
        try:
            _plain(value)
        except errors.ConfigError as error:
            raise errors.ConfigError(f'{error} It is {key!r}.') from None


def load_config(directory: pathlib.Path) -> AttrDict:
    """Read the values that `save_config` wrote; runs no code."""
    path = pathlib.Path(directory) / CONFIG_FILE
    if not os.path.lexists(path):
        raise errors.ConfigError(
            f'There is no {path}. Expected the directory of a run, which is '
            'named <timestamp>-<config>.'
        )
    try:
        text = files.read(path, MAX_BYTES).decode()
    except UnicodeDecodeError as error:
        raise errors.ConfigError(f'Cannot read {path}: {error}.') from error
    values = _parse(text, str(path))
    if not isinstance(values, dict):
        raise errors.ConfigError(f'{path} does not hold settings.')
    return AttrDict(values)


def restored(
    config: AttrDict | None,
    directory: pathlib.Path,
    changes: Sequence[str] = (),
    unused: Sequence[str] = (),
) -> AttrDict:
    """A configuration with the values that a run was started with.

    Functions, which are not saved, are taken from the configuration. Other
    names of code, such as of a module to be imported, count only where the
    configuration has the same, since a file may come from a stranger.

    Args:
        config: The configuration, or None for the defaults.
        directory: Directory of the run.
        changes: Texts `key=value` that belong to the configuration.
        unused: Settings that are not going to be used, whatever they are.
    """
    saved = load_config(directory)
    config = checks.defaults(saved) if config is None else config
    given = override(config, changes) if changes else config
    values = {}
    for key, value in _known(saved, config, directory).items():
        own = _plain(given[key])
        if has_function(value):
            trusted, value = has_function(own), given[key]
        else:
            trusted = value == own or not _may_name_code(key, value)
        if trusted:
            values[key] = value
        elif key not in unused:
            raise errors.ConfigError(_distrust(key, saved[key], own, directory))
    return config.copy(**values)


def require_same_sizes(config: AttrDict, directory: pathlib.Path) -> None:
    """Refuse to go on with settings that do not fit what a run has saved."""
    saved = load_config(directory)
    for key, (other, texts) in SIZES.items():
        old, new = saved.get(key), _plain(config[key])
        others = saved.get(other), _plain(config[other])
        matters = any(str(value).startswith(texts) for value in others)
        if matters and key in saved and old != new:
            raise errors.ConfigError(
                f'{directory} has learnt with {key}={old}, which what it saved '
                f'depends on, so that it cannot go on with {key}={new}. Leave '
                f'{key} as it was, or begin a new run.'
            )


def has_function(value: Any) -> bool:
    """Whether a saved value stands for a function, or a part of it does."""
    if isinstance(value, (dict, list)):
        parts = value.values() if isinstance(value, dict) else value
        return any(has_function(part) for part in parts)
    return isinstance(value, str) and value.startswith('<function ')


def _may_name_code(key: str, value: Any) -> bool:
    """Whether a value could lead to a module, a file or an address.

    An environment of Gymnasium is a name in its registry, but with a colon a
    module to be imported; and what its arguments are taken for is unknown, so
    that they may be numbers and single words only.
    """
    if isinstance(value, (dict, list)):
        parts = value.values() if isinstance(value, dict) else value
        return any(_may_name_code(key, part) for part in parts)
    if not isinstance(value, str):
        return False
    if key == KWARGS:
        return re.fullmatch(r'[\w-]*', value) is None
    return key == ENV and ':' in value.removeprefix(env_setup.NATIVE)


def _distrust(key: str, value: Any, own: Any, directory: pathlib.Path) -> str:
    if has_function(value):
        cure = 'Give the config that defines it, as --config=file.py:function.'
    else:
        cure = (
            'If you trust it, ask for it as well: '
            f"--set '{key}={_dumped(value, True)}'."
        )
    return (
        f'The setting {key!r} of {directory} is {value!r}, which may run code '
        f'and cannot be trusted in a file; yours is {own!r}. {cure}'
    )


def _find_in_file(file: str, name: str) -> Callable[[], AttrDict]:
    path = pathlib.Path(file)
    if not path.exists():
        raise errors.ConfigError(
            f'There is no file {file!r} to take {name!r} from.'
        )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise errors.ConfigError(f'{file!r} is not a Python file.')
    module = importlib.util.module_from_spec(spec)
    # Its classes and functions are sent to workers by value, since those could
    # not import it under this name, and so without what else it imports.
    sys.modules[spec.name] = module
    cloudpickle.register_pickle_by_value(module)
    sys.path.insert(0, str(path.parent.resolve()))  # As if it were run.
    if re.search(r'^\s*(import|from) (keras|tensorflow)\b', _text(path), re.M):
        importlib.import_module('agents.tools.graph.backend')  # Sets them up.
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _raised(path, error) from error
    names = [key for key, value in vars(module).items() if callable(value)]
    if name not in names:
        raise errors.ConfigError(
            f'There is no function {name!r} in {file}'
            f'{errors.nearest(name, names)}'
        )
    return getattr(module, name)


def _text(path: pathlib.Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):  # Told when it is run.
        return ''


def _call(function: Callable[[], AttrDict], file: str) -> AttrDict:
    """Call a function of a user's file, whose mistakes are told as such."""
    try:
        config = function()
    except errors.UserError:
        raise
    except Exception as error:
        raise _raised(pathlib.Path(file), error) from error
    if not isinstance(config, AttrDict):
        raise errors.ConfigError(
            f'{file} returned {config!r} where settings were expected, such as '
            'those from agents.configs.ppo().'
        )
    return config


def _raised(path: pathlib.Path, error: Exception) -> errors.ConfigError:
    lines = [
        f' in line {frame.lineno}'
        for frame in traceback.extract_tb(error.__traceback__)
        if pathlib.Path(frame.filename) == path.absolute()
    ]
    where = lines[-1] if lines else ''
    return errors.ConfigError(
        f'{path} raised {type(error).__name__}{where}: {error}'
    )


def _known(saved: AttrDict, config: AttrDict, directory: pathlib.Path) -> dict:
    """Check the settings of a file against those that there are."""
    unknown = sorted(set(saved) - set(config))
    if unknown:
        raise errors.ConfigError(
            f'{directory / CONFIG_FILE} has settings that this version does '
            f'not know: {", ".join(unknown)}.'
        )
    return {
        key: value
        if has_function(value)
        else checks.parse_value(key, value, config[key])
        for key, value in saved.items()
    }


def _plain(value: Any) -> Any:
    if callable(value):
        module = getattr(value, '__module__', '?')
        return f'<function {module}.{getattr(value, "__qualname__", value)}>'
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)  # Of a subclass, such as NumPy's float64.
    if value is None:
        return value
    raise errors.ConfigError(
        f'A setting has to be a plain value or a function, not {value!r}.'
    )


def _parse(text: str, source: str) -> Any:
    """Read YAML that holds nothing but plain values."""
    try:
        _require_small(_yaml().parse(text), source)
        value = _yaml().load(text)
    except ruamel.yaml.error.YAMLError as error:
        problem = getattr(error, 'problem', None) or str(error).splitlines()[0]
        raise errors.ConfigError(
            f'{source} is not plain YAML: {problem}.'
        ) from error
    except errors.ConfigError:
        raise
    except (TypeError, ValueError) as error:  # Such as a list for a key.
        raise errors.ConfigError(
            f'{source} is not plain YAML: {error}.'
        ) from error
    _require_plain(value, source)
    return value


def _require_small(
    events: Iterable[ruamel.yaml.events.Event], source: str
) -> None:
    """Look through a text before anything is made of it."""
    depth = 0
    for count, event in enumerate(events):
        depth += isinstance(event, ruamel.yaml.events.CollectionStartEvent)
        depth -= isinstance(event, ruamel.yaml.events.CollectionEndEvent)
        if depth > MAX_DEPTH or count > MAX_VALUES:
            raise errors.ConfigError(f'{source} is too deep or too large.')
        if isinstance(event, ruamel.yaml.events.AliasEvent):
            raise errors.ConfigError(f'{source} has an alias, *{event.anchor}.')
        if getattr(event, 'tag', None):
            raise errors.ConfigError(f'{source} has a tag, {event.tag}.')


def _require_plain(value: Any, source: str) -> None:
    if isinstance(value, dict):
        for key, part in value.items():
            if not isinstance(key, str):
                raise errors.ConfigError(f'{source} has a key {key!r}.')
            _require_plain(part, source)
    elif isinstance(value, list):
        for part in value:
            _require_plain(part, source)
    elif isinstance(value, int) and value.bit_length() > 63:
        raise errors.ConfigError(f'{source} holds a number beyond 64 bits.')
    elif not (value is None or isinstance(value, (bool, int, float, str))):
        raise errors.ConfigError(
            f'{source} holds a {type(value).__name__}, which is not plain.'
        )


def _dumped(value: Any, in_one_line: bool | None = None) -> str:
    yaml, text = _yaml(), io.StringIO()
    yaml.default_flow_style = in_one_line
    yaml.dump(value, text)
    return text.getvalue().removesuffix('...\n').strip()


def _yaml() -> ruamel.yaml.YAML:
    yaml = ruamel.yaml.YAML(typ='safe', pure=True)
    yaml.sort_base_mapping_type_on_output = False
    return yaml
