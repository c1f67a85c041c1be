"""Handling of Ctrl-C, SIGTERM and SIGHUP, also during compiled programs."""

import contextlib
import io
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from agents.terminal import console
from agents.tools import errors
from agents.tools.workers import processes

if TYPE_CHECKING:  # It takes long to import.
    from agents.tools.world import World

# Of a terminal that is closed there is a signal on most systems, not on all.
NAMES = 'SIGINT', 'SIGTERM', 'SIGHUP'
SIGNALS = tuple(getattr(signal, name) for name in NAMES if hasattr(signal, name))

# Seconds after which is said what keeps the main thread from stopping.
PATIENCE = 1.0

# Seconds to wait for somebody to read what is said.
TELL_SECONDS = 0.5

# Seconds after which is said that something keeps this process from ending, and
# after which it is ended. Exit handlers may have much to send somewhere.
SAID_SECONDS, ENDED_SECONDS = 10.0, 600.0

# What ends the thread that hears signals: the number of no signal.
END = b'\0'

# The contexts in which signals are heard, the innermost last.
_ACTIVE: list['Interrupts'] = []


class Interrupts:
    """Context in which a first signal stops the activity, and a second one exits.

    The first signal raises KeyboardInterrupt in the main thread once it runs Python, and calls
    functions from another thread, which works even while the main thread is in a compiled program.
    An ignored SIGHUP, as by nohup, stays ignored.

        with Interrupts('saving') as signals:
            signals.call(batch_env.cancel)
            with signals.during('finishing the update', hold=True):
                update()

    Outside of the context, signals are not handled and all methods do nothing.

    On several ranks, only the first handles signals. At first a signal ends all ranks; after
    `stop_together`, all stop where they next `agree`.

    Args:
        aim: What a signal leads to, for the message.
        ranks: Ranks that stop together, by default this process.
        quiet: Print nothing at a first signal.
    """

    def __init__(self, aim: str = 'stopping', ranks: 'World | None' = None, quiet: bool = False):
        self.signal: int | None = None
        self.raised = False
        self.agreed = False  # Whether all ranks stop.
        self._aim = aim
        self._quiet = quiet
        self._doing = ''
        self._held = False
        self._told = threading.Event()
        self._callbacks: list[Callable[[], None]] = []
        self._last: list[Callable[[], None]] = []
        self._before: dict = {}
        self._problems = sys.stderr
        self._ranks = ranks or _alone()
        self._together = False

    def stop_together(self) -> None:
        """Raise only where all ranks agree from now on."""
        self._together = self._ranks.size > 1

    def agree(self) -> None:
        """Raise KeyboardInterrupt on all ranks if the first received a signal."""
        if self._together:
            found = self._ranks.share(self.signal)
            if found is not None:
                self.signal, self.agreed = found, True
                self._raise()

    def call(self, callback: Callable[[], None]) -> None:
        """Call a function at the first signal, from another thread."""
        self._callbacks.append(callback)
        if self.signal is not None:
            callback()

    def call_last(self, callback: Callable[[], None]) -> None:
        """Call a function at the second signal, before the process ends."""
        self._last.append(callback)

    def cancel(self) -> None:
        """Call the functions of the first signal."""
        for callback in self._callbacks:
            callback()

    @contextlib.contextmanager
    def during(self, doing: str, hold: bool = False) -> Iterator[None]:
        """Mark an activity that cannot be interrupted while it is compiled code.

        Args:
            doing: Message if it continues after a signal.
            hold: Delay the exception to the end of the activity, which must not be left unfinished.
        """
        for number in self._before:
            if signal.getsignal(number) in (signal.SIG_DFL, signal.SIG_IGN):
                signal.signal(number, self._handle)  # An environment did that.
        self._doing, self._held = doing, hold
        try:
            yield
        finally:
            self._doing, self._held = '', False
        if self.signal is not None and not self._together:
            self._raise()

    def disarm(self) -> None:
        """Raise nothing from now on."""
        self.raised = True
        sys.stderr = self._problems
        if self.signal is not None and self._ranks.is_first:
            self._told.wait(2 * TELL_SECONDS)  # It is said before what follows.

    def __enter__(self) -> 'Interrupts':
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        for number in SIGNALS:
            if number == signal.SIGINT or is_heard(number):
                self._before[number] = signal.signal(number, self._handle)
        self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        _ACTIVE.append(self)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.disarm()
        self._stop_hearing()
        # The end of the pipe does not end the thread where a process that an
        # environment has forked holds the pipe as well. An environment may
        # also have closed it.
        with contextlib.suppress(OSError):
            os.write(self._write, END)
            os.close(self._write)
        self._listener.join(PATIENCE)

    def _stop_hearing(self) -> None:
        """Restore the previous signal handlers."""
        _ACTIVE.remove(self)
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: object) -> None:
        """Handle a signal in the main thread, once it runs Python."""
        if not self._ranks.is_first:
            return
        self.signal = self.signal or number
        if not self._held and not self._together:
            self._raise()

    def _raise(self) -> None:
        if not self.raised:
            self.raised = True
            # Libraries that do not expect it print what they think of it.
            self._problems, sys.stderr = sys.stderr, io.StringIO()
            raise KeyboardInterrupt

    def _listen(self) -> None:
        number = self._next()
        if number:
            self.signal = self.signal or number
            name = signal.Signals(number).name
            if not self._quiet:
                _tell(f'\n{name}: {self._aim}; once more to exit at once.')
            self._told.set()
            self.cancel()
            again, _, _ = select.select([self._read], [], [], PATIENCE)
            if self._doing and not (again or self._quiet):
                _tell(f'{"":<11}{self._doing} first')
            number = self._next()
        if number:
            for callback in self._last:
                callback()
            # Workers die with their parent, but for one that is just being
            # ended and does not hear of it.
            processes.kill_descendants(os.getpid())
            _tell(' Ended at once.', self._problems)
            os._exit(128 + number)
        os.close(self._read)

    def _next(self) -> int | None:
        """Wait for the next signal; returns None at the end of the context."""
        while (number := os.read(self._read, 1)) not in (END, b''):
            if number[0] in self._before and self._ranks.is_first:
                return number[0]
        return None


