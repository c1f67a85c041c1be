"""Replaces settings by what the command line says."""

from collections.abc import Sequence
from typing import Any

from agents.config import checks, plain_yaml
from agents.config.settings import SYNONYMS
from agents.tools import errors
from agents.tools.attr_dict import AttrDict


def apply(config: AttrDict, texts: Sequence[str]) -> AttrDict:
    """Replace values of a configuration by `key=value` texts.

    A value is read as YAML and has to be one that the setting may have.
    """
    changes = {}
    for override in texts:
        key, text = split(override, '--set')
        value = _read(config, key, text)
        changes[key] = checks.convert_value(key, value, config[key])
    return config.copy(**changes)


def parse_list(config: AttrDict, key: str, text: str) -> list[Any]:
    """Read values of a setting that commas separate, in the same way."""
    return convert_list(config, key, _read(config, key, f'[{text}]'))


def convert_list(config: AttrDict, key: str, values: Sequence[Any]) -> list[Any]:
    """Make each of some values one that a setting may have."""
    errors.require_known('setting', key, sorted(config), SYNONYMS)
    return [checks.convert_value(key, each, config[key]) for each in values]


def split(text: str, option: str) -> tuple[str, str]:
    """The name and the value in `key=value`."""
    key, equals, value = text.partition('=')
    if not equals:
        raise errors.ConfigError(f'Expected {option} key=value, not {option} {text}.')
    return key, value


def _read(config: AttrDict, key: str, text: str) -> Any:
    errors.require_known('setting', key, sorted(config), SYNONYMS)
    return plain_yaml.parse(text, f'The value of {key}')
