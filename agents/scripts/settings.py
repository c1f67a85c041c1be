"""Configurations by name, by file, from the command line and on the disk."""

import argparse
import importlib.util
import io
import pathlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import cloudpickle
import ruamel.yaml

from agents.scripts import configs
from agents.tools import errors
from agents.tools.attr_dict import AttrDict

CONFIG_FILE = 'config.yaml'

# Limits for files that may come from strangers.
MAX_BYTES = 100_000
MAX_VALUES = 5_000
MAX_DEPTH = 10


def find_config(name: str) -> Callable[[], AttrDict]:
    """Find a function of `configs.py`, or of a file as `file.py:function`."""
    if ':' in name:
        return _find_in_file(*name.rsplit(':', 1))
    known = config_names()
    if name not in known:
        raise errors.ConfigError(
            f'There is no config {name!r}{errors.nearest(name, known)} There '
            f'are {", ".join(known)}; your own is --config=file.py:function.'
        )
    return getattr(configs, name)


def config_names() -> list[str]:
    """The experiments of `configs.py`."""
    helpers = ('default', 'ppo', 'reinforce', 'mujoco', 'in_graph')
    return [
        name
        for name, value in vars(configs).items()
        if getattr(value, '__module__', None) == configs.__name__
        and not name.startswith('_')
        and name not in helpers
    ]


def override(config: AttrDict, settings: Sequence[str]) -> AttrDict:
    """Replace values of a configuration by `key=value` texts.

    A value is read as YAML and has to have the type of the one that it
    replaces.
    """
    changes = {}
    for setting in settings:
        key, equals, text = setting.partition('=')
        if not equals:
            raise errors.ConfigError(
                f'Expected --set key=value, not --set {setting}.'
            )
        if key not in config:
            raise errors.ConfigError(
                f'There is no setting {key!r}{errors.nearest(key, config)} '
                f'There are {", ".join(sorted(config))}.'
            )
        changes[key] = _typed(key, _parse(text), config[key])
    return config.copy(**changes)


def save_config(
    config: Mapping[str, Any], directory: str | pathlib.Path
) -> None:
    """Write a configuration as plain values.

    A function, such as that of an environment, is written as a text that
    names it, in angle brackets; it cannot be read back.
    """
    directory = pathlib.Path(directory)
    text = io.StringIO()
    _yaml().dump({key: _plain(value) for key, value in config.items()}, text)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / CONFIG_FILE).write_text(text.getvalue())


def load_config(directory: pathlib.Path) -> AttrDict:
    """Read the values that `save_config` wrote; runs no code."""
    path = pathlib.Path(directory) / CONFIG_FILE
    if not path.exists():
        raise errors.ConfigError(
            f'There is no {path}. Expected the directory of a run, which is '
            'named <timestamp>-<config>.'
        )
    if path.stat().st_size > MAX_BYTES:
        raise errors.ConfigError(f'{path} is too large for a configuration.')
    values = _parse(path.read_text(), str(path))
    if not isinstance(values, dict):
        raise errors.ConfigError(f'{path} does not hold settings.')
    return AttrDict(values)


def is_run(directory: pathlib.Path) -> bool:
    """Whether a directory holds a run."""
    return (directory / CONFIG_FILE).exists()


def restored(config: AttrDict, directory: pathlib.Path) -> AttrDict:
    """A configuration with the values that a run was started with.

    Functions, which are not saved, are taken from the configuration.
    """
    saved = load_config(directory)
    unknown = sorted(set(saved) - set(config))
    if unknown:
        raise errors.ConfigError(
            f'{directory / CONFIG_FILE} has settings that this version does '
            f'not know: {", ".join(unknown)}.'
        )
    for key, value in saved.items():
        if is_function(value) and not callable(config[key]):
            raise errors.ConfigError(
                f'The setting {key!r} of the run is {value}, which cannot be '
                'taken from a file. Give the config that defines it, as '
                'file.py:function.'
            )
    return config.copy(
        **{key: value for key, value in saved.items() if not is_function(value)}
    )