def current() -> Interrupts:
    """Return the innermost context; outside of any, one that does nothing."""
    return _ACTIVE[-1] if _ACTIVE else Interrupts()


def _leave_to_parent() -> None:
    """Disable signal handling in a forked process.

    It would write its signals into the pipe of its parent.
    """
    for active in reversed(_ACTIVE.copy()):
        active._stop_hearing()


os.register_at_fork(after_in_child=_leave_to_parent)


def run(command: Callable[[], None], quiet: bool = False, mistake: int = 1) -> int:
    """Run a command; returns its exit code and prints user errors as one line.

    Args:
        command: Function to run; `current` returns its signal context.
        quiet: Print errors only.
        mistake: Exit code after a user error.
    """
    with Interrupts(quiet=quiet) as signals:
        try:
            command()
        except (Exception, KeyboardInterrupt) as error:
            # What is interrupted may raise anything, such as a pipe's error.
            if signals.signal or isinstance(error, KeyboardInterrupt):
                return 128 + (signals.signal or signal.SIGINT)
            if not isinstance(error, errors.UserError):
                raise
            console.complain(str(error))
            return mistake
    return 0


def limit_exit(code: int) -> int:
    """Exit even if threads, processes or exit handlers of an environment do not end.

    Args:
        code: Exit code.

    Returns:
        Exit code.
    """

    def end() -> None:
        time.sleep(SAID_SECONDS)
        _tell(
            'All is done, but threads, processes or exit handlers of an '
            'environment or a callback go on; Ctrl-C ends them.',
            sys.stderr,
        )
        time.sleep(ENDED_SECONDS - SAID_SECONDS)
        os._exit(code)

    threading.Thread(target=end, daemon=True).start()
    return code


def _alone() -> 'World':
    from agents.tools import world

    return world.ALONE


def is_heard(number: int) -> bool:
    """Return whether a signal is not ignored, as by nohup."""
    return signal.getsignal(number) != signal.SIG_IGN


def _tell(text: str, stream: TextIO | None = None) -> None:
    """Print a line, without blocking for long."""

    def write() -> None:
        # The reader may be gone, as `| tee` is by the same Ctrl-C.
        with contextlib.suppress(OSError, ValueError):
            to = stream or sys.stdout
            to.write(f'{text}\n')
            to.flush()

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    thread.join(TELL_SECONDS)
