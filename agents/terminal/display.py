"""Live display below the lines of a terminal, by `rich`, which is imported on terminals only."""

import textwrap
from collections.abc import Iterator
from typing import Any

import rich.console
import rich.live
import rich.progress_bar
import rich.table
import rich.text

from agents.terminal.console import TOPIC, View
from agents.tools import errors

# Rows of facts at most, and columns below which there is no bar.
MOST_ROWS = 4
NARROW = 40

# What facts are apart.
GAP = '   '


class Display:
    """Shows a view at the bottom of a terminal; lines scroll above it.

    Args:
        stream: Terminal.
        columns: Width, by default that of the terminal.
    """

    def __init__(self, stream: Any, columns: int | None = None):
        self._screen = _Screen(file=stream, force_terminal=True, width=columns)
        self._live = rich.live.Live(
            console=self._screen, auto_refresh=False, transient=True, redirect_stderr=False
        )
        self._live.start()

    def show(self, view: View) -> None:
        self._live.update(_Drawn(view), refresh=True)

    def print(self, text: str) -> None:
        """Print lines above the display."""
        self._screen.out(text, highlight=False)

    def close(self) -> None:
        """Remove the display."""
        self._live.stop()


class _Screen(rich.console.Console):
    """Console of rich that keeps the cursor visible, in case the process is killed."""

    def show_cursor(self, show: bool = True) -> bool:
        return False


class _Drawn:
    """View as a renderable of rich."""

    def __init__(self, view: View):
        self._view = view

    def __rich_console__(
        self, console: rich.console.Console, options: rich.console.ConsoleOptions
    ) -> Iterator[rich.console.RenderableType]:
        width = options.max_width - 1  # Not all terminals have the last.
        yield self._first_row(width)
        for row in _pack(self._view.facts, width - TOPIC)[:MOST_ROWS]:
            yield _line(f'{"":<{TOPIC}}{row}', width)

    def _first_row(self, width: int) -> rich.console.RenderableType:
        view = self._view
        beginning = f'{view.topic:<{TOPIC}}'
        room = width - len(beginning) - len(view.text) - len(GAP)
        if view.done is None or width < NARROW or room < len(GAP):
            return _line(f'{beginning}{view.text}', width)
        bar = rich.progress_bar.ProgressBar(1.0, view.done, width=room)
        row = rich.table.Table.grid(padding=0)
        row.add_row(_line(beginning), bar, _line(f'{GAP}{view.text}'))
        return row


def _line(text: str, width: int | None = None) -> rich.text.Text:
    return rich.text.Text(errors.escape(text)[:width], no_wrap=True)


def _pack(facts: tuple[str, ...], width: int) -> list[str]:
    """Arrange facts in rows of limited width."""
    rows: list[str] = []
    for fact in facts:
        joined = f'{rows[-1]}{GAP}{fact}' if rows else fact
        if rows and len(joined) <= width:
            rows[-1] = joined
        else:
            rows.append(textwrap.shorten(fact, max(width, 5), placeholder='…'))
    return rows
