"""The settings of a run as hyperparameters, which TensorBoard compares."""

from collections.abc import Mapping
from typing import Any

from agents.scripts import plain_yaml


def of_config(config: Mapping[str, Any]) -> dict[str, bool | float | str]:
    """The settings that are plain values, lists and dictionaries as texts.

    Without functions, and without what is None.
    """
    found: dict[str, bool | float | str] = {}
    for key, value in config.items():
        value = plain_yaml.simplify(value)
        if value in (None, [], {}) or plain_yaml.names_function(value):
            continue
        if isinstance(value, (dict, list)):
            value = plain_yaml.format_value(value, in_one_line=True)
        found[key] = value
    return found
