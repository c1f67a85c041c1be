"""Finds configs by the names that a user gives them."""

import functools
import importlib.util
import inspect
import pathlib
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any

from agents.scripts import configs
from agents.scripts.settings import use_whole_numbers
from agents.tools import errors
from agents.tools.attr_dict import AttrDict


def find_config(name: str) -> Callable[[], AttrDict]:
    """Find a function of `configs.py`, or of a file as `file.py:function`."""
    if ':' in name:
        file, _, function = name.rpartition(':')
        return functools.partial(_call, find_in_file(file, function), file)
    known = list_configs()
    if name not in known:
        raise errors.ConfigError(
            f'There is no config {name!r}{errors.nearest(name, known)} `agents '
            'configs` lists those that there are; your own is '
            '--config=file.py:function.'
        )
    return getattr(configs, name)


def list_configs() -> list[str]:
    """List the experiments of `configs.py`."""
    return [
        name
        for name, value in vars(configs).items()
        if getattr(value, '__module__', None) == configs.__name__
        and not inspect.signature(value).parameters  # Which helpers have.
    ]


def find_in_file(file: str, name: str) -> Callable[..., Any]:
    """Find a function, or a class, of a file that is executed for it."""
    import cloudpickle  # It takes long, and names alone do not need it.

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
    if re.search(r'^\s*(import|from) (keras|tensorflow)\b', _read(path), re.M):
        importlib.import_module('agents.tools.graph.backend')  # Sets them up.
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _blame(path, error) from error
    names = [key for key, value in vars(module).items() if callable(value)]
    if name not in names:
        raise errors.ConfigError(
            f'There is no function {name!r} in {file}'
            f'{errors.nearest(name, names)}'
        )
    return getattr(module, name)


def _read(path: pathlib.Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):  # Running the file tells of it.
        return ''


def _call(function: Callable[[], AttrDict], file: str) -> AttrDict:
    """Call a function of a user's file, and tell of mistakes in that file."""
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
    return use_whole_numbers(config)


def _blame(path: pathlib.Path, error: Exception) -> errors.ConfigError:
    """Make an error that tells in which line of a file another was raised."""
    lines = [
        f' in line {frame.lineno}'
        for frame in traceback.extract_tb(error.__traceback__)
        if pathlib.Path(frame.filename) == path.absolute()
    ]
    where = lines[-1] if lines else ''
    return errors.ConfigError(
        f'{path} raised {type(error).__name__}{where}: {error}'
    )
