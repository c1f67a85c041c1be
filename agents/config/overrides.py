"""Replacement of settings by options of the command line."""

from collections.abc import Sequence
from typing import Any

from agents.config import checks, plain_yaml
from agents.config.settings import SYNONYMS
from agents.tools import errors
from agents.tools.attr_dict import AttrDict


def apply(config: AttrDict, texts: Sequence[str]) -> AttrDict:
    """Replace values of a configuration by `key=value` texts.

    Values are parsed as YAML and must be valid for the setting.
    """
    changes = {}
    for override in texts:
        key, text = split(override, '--set')
        value = _read(config, key, text)
        changes[key] = checks.convert_value(key, value, config[key])
    return config.copy(**changes)


def parse_list(config: AttrDict, key: str, text: str) -> list[Any]:
    """Parse values of a setting, separated by commas."""
    return convert_list(config, key, _read(config, key, f'[{text}]'))


def convert_list(config: AttrDict, key: str, values: Sequence[Any]) -> list[Any]:
    """Convert and validate values of a setting."""
    errors.require_known('setting', key, sorted(config), SYNONYMS)
    return [checks.convert_value(key, each, config[key]) for each in values]


def split(text: str, option: str) -> tuple[str, str]:
    """Split `key=value` into name and value."""
    key, equals, value = text.partition('=')
    if not equals:
        raise errors.ConfigError(f'Expected {option} key=value, not {option} {text}.')
    return key, value


def _read(config: AttrDict, key: str, text: str) -> Any:
    errors.require_known('setting', key, sorted(config), SYNONYMS)
    return plain_yaml.parse(text, f'The value of {key}')