def resolved(
    directory: pathlib.Path, config: AttrDict | None, needed: Sequence[str]
) -> AttrDict:
    """The settings of a run, by its file alone or by a configuration as well.

    Args:
        directory: Directory of the run.
        config: The configuration, or None.
        needed: Settings that are going to be used, which must not ask for code
            on the word of a file.
    """
    if config is not None:
        return restored(config, directory)
    saved = load_config(directory)
    for key in needed:
        if is_function(saved[key]) or ':' in str(saved[key]):
            raise errors.ConfigError(
                f'The setting {key!r} of {directory} is {saved[key]}, which '
                'runs code that a file cannot be trusted with. Give the config '
                'that has it, as file.py:function.'
            )
    return saved


def add_env_processes(parser: argparse.ArgumentParser) -> None:
    """Add the options that decide where environments are stepped."""
    parser.add_argument(
        '--env_processes',
        action='store_true',
        default=True,
        help='step environments in worker processes (the default)',
    )
    parser.add_argument(
        '--noenv_processes',
        action='store_false',
        dest='env_processes',
        help='step them in this process',
    )


def is_function(value: Any) -> bool:
    """Whether a saved value stands for a function."""
    return isinstance(value, str) and value.startswith('<function ')


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
    spec.loader.exec_module(module)
    names = [key for key, value in vars(module).items() if callable(value)]
    if name not in names:
        raise errors.ConfigError(
            f'There is no function {name!r} in {file}'
            f'{errors.nearest(name, names)}'
        )
    return getattr(module, name)


def _typed(key: str, value: Any, default: Any) -> Any:
    """Check a value against the default that it replaces."""
    if isinstance(default, float) and type(value) is int:
        value = float(value)
    if isinstance(default, int) and isinstance(value, float) and value % 1 == 0:
        value = int(value)  # As in steps=1e6.
    optional = value is None or default is None or callable(default)
    if optional or type(value) is type(default):
        return value
    raise errors.ConfigError(
        f'The setting {key!r} is of type {type(default).__name__}, for example '
        f'{default!r}; {value!r} is not.'
    )


def _plain(value: Any) -> Any:
    if callable(value):
        module = getattr(value, '__module__', '?')
        return f'<function {module}.{getattr(value, "__qualname__", value)}>'
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise errors.ConfigError(
        f'A setting has to be a plain value or a function, not {value!r}.'
    )


def _parse(text: str, source: str = 'The value') -> Any:
    """Read YAML that holds nothing but plain values."""
    try:
        value = _yaml().load(text)
    except ruamel.yaml.error.YAMLError as error:
        raise errors.ConfigError(
            f'{source} is not plain YAML: {error}'
        ) from None
    except RecursionError:
        raise errors.ConfigError(f'{source} is nested too deeply.') from None
    _require_plain(value, source, [0], 0)
    return value


def _require_plain(
    value: Any, source: str, count: list[int], depth: int
) -> None:
    count[0] += 1
    if depth > MAX_DEPTH or count[0] > MAX_VALUES:
        raise errors.ConfigError(f'{source} is too deep or too large.')
    if isinstance(value, dict):
        for key, part in value.items():
            if not isinstance(key, str):
                raise errors.ConfigError(f'{source} has a key {key!r}.')
            _require_plain(part, source, count, depth + 1)
    elif isinstance(value, list):
        for part in value:
            _require_plain(part, source, count, depth + 1)
    elif not (value is None or isinstance(value, (bool, int, float, str))):
        raise errors.ConfigError(
            f'{source} holds a {type(value).__name__}, which is not plain.'
        )


def _yaml() -> ruamel.yaml.YAML:
    yaml = ruamel.yaml.YAML(typ='safe', pure=True)
    yaml.default_flow_style = None
    yaml.sort_base_mapping_type_on_output = False
    return yaml
