"""The settings of a run as hyperparameters, which TensorBoard compares."""

import html
import re
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


def as_markdown(config: Mapping[str, Any]) -> str:
    """Format all settings as a table in Markdown."""
    rows = ['| setting | value |', '| --- | --- |']
    for key in sorted(config):
        value = plain_yaml.simplify(config[key])
        text = plain_yaml.format_value(value, in_one_line=True)
        rows.append(f'| {_escape(key)} | {_escape(text)} |')
    return '\n'.join(rows)


def _escape(text: str) -> str:
    """Keep Markdown from reading anything into a text."""
    plain = html.escape(' '.join(text.split()), quote=False)
    return re.sub(r'([\\`*_{}\[\]()#+.!|-])', r'\\\1', plain)
