"""What a run tells its user on the terminal."""

import contextlib
import io
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, TextIO

# Says that what this process prints is shown on a terminal, if not by itself,
# and how wide it is.
TERMINAL = 'AGENTS_TERMINAL'

# Seconds between two renewals of the live line, and after which it tells what
# takes so long.
RENEW_SECONDS = 0.2
BUSY_SECONDS = 1.0


class Console:
    """Prints lines, and one that is renewed if the output is a terminal.

    As a context it also counts the seconds of what takes long.

    Args:
        stream: Where to print to; None is nowhere.
    """

    def __init__(self, stream: TextIO | None):
        self._stream = stream
        # A launcher of several ranks prints on the terminal what they print.
        self._columns = int(os.environ.get(TERMINAL) or 0)
        self._terminal = stream is not None and (
            stream.isatty() or bool(self._columns)
        )
        self._live = ''
        self._renewed = 0.0
        self._busy: tuple[str, str, float] | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._ticker: threading.Thread | None = None

    @property
    def width(self) -> int | None:
        """How many columns the terminal has; None if it is no terminal."""
        if not self._terminal:
            return None
        return self._columns or shutil.get_terminal_size().columns

    def __enter__(self) -> 'Console':
        if self._terminal:
            self._ticker = threading.Thread(target=self._tick, daemon=True)
            self._ticker.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._ended.set()
        if self._ticker:
            self._ticker.join()

    def say(self, topic: str, text: str) -> None:
        """Print a line that stays."""
        self.print(f'{topic:<11}{text}')

    def print(self, text: str) -> None:
        """Print lines that stay, as they are."""
        with self._lock:
            self._erase()
            self._print(f'{text}\n')

    def live(self, topic: str, text: str) -> None:
        """Print a line that the next one replaces; not without a terminal."""
        now = time.monotonic()
        if self._terminal and now - self._renewed > RENEW_SECONDS:
            with self._lock:
                self._renewed = now
                self._erase()
                self._live = f'{topic:<11}{text}'
                self._print(self._live)

    @contextlib.contextmanager
    def busy(self, topic: str, text: str) -> Iterator[None]:
        """Tell in the live line what goes on, if it takes long."""
        self._busy = topic, text, time.monotonic()
        try:
            yield
        finally:
            self._busy = None

    def _tick(self) -> None:
        while not self._ended.wait(BUSY_SECONDS):
            if busy := self._busy:
                topic, text, since = busy
                seconds = time.monotonic() - since
                if seconds >= BUSY_SECONDS:
                    self.live(topic, f'{text}, {seconds:.0f} s')

    def _erase(self) -> None:
        if self._live:
            self._print('\r' + ' ' * len(self._live) + '\r')
            self._live = ''

    def _print(self, text: str) -> None:
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


def duration(seconds: float) -> str:
    """Hours, minutes and seconds, as in 1:02:03."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f'{hours}:{minutes:02}:{seconds:02}'
        if hours
        else f'{minutes}:{seconds:02}'
    )


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
