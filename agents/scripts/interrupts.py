"""Ctrl-C and SIGTERM, heard even while the graph is running."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import TracebackType

SIGNALS = signal.SIGINT, signal.SIGTERM


class Interrupts:
    """A context in which a signal calls a function, and a second one exits.

    Python runs the handler of a signal only when the main thread is back from
    the graph, which may take as long as a rollout. A thread of its own learns
    of it at once.

        with Interrupts() as interrupts:
            interrupts.call(batch_env.cancel)
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._callbacks: list[Callable[[], None]] = []
        self._read, self._write = os.pipe()
        self._before: dict = {}

    def call(self, callback: Callable[[], None]) -> None:
        """Call a function at the first signal, from another thread."""
        self._callbacks.append(callback)
        if self.signal is not None:
            callback()

    def __enter__(self) -> 'Interrupts':
        os.set_blocking(self._write, False)
        for number in SIGNALS:
            self._before[number] = signal.signal(number, lambda *_: None)
        self._wakeup = signal.set_wakeup_fd(
            self._write, warn_on_full_buffer=False
        )
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._write)  # Ends the thread.

    def _listen(self) -> None:
        while number := os.read(self._read, 1):
            if number[0] not in SIGNALS:
                continue
            if self.signal is not None:  # Workers die with their parent.
                with contextlib.suppress(OSError):
                    print(' Not saved.', file=sys.stderr, flush=True)
                os._exit(128 + number[0])
            self.signal = number[0]
            name = signal.Signals(self.signal).name
            # The reader may be gone, as `| tee` is by the same Ctrl-C.
            with contextlib.suppress(OSError):
                print(
                    f'\n{name}: saving; once more to exit at once.', flush=True
                )
            for callback in self._callbacks:
                callback()
        os.close(self._read)
