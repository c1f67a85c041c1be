"""Settings as text: for a terminal, the documentation and TensorBoard.

python -m agents.config.render > docs/settings.md
"""

import html
import numbers
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from agents.config import plain_yaml
from agents.config.settings import (
    ALGORITHM_GROUPS,
    SHARED_GROUPS,
    Group,
    Setting,
    find_defaults,
    list_groups,
)
from agents.tools.attr_dict import AttrDict

# A value that is longer pushes its meaning to the next line.
VALUE_WIDTH = 12

# Meanings do not become narrower, even if the terminal does.
MEANING_WIDTH = 30

LEGEND = (
    '* differs from the default, which stands in brackets. Change settings by --set name=value.'
)

INTRODUCTION = """\
# Settings

<!-- Written by: python -m agents.config.render > docs/settings.md -->

These are all settings, from the table in
[`settings.py`](../agents/config/settings.py). To see those of a config, with a
mark where they differ from the defaults, run

```sh
agents configs cheetah
```

A config replaces some, as in `configs.ppo(steps=500_000)`, and the command line
others, `--set steps=500_000`. Values are checked before anything starts.
"""


def format_columns(config: AttrDict, width: int | None = None) -> str:
    """Format the settings of a config: name, value and meaning.

    Args:
        config: Config.
        width: Width of the terminal; by default each setting is one line.
    """
    defaults = find_defaults(config.algorithm)
    name_width = max(map(len, config))
    room = None
    if width:
        room = max(MEANING_WIDTH, width - name_width - VALUE_WIDTH - 6)
    lines: list[str] = []
    for title, settings in _list_present(config):
        lines += ['', title]
        for name, setting in settings.items():
            value, default = config[name], defaults.get(name, config[name])
            changed = plain_yaml.simplify(value) != plain_yaml.simplify(default)
            mark, note = ' ', ''
            if changed:
                mark, note = '*', f'default {format_value(default)}'
            beginning = f'{mark} {name:<{name_width}}  '
            meaning = _describe(setting, note) if setting else ''
            lines += _align(beginning, format_value(value), meaning, room)
    lines += ['', *textwrap.wrap(LEGEND, width or len(LEGEND))]
    return '\n'.join(lines[1:])


def format_page() -> str:
    """Format the page of the documentation on all settings."""
    sections = [INTRODUCTION]
    for group in SHARED_GROUPS:
        sections.append(f'## {group.title}\n\n{_format_table(group)}')
    for algorithm, group in ALGORITHM_GROUPS.items():
        text = f'`configs.{algorithm}()`'
        for name, value in group.defaults.items():
            if name in group.settings:
                continue
            text += f', where `{name}` is {format_value(value)} by default'
        table = _format_table(list_groups(algorithm)[-1])
        sections.append(f'## {group.title}\n\n{text}.\n\n{table}')
    return '\n'.join(sections)


def format_value(value: Any) -> str:
    """Format a value as the command line accepts it."""
    plain = plain_yaml.simplify(value)
    if isinstance(plain, (dict, list, str)):
        return plain_yaml.format_value(plain, in_one_line=True)
    if type(plain) is int and abs(plain) >= 10_000:
        return f'{plain:_}'
    # Not the plain value, in which a float32 has digits that nobody wrote.
    return str(value if isinstance(value, numbers.Number) else plain)


def _list_present(config: AttrDict) -> Iterator[tuple[str, dict[str, Setting | None]]]:
    """Return the settings of a config by group, those of the user last."""
    own: dict[str, Setting | None] = dict.fromkeys(config)
    for group in list_groups(config.algorithm):
        yield group.title, dict(group.settings)
        for name in group.settings:
            del own[name]
    if own:
        yield 'Your own', own


def _describe(setting: Setting, note: str) -> str:
    """Format the meaning of a setting, with its unit and a note in brackets."""
    parts = ', '.join(part for part in (setting.unit, note) if part)
    return f'{setting.meaning} ({parts})' if parts else setting.meaning


def _align(beginning: str, value: str, meaning: str, room: int | None) -> Iterator[str]:
    """Format a value and its meaning in columns, on several lines if needed."""
    indent = ' ' * (len(beginning) + VALUE_WIDTH + 2)
    lines = [meaning]
    if room:
        lines = textwrap.wrap(meaning, room) or ['']
        if len(value) > VALUE_WIDTH:
            lines = ['', *lines]
    first, *rest = lines
    yield f'{beginning}{value:<{VALUE_WIDTH}}  {first}'.rstrip()
    for line in rest:
        yield f'{indent}{line}'


def _format_table(group: Group) -> str:
    """Format the settings of a group as a table in Markdown."""
    rows = ['| setting | default | unit | meaning | values |', '| --- | --- | --- | --- | --- |']
    for name, setting in group.settings.items():
        cells = (
            f'`{name}`',
            f'`{format_value(setting.default)}`',
            setting.unit,
            setting.meaning,
            setting.kind.describe(),
        )
        rows.append(f'| {" | ".join(cells)} |')
    return '\n'.join(rows) + '\n'


def as_hyperparameters(config: Mapping[str, Any]) -> dict[str, bool | float | str]:
    """Return settings with plain values for TensorBoard, lists and dictionaries as text.

    Without functions and None.
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
        rows.append(f'| {_escape_markdown(key)} | {_escape_markdown(text)} |')
    return '\n'.join(rows)


def _escape_markdown(text: str) -> str:
    """Escape a text for Markdown."""
    plain = html.escape(' '.join(text.split()), quote=False)
    return re.sub(r'([\\`*_{}\[\]()#+.!|-])', r'\\\1', plain)


if __name__ == '__main__':
    sys.stdout.write(format_page())
