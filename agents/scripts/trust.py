"""Tells which values of a run's file can be used.

The file may come from a stranger, and a value may name code that would be run.
"""

import pathlib
import re
import shlex
from typing import Any

from agents.scripts import env_setup, plain_yaml
from agents.tools import errors

# Settings that may name code; all others are looked up among what there is.
ENV, KWARGS = MAY_NAME_CODE = 'env', 'env_kwargs'

# Environments by a module that is an extra of this package, and no other.
ATARI = r'ale_py:ALE/[\w-]+'

# How much of a value is shown, and how long one may be that is to be pasted: it
# has to be whole.
MOST_CHARACTERS = 300


def is_trusted(key: str, value: Any, own: Any) -> bool:
    """Whether a value of a file can be used.

    Args:
        key: Name of the setting.
        value: Its value in the file.
        own: What the caller has in its place, as a plain value.
    """
    if plain_yaml.names_function(value):
        # The function comes from the caller, if there is one.
        return plain_yaml.names_function(own)
    return value == own or not _may_name_code(key, value)


def refuse(
    key: str, value: Any, hint: str, directory: pathlib.Path
) -> errors.ConfigError:
    """Make the error that tells how a value could be used after all.

    Args:
        key: Name of the setting.
        value: Its value in the file.
        hint: What is told of the value that the caller has, if any.
        directory: Directory of the file.
    """
    if plain_yaml.names_function(value):
        cure = (
            'Give the config that defines it, as --config=file.py:function '
            '(config= in Python), or the environment, as '
            '--env=file.py:function.'
        )
    else:
        cure = _advise(key, value)
    shown = errors.shorten(repr(value), MOST_CHARACTERS)
    return errors.ConfigError(
        f'The setting {key!r} of {directory} is {shown}, which may run code '
        f'and cannot be trusted in a file{hint}. {cure}'
    )


def _advise(key: str, value: Any) -> str:
    """Say how to ask for a value that has no functions."""
    text = plain_yaml.format_value(value, in_one_line=True)
    argument = shlex.quote(f'{key}={text}')  # To be pasted into a shell.
    if len(argument) > MOST_CHARACTERS:
        return f'If you trust it, give a config that has the same {key}.'
    return f'If you trust it, ask for it as well: --set {argument}'


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
    for prefix in (env_setup.NATIVE, env_setup.VECTOR, env_setup.ENVPOOL):
        if value.startswith(prefix):
            value = value.removeprefix(prefix)
            break
    return key == ENV and ':' in value and not re.fullmatch(ATARI, value)
