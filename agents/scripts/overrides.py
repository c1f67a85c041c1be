"""Replaces settings by what the command line says."""

from collections.abc import Sequence

from agents.scripts import checks, plain_yaml
from agents.tools import errors
from agents.tools.attr_dict import AttrDict


def apply(config: AttrDict, texts: Sequence[str]) -> AttrDict:
    """Replace values of a configuration by `key=value` texts.

    A value is read as YAML and has to be one that the setting may have.
    """
    changes = {}
    for override in texts:
        key, equals, text = override.partition('=')
        if not equals:
            raise errors.ConfigError(
                f'Expected --set key=value, not --set {override}.'
            )
        errors.require_known('setting', key, sorted(config))
        value = plain_yaml.parse(text, f'The value of {key}')
        changes[key] = checks.convert_value(key, value, config[key])
    return config.copy(**changes)
