"""What a run tells its user on the terminal."""

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
    """What is shown below the lines of a terminal, of what goes on.

    Attributes:
        topic: What is being done, in a word.
        text: More of it, behind the word.
        done: The share of it that is done, for a bar; None if it has none.
        facts: Numbers with their names, in the order of their importance.
    """

    topic: str
    text: str = ''
    done: float | None = None
    facts: tuple[str, ...] = ()


class Console:
    """Prints lines, and below them what goes on if the output is a terminal.

    That is renewed within its context only, after which nothing is left of it.

    Args:
        stream: Where to print to; None is nowhere.
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
        """How many columns the terminal has; None if it is no terminal."""
        if not self._terminal:
            return None
        return self._columns or shutil.get_terminal_size().columns

    @property
    def is_live(self) -> bool:
        """Whether what goes on can be shown; some terminals only go on."""
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
        """Print a line that stays, broken between words on a terminal.

        Args:
            topic: Word that the line begins with.
            text: The rest of the line.
            wrap: Whether to break it; commands to be copied are left whole.
        """
        if self.width and wrap:
            room = max(self.width - TOPIC, TOPIC)
            lines = text.split('\n')
            parts = [part for line in lines for part in _wrap(line, room)]
            text = f'\n{"":<{TOPIC}}'.join(parts)
        self.print(f'{topic:<{TOPIC}}{text}')

    def print(self, text: str) -> None:
        """Print lines that stay.

        They may quote a file of a stranger, so that what would move the cursor
        or change its color is escaped.
        """
        text = '\n'.join(map(errors.escape, text.split('\n')))
        with self._lock:
            if self._display:
                self._display.print(text)
            else:
                self._write(f'{text}\n')

    def show(self, view: Callable[[], View | None]) -> None:
        """Show what a function returns from now on, if it returns something.

        Args:
            view: Called a few times a second from another thread.
        """
        self._view = view

    def close(self) -> None:
        """Show no more of what goes on; lines are still printed."""
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
    """Break a line between words; one that is too long stays whole."""
    parts = textwrap.wrap(
        errors.escape(line), width, break_long_words=False, break_on_hyphens=False
    )
    return parts or ['']


class _Guarded:
    """The stream of a console as a file whose reader may be gone."""

    def __init__(self, console: Console):
        self.write = console._write
        self._stream = console._stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def on_terminal(shown: bool = True) -> Console:
    """What is shown on the terminal; of several ranks only one is."""
    if not shown:
        return silent()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors='replace')  # Not all terminals have ×.
    return Console(sys.stdout)


def complain(text: str) -> None:
    """Print an error, unless there is nobody to read it any more."""
    with contextlib.suppress(OSError):
        print(f'error: {text}', file=sys.stderr, flush=True)


def silent() -> Console:
    return Console(None)


def short(path: pathlib.Path) -> str:
    """A path as seen from here, if it is below."""
    here = pathlib.Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def duration(seconds: float) -> str:
    """Hours, minutes and seconds, as in 1:02:03."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f'{hours}:{minutes:02}:{seconds:02}' if hours else f'{minutes}:{seconds:02}'


def score(value: float, beside: float | None = None) -> str:
    """A score in three digits or more: some are thousands, some below one.

    Args:
        value: The score, or the deviation of one.
        beside: A number that it is shown with, to have as many decimals.
    """
    size = abs(value if beside is None else beside)
    if size >= 1e6:
        return f'{value:.4g}'
    decimals = 3 if size < 1 else 2 if size < 10 else 1
    return f'{value:,.{decimals}f}'


def process_start() -> float:
    """When this process was started, by `time.perf_counter`."""
    try:
        with open('/proc/self/stat') as file:
            ticks = int(file.read().rpartition(')')[2].split()[19])
        started = ticks / os.sysconf('SC_CLK_TCK')
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - started
    except (OSError, AttributeError):
        age = time.process_time()  # Which has passed at least.
    return time.perf_counter() - age
