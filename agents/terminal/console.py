"""Output of a run on the terminal."""

import contextlib
import io
import os
import pathlib
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from agents.tools import errors

if TYPE_CHECKING:  # It imports rich, which only terminals need.
    from agents.terminal.display import Display

# Says that what this process prints is shown on a terminal, if not by itself,
# and how wide it is.
TERMINAL = 'AGENTS_TERMINAL'

# Seconds between two renewals of what goes on.
RENEW_SECONDS = 0.25

# Columns of the topic that a line begins with.
TOPIC = 11


class View(NamedTuple):
    """Live display below the lines of a terminal.

    Attributes:
        topic: Activity in one word.
        text: Details.
        done: Fraction that is done, for a bar, or None.
        facts: Numbers with their names, the most important first.
    """

    topic: str
    text: str = ''
    done: float | None = None
    facts: tuple[str, ...] = ()


class Console:
    """Prints lines, and a live display below them if the output is a terminal.

    The display is active within the context of this object, and leaves nothing behind.

    Args:
        stream: Stream to print to; None for no output.
    """

    def __init__(self, stream: TextIO | None):
        self._stream = stream
        # A launcher of several ranks prints on the terminal what they print.
        self._columns = int(os.environ.get(TERMINAL) or 0)
        self._terminal = stream is not None and (stream.isatty() or bool(self._columns))
        self._view: Callable[[], View | None] = lambda: None
        self._display: Display | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._ticker: threading.Thread | None = None

    @property
    def width(self) -> int | None:
        """Width of the terminal in columns; None if the output is no terminal."""
        if not self._terminal:
            return None
        return self._columns or shutil.get_terminal_size().columns

    @property
    def is_live(self) -> bool:
        """True if the terminal can show a live display."""
        plain = os.environ.get('TERM', '') in ('', 'dumb', 'unknown')
        return self._terminal and not plain

    def __enter__(self) -> 'Console':
        if self.is_live:
            self._ticker = threading.Thread(target=self._tick, daemon=True)
            self._ticker.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def say(self, topic: str, text: str, wrap: bool = True) -> None:
        """Print a line, wrapped on a terminal.

        Args:
            topic: First word of the line.
            text: Rest of the line.
            wrap: Wrap the line; commands to be copied are not.
        """
        if self.width and wrap:
            room = max(self.width - TOPIC, TOPIC)
            lines = text.split('\n')
            parts = [part for line in lines for part in _wrap(line, room)]
            text = f'\n{"":<{TOPIC}}'.join(parts)
        self.print(f'{topic:<{TOPIC}}{text}')

    def print(self, text: str) -> None:
        """Print lines.

        They may quote files of strangers, so that control characters are escaped.
        """
        text = '\n'.join(map(errors.escape, text.split('\n')))
        with self._lock:
            if self._display:
                self._display.print(text)
            else:
                self._write(f'{text}\n')

    def show(self, view: Callable[[], View | None]) -> None:
        """Show the result of a function in the live display from now on.

        Args:
            view: Called a few times a second from another thread; returns None to show nothing.
        """
        self._view = view

    def close(self) -> None:
        """End the live display; lines are still printed."""
        self._ended.set()
        if self._ticker:
            # It waits for a terminal that has been stopped.
            self._ticker.join(2 * RENEW_SECONDS)

    def _tick(self) -> None:
        before = None
        try:
            while not self._ended.wait(RENEW_SECONDS):
                view = self._view()
                if view is not None and view != before:
                    self._renew(view)
                before = view
        finally:
            with self._lock:
                if self._display:
                    self._display.close()
                    self._display = None

    def _renew(self, view: View) -> None:
        if self._display is None:
            from agents.terminal.display import Display

            assert self._stream is not None
            started = Display(_Guarded(self), self._columns or None)
            with self._lock:
                self._display = started
        with self._lock:
            self._display.show(view)

    def _write(self, text: str) -> None:
        if self._stream is not None:
            try:
                self._stream.write(text)
                self._stream.flush()
            except OSError:
                # The reader is gone, as `| tee` is by Ctrl-C, or the terminal.
                # From now on this goes nowhere, and so does what Python has
                # still to write.
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self._stream.fileno())
                os.close(nowhere)


def _wrap(line: str, width: int) -> list[str]:
    """Wrap a line between words; long words stay whole."""
    parts = textwrap.wrap(
        errors.escape(line), width, break_long_words=False, break_on_hyphens=False
    )
    return parts or ['']


class _Guarded:
    """Stream of a console whose reader may be gone."""

    def __init__(self, console: Console):
        self.write = console._write
        self._stream = console._stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def on_terminal(shown: bool = True) -> Console:
    """Return the console of this process; silent on all ranks but one."""
    if not shown:
        return silent()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors='replace')  # Not all terminals have ×.
    return Console(sys.stdout)


def complain(text: str) -> None:
    """Print an error, unless its reader is gone."""
    with contextlib.suppress(OSError):
        print(f'error: {text}', file=sys.stderr, flush=True)


def silent() -> Console:
    return Console(None)


def short(path: pathlib.Path) -> str:
    """Return a path relative to the working directory if it is below."""
    here = pathlib.Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def duration(seconds: float) -> str:
    """Format seconds as hours, minutes and seconds, as in 1:02:03."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f'{hours}:{minutes:02}:{seconds:02}' if hours else f'{minutes}:{seconds:02}'


def score(value: float, beside: float | None = None) -> str:
    """Format a score with three digits or more.

    Args:
        value: Score, or its standard deviation.
        beside: Number that it is shown with, for the same number of decimals.
    """
    size = abs(value if beside is None else beside)
    if size >= 1e6:
        return f'{value:.4g}'
    decimals = 3 if size < 1 else 2 if size < 10 else 1
    return f'{value:,.{decimals}f}'


def process_start() -> float:
    """Return the start of this process, in the time of `time.perf_counter`."""
    try:
        with open('/proc/self/stat') as file:
            ticks = int(file.read().rpartition(')')[2].split()[19])
        started = ticks / os.sysconf('SC_CLK_TCK')
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - started
    except (OSError, AttributeError):
        age = time.process_time()  # Which has passed at least.
    return time.perf_counter() - age
