"""Waiting for the replies of several workers."""

import operator
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from agents.tools import errors
from agents.tools.workers import channel

if TYPE_CHECKING:
    from agents.tools.workers.external_process import ExternalProcess

# How long it may take until a call for cancellation is heard.
CANCEL_SECONDS = 0.1

# What a message is that no request was waiting for.
NOTHING = object()

_IS_DONE = operator.methodcaller('is_done')


def _raise(error: errors.EnvError) -> None:
    raise error


class Replies:
    """Waits for the replies of processes that work at the same time."""

    def __init__(self, processes: Sequence['ExternalProcess']):
        self._processes = {}  # By the descriptor that carries the reply.
        self._control = {}  # That descriptor by each that may become readable.
        self._failed: list[ExternalProcess] = []
        # Those that have not replied yet, and the replies of the others.
        self._waiting: dict[int, ExternalProcess] = {}
        self._values: dict[int, Any] = {}
        for process in processes:
            control, *others = process.descriptors()
            self._processes[control] = process
            self._control.update(dict.fromkeys((control, *others), control))
        self._readable = channel.Readable(self._control)

    def exchange(
        self,
        kind: int,
        timeout: float,
        is_cancelled: Callable[[], bool],
        on_error: Callable[[errors.EnvError], None],
    ) -> list['ExternalProcess']:
        """Send a request to all processes and wait for the replies.

        Args:
            kind: Kind of the request.
            timeout: Seconds after which processes without a reply have failed.
            is_cancelled: Returns whether to stop waiting.
            on_error: Called with a process that failed and its error; raises, or returns to let the
                others continue.

        Returns:
            Processes that failed; only the others may receive requests again.
        """
        for control, process in [*self._processes.items()]:
            try:
                process.request(kind)
            except errors.EnvError as error:
                self._give_up(control, error, on_error)
        self.wait(timeout, is_cancelled, on_error)
        return self._failed

    def wait(
        self,
        timeout: float,
        is_cancelled: Callable[[], bool] = lambda: False,
        on_error: Callable[[errors.EnvError], None] = _raise,
    ) -> list:
        """Receive from all processes in the order of their replies.

        Raises:
            EnvError: If one of them raised, died or exceeded the timeout.
            Cancelled: If `is_cancelled` became true.
        """
        self._waiting, self._values = {**self._processes}, {}
        deadline = time.monotonic() + timeout
        while self._waiting:
            patience = min(deadline - time.monotonic(), CANCEL_SECONDS)
            ready = self._readable.wait(max(0, patience), self._are_done, self._let_sleep)
            for descriptor in ready:
                self._receive(descriptor, timeout, deadline, on_error)
            if ready:
                continue
            if self._are_done():
                self._conclude()
            elif is_cancelled():
                raise errors.Cancelled('Stepping the environments was cancelled.')
            elif time.monotonic() >= deadline:
                self._give_up_late(timeout, on_error)
        return [self._values.get(control) for control in self._processes]

    def _are_done(self) -> bool:
        """Return whether all processes have answered in shared memory."""
        return all(map(_IS_DONE, self._waiting.values()))

    def _let_sleep(self) -> None:
        """Ask processes that are not done to send a message when they are."""
        for control, process in [*self._waiting.items()]:
            if process.is_done():
                process.conclude()
                del self._waiting[control]
            else:
                process.let_sleep()

    def _conclude(self) -> None:
        for process in self._waiting.values():
            process.conclude()
        self._waiting.clear()

    def _receive(
        self,
        descriptor: int,
        timeout: float,
        deadline: float,
        on_error: Callable[[errors.EnvError], None],
    ) -> None:
        """Receive the message that has arrived, or detect a death."""
        control = self._control.get(descriptor)
        if control is None:
            return  # That of a process which has just been given up.
        process = self._processes[control]
        try:
            if descriptor != control and not channel.is_readable(control):
                raise process.death()
            # If it was done already, this is not a reply but raises an error.
            value = process.receive(timeout, deadline)
        except errors.EnvError as error:
            self._give_up(control, error, on_error)
            return
        if value is not NOTHING:
            self._values[control] = value
            del self._waiting[control]

    def _give_up_late(self, timeout: float, on_error: Callable[[errors.EnvError], None]) -> None:
        """Fail the processes that exceeded the timeout."""
        for control, process in [*self._waiting.items()]:
            if not process.is_done():
                self._give_up(control, process.timed_out(timeout), on_error)

    def _give_up(
        self, control: int, error: errors.EnvError, on_error: Callable[[errors.EnvError], None]
    ) -> None:
        """Fail a process, and continue if `on_error` returns."""
        on_error(error)
        for descriptor, its_control in [*self._control.items()]:
            if its_control == control:
                del self._control[descriptor]
                self._readable.remove(descriptor)
        process = self._processes.pop(control)
        self._waiting.pop(control, None)
        self._failed.append(process)
        process.close()
