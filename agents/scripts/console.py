"""What a run tells its user on the terminal."""

import io
import os
import sys
import time
from typing import TextIO

# Seconds between two renewals of the live line.
RENEW_SECONDS = 0.2


class Console:
    """Prints lines, and one that is renewed if the output is a terminal.

    Args:
        stream: Where to print to; None is nowhere.
    """

    def __init__(self, stream: TextIO | None):
        self._stream = stream
        self._terminal = stream is not None and stream.isatty()
        self._live = ''
        self._renewed = 0.0

    def say(self, topic: str, text: str) -> None:
        """Print a line that stays."""
        self._erase()
        self._print(f'{topic:<11}{text}\n')

    def live(self, topic: str, text: str) -> None:
        """Print a line that the next one replaces; not without a terminal."""
        now = time.monotonic()
        if self._terminal and now - self._renewed > RENEW_SECONDS:
            self._renewed = now
            self._erase()
            self._live = f'{topic:<11}{text}'
            self._print(self._live)

    def _erase(self) -> None:
        if self._live:
            self._print('\r' + ' ' * len(self._live) + '\r')
            self._live = ''

    def _print(self, text: str) -> None:
        if self._stream is not None:
            try:
                self._stream.write(text)
                self._stream.flush()
            except BrokenPipeError:
                # The reader is gone, as `| tee` is by Ctrl-C. From now on this
                # goes nowhere, and so does what Python has still to write.
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self._stream.fileno())
                os.close(nowhere)


def on_terminal() -> Console:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors='replace')  # Not all terminals have ×.
    return Console(sys.stdout)


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
