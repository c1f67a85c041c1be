"""Lookup of configs and functions by name."""

import functools
import importlib
import importlib.util
import inspect
import os
import pathlib
import re
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any

from agents.config.settings import use_whole_numbers
from agents.tools import errors
from agents.tools.attr_dict import AttrDict

# The module of the configs that are found by their names alone.
CONFIGS = 'agents.scripts.configs'

# Functions that were found in files, and settings that functions of files have
# made, each with a text that finds it again.
_found: list[tuple[Any, str]] = []
_made: list[tuple[Any, str]] = []


def find_config(name: str) -> Callable[[], AttrDict]:
    """Return a function of `configs.py`, or of a file given as `file.py:function`."""
    if ':' in name:
        function = find_in_file(*name.rsplit(':', 1))
        return functools.partial(_call, function, name)
    known = list_configs()
    if name not in known:
        raise errors.ConfigError(
            f'There is no config {name!r}{errors.nearest(name, known)} `agents '
            'configs` lists those that there are; your own is '
            '--config=file.py:function.'
        )
    return getattr(configs(), name)


def list_configs() -> list[str]:
    """Return the names of the configs in `configs.py`."""
    module = configs()
    return [
        name
        for name, value in vars(module).items()
        if getattr(value, '__module__', None) == module.__name__
        and not inspect.signature(value).parameters  # Which helpers have.
    ]


def configs() -> types.ModuleType:
    """Return the module of the configs."""
    return importlib.import_module(CONFIGS)


def find_in_file(file: str, name: str) -> Callable[..., Any]:
    """Return a function or class of a file, which is executed for it."""
    import cloudpickle  # It takes long, and names alone do not need it.

    path = pathlib.Path(file)
    if not path.exists():
        raise errors.ConfigError(f'There is no file {file!r} to take {name!r} from.')
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise errors.ConfigError(f'{file!r} is not a Python file.')
    module = importlib.util.module_from_spec(spec)
    # Its classes and functions are sent to workers by value, since those could
    # not import it under this name, and so without what else it imports.
    sys.modules[spec.name] = module
    cloudpickle.register_pickle_by_value(module)
    sys.path.insert(0, str(path.parent.resolve()))  # As if it were run.
    if re.search(r'^\s*(import|from) (keras|tensorflow)\b', _read(path), re.M):
        importlib.import_module('agents.tools.graph.backend')  # Sets them up.
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _blame(path, error) from error
    names = [key for key, value in vars(module).items() if callable(value)]
    if name not in names:
        raise errors.ConfigError(
            f'There is no function {name!r} in {file}{errors.nearest(name, names)}'
        )
    function = getattr(module, name)
    _found.append((function, absolute(f'{file}:{name}')))
    return function


def absolute(text: str) -> str:
    """Return `file.py:function` with the absolute path of the file."""
    file, colon, function = text.rpartition(':')
    if not file.endswith('.py'):
        return text
    return f'{os.path.abspath(file)}{colon}{function}'


def locate(function: Callable) -> str | None:
    """Return a text by which `find_again` finds a function, or None."""
    for known, text in _found:
        if known is function:
            return text
    module = sys.modules.get(getattr(function, '__module__', None) or '')
    name = getattr(function, '__qualname__', '')
    file = getattr(module, '__file__', None)
    if module is None or not file or vars(module).get(name) is not function:
        return None
    if module.__name__ == '__main__':  # To import it would run the script.
        return None
    is_alone = file.endswith('.py') and not getattr(module, '__package__', '')
    # Others may import what is beside them in their package.
    return absolute(f'{file if is_alone else module.__name__}:{name}')


def find_source(value: Any) -> str | None:
    """Return a text that names the config with a setting, if a file defines it."""
    texts = (text for setting, text in _made if setting is value)
    return next(texts, None)


def find_again(text: str) -> Any:
    """Return the function for a text of `locate`, or the config for one of `find_source`."""
    place, _, name = text.removesuffix('()').rpartition(':')
    if place.endswith('.py'):
        module = sys.modules.get(pathlib.Path(place).stem)
        loaded = getattr(module, '__file__', None) == place
        found = vars(module).get(name) if loaded else None
        found = find_in_file(place, name) if found is None else found
        return _call(found, f'{place}:{name}') if text.endswith('()') else found
    try:
        return getattr(importlib.import_module(place), name)
    except (ImportError, AttributeError) as error:
        raise errors.ConfigError(f'Cannot find {text}: {error}.') from error


def _read(path: pathlib.Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):  # Running the file tells of it.
        return ''


def _call(function: Callable[[], AttrDict], name: str) -> AttrDict:
    """Call `file.py:function`, and report errors in that file."""
    file = name.rpartition(':')[0]
    try:
        config = function()
    except errors.UserError:
        raise
    except Exception as error:
        raise _blame(pathlib.Path(file), error) from error
    if not isinstance(config, AttrDict):
        raise errors.ConfigError(
            f'{file} returned {config!r} where settings were expected, such as '
            'those from agents.configs.ppo().'
        )
    config = use_whole_numbers(config)
    source = f'{absolute(name)}()'
    _made.extend((value, source) for value in config.values())
    return config


def _blame(path: pathlib.Path, error: Exception) -> errors.ConfigError:
    """Return an error with the line of a file that raised another error."""
    lines = [
        f' in line {frame.lineno}'
        for frame in traceback.extract_tb(error.__traceback__)
        if pathlib.Path(frame.filename) == path.absolute()
    ]
    where = lines[-1] if lines else ''
    return errors.ConfigError(f'{path} raised {type(error).__name__}{where}: {error}')
