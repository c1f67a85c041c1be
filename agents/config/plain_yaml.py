"""YAML with plain values only.

Texts may come from strangers. They are scanned before anything is constructed: tags, which could
name code, and aliases, which could expand without end, are refused, and so is what is too deep or
too large.
"""

import io
import numbers
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import ruamel.yaml

from agents.tools import errors

# Limits for texts that may come from strangers.
MAX_VALUES = 5_000
MAX_DEPTH = 10

# What becomes of values of other types, such as NumPy's float32.
PLAIN_TYPES: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (bool, bool),
    (numbers.Integral, int),
    (numbers.Real, float),
    (str, str),
)


def parse(text: str, source: str) -> Any:
    """Parse a text; errors name its source."""
    try:
        _require_small(_yaml().parse(text), source)
        value = _yaml().load(text)
    except ruamel.yaml.error.YAMLError as error:
        problem = getattr(error, 'problem', None) or str(error).splitlines()[0]
        raise errors.ConfigError(f'{source} is not plain YAML: {problem}.') from error
    except errors.ConfigError:
        raise
    except (TypeError, ValueError) as error:  # Such as a list for a key.
        raise errors.ConfigError(f'{source} is not plain YAML: {error}.') from error
    _require_plain(value, source)
    return value


def format_value(value: Any, in_one_line: bool = False) -> str:
    """Format a plain value.

    In one line it is meant to be displayed: unprintable characters are escaped.
    """
    yaml = _yaml()
    if not in_one_line:
        return _dump(yaml, value)
    yaml.default_flow_style, yaml.width = True, sys.maxsize
    text = _dump(yaml, value)
    if text.isprintable():
        return text
    yaml.allow_unicode = False
    return _dump(yaml, value)


def simplify(value: Any) -> Any:
    """Convert the value of a setting to plain values.

    A function becomes its name in angle brackets.
    """
    if callable(value):
        module = getattr(value, '__module__', '?')
        named = value if hasattr(value, '__qualname__') else type(value)
        return f'<function {module}.{named.__qualname__}>'
    if isinstance(value, Mapping):
        return {str(key): simplify(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [simplify(part) for part in value]
    for kind, plain_type in PLAIN_TYPES:
        if isinstance(value, kind):
            return plain_type(value)
    if value is None:
        return value
    raise errors.ConfigError(
        f'A setting must be a plain value or a function, got {value!r}. Convert it.'
    )


def bare_name(text: str) -> str:
    """Remove the angle brackets around the name of a function."""
    return re.sub('^<function (.*)>$', r'\1', text)


def names_function(value: Any) -> bool:
    """Return whether a plain value contains the name of a function."""
    if isinstance(value, (dict, list)):
        parts = value.values() if isinstance(value, dict) else value
        return any(names_function(part) for part in parts)
    return isinstance(value, str) and value.startswith('<function ')


def _require_small(events: Iterable[ruamel.yaml.events.Event], source: str) -> None:
    """Scan a text for forbidden elements and limits."""
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
        raise errors.ConfigError(f'{source} holds a {type(value).__name__}, which is not plain.')


def _dump(yaml: ruamel.yaml.YAML, value: Any) -> str:
    text = io.StringIO()
    yaml.dump(value, text)
    return text.getvalue().removesuffix('...\n').strip()


def _yaml() -> ruamel.yaml.YAML:
    yaml = ruamel.yaml.YAML(typ='safe', pure=True)
    yaml.sort_base_mapping_type_on_output = False
    return yaml
