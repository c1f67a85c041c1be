"""Inspection in another process, with a time limit.

The environment may be broken: it may crash, exit, fork or never return. The process sends its
findings so far as plain data and writes the current call into shared memory, so that the report is
complete up to the failure.
"""

import contextlib
import mmap
import os
import signal
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

import cloudpickle

from agents.tools import errors
from agents.tools.checking import inspection_report
from agents.tools.checking.inspection_report import Report, Watch
from agents.tools.workers import channel, launch, processes, turns, wire, worker

PROGRAM = 'from agents.tools.checking.inspection_worker import main; main()'

# Seconds for the process to start, and for a call that is under way when the
# time is over.
START_SECONDS, GRACE_SECONDS = 90.0, 5.0

# Seconds between two snapshots of the report.
SNAPSHOT_SECONDS = 0.3

# In shared memory: the call under way, the episode and the step it is in, when
# it began, and whether a copy of the process was ended.
_UNDER_WAY = struct.Struct('=qqqdq')


def inspect(
    inspector: Callable[..., Report],
    seconds: float = 30.0,
    progress: Callable[[int], None] = lambda step: None,
    **arguments: Any,
) -> Report:
    """Call a function that inspects an environment in another process.

    Args:
        inspector: Function such as `inspection.inspect`, with an argument `watch`.
        seconds: Time limit. The report omits what was not done by then; a call that does not return
            is reported.
        progress: Called with the number of steps from time to time.
        arguments: Arguments of the function.
    """
    try:
        payload = cloudpickle.dumps((inspector, arguments, seconds))
    except Exception as error:
        raise errors.ConfigError(
            f'The environment cannot be sent to a process: {error}.'
        ) from error
    process = launch.start(0, PROGRAM)
    try:
        return _Inspector(process, seconds, progress).run(payload)
    finally:
        launch.end(process)


class _Inspector:
    """Parent side of an inspection."""

    def __init__(self, process: launch.Launched, seconds: float, progress: Callable[[int], None]):
        self._process = process.process
        self._channel = channel.Channel(process.control.fileno())
        self._memory = mmap.mmap(process.memory, turns.SIZE)
        self._seconds = seconds
        self._progress = progress
        self._report = Report()

    def run(self, payload: bytes) -> Report:
        """Follow the inspection to its end; returns the report."""
        give_up = time.monotonic() + START_SECONDS
        with contextlib.suppress(ConnectionError):  # It has died, see below.
            self._channel.send_payload(channel.START, payload, give_up)
        while True:
            left = give_up - time.monotonic()
            if left <= 0 or not self._channel.wait(left):
                return self._describe_hang()
            try:
                kind = self._channel.receive()
                if kind == channel.DONE:  # All is imported.
                    give_up = time.monotonic() + self._seconds + GRACE_SECONDS
                    continue
                if kind not in (channel.RESULT, channel.EXCEPTION):
                    return self._describe_death()
                message = self._channel.receive_payload(give_up)
            except TimeoutError:
                return self._describe_hang()
            except (EOFError, ConnectionError):
                return self._describe_death()
            if kind == channel.EXCEPTION:
                raise errors.EnvError(message.decode())
            is_over, report = wire.loads(message)
            self._report = Report.from_plain(report)
            self._progress(self._report.steps)
            if is_over:
                return self._concluded()

    def _describe_hang(self) -> Report:
        call, _, _, began, _ = self._under_way()
        passed = time.monotonic() - began if began else START_SECONDS
        return self._concluded('hang', f'{call} did not return within {passed:.0f} seconds')

    def _describe_death(self) -> Report:
        processes.await_exit(self._process, GRACE_SECONDS)
        processes.end(self._process)
        code = self._process.returncode
        how = (
            f'was killed by {signal.Signals(-code).name}'
            if code < 0
            else f'exited with code {code}'
        )
        call = self._under_way()[0]
        return self._concluded('death', f'the process {how} in {call}')

    def _concluded(self, kind: str = '', text: str = '') -> Report:
        """Return the report, with a violation if the environment ended the process."""
        breaches = inspection_report.Breaches(self._report)
        *_, copied = self._under_way()
        if copied:
            breaches.note(
                'fork',
                'it has called os.fork, and both processes returned. The child '
                'has to end by os._exit',
            )
        if kind:
            _, breaches.episode, breaches.step, *_ = self._under_way()
            self._report.steps = max(self._report.steps, breaches.step)
            breaches.note(kind, text)
        return self._report

    def _under_way(self) -> tuple[str, int, int, float, bool]:
        index, *others = _UNDER_WAY.unpack_from(self._memory)
        calls = inspection_report.CALLS
        return calls[index % len(calls)], *others


class SharedWatch(Watch):
    """Sends progress of the inspection to the parent.

    Args:
        control: Connection to the parent.
        memory: Shared memory.
        seconds: Time limit.
    """

    def __init__(self, control: channel.Channel, memory: mmap.mmap, seconds: float):
        self._control, self._memory = control, memory
        self._seconds, self._pid = seconds, os.getpid()
        self._next = 0.0
        self.begin('its import')

    def start(self) -> None:
        self._control.send(channel.DONE)
        self._began = time.monotonic()

    def is_over(self, share: float = 1.0) -> bool:
        return time.monotonic() - self._began > share * self._seconds

    def begin(self, call: str, episode: int = 0, step: int = 0) -> None:
        self._require_own_process()
        index = inspection_report.CALLS.index(call)
        now = time.monotonic()
        _UNDER_WAY.pack_into(self._memory, 0, index, episode, step, now, self._copied())

    def tell(self, report: Report, now: bool = False) -> None:
        if now or time.monotonic() > self._next:
            self.send(report, False)
            self._next = time.monotonic() + SNAPSHOT_SECONDS

    def send(self, report: Report, is_over: bool) -> None:
        """Send the report."""
        self._require_own_process()
        message = wire.dumps([is_over, report.to_plain()])
        self._control.send_payload(channel.RESULT, message)

    def fail(self, error: errors.EnvError) -> None:
        """Report that there is nothing to inspect."""
        self._require_own_process()
        text = str(error).encode(errors='backslashreplace')
        self._control.send_payload(channel.EXCEPTION, text)

    def _copied(self) -> int:
        return _UNDER_WAY.unpack_from(self._memory)[-1]

    def _require_own_process(self) -> None:
        """Exit from a fork of this process, and leave a note."""
        if os.getpid() != self._pid:
            *others, _ = _UNDER_WAY.unpack_from(self._memory)
            _UNDER_WAY.pack_into(self._memory, 0, *others, 1)
            os._exit(1)


def main() -> None:
    """Run an inspection on request of the parent."""
    control, memory = worker.begin()
    # What the environment prints is no part of the report.
    with contextlib.suppress(OSError):
        os.dup2(2, 1)
    parent = channel.Channel(control)
    if parent.receive() != channel.START:
        return
    payload = parent.receive_payload()
    watch = SharedWatch(parent, mmap.mmap(memory, turns.SIZE), 0.0)
    report = Report()
    try:
        inspector, arguments, watch._seconds = cloudpickle.loads(payload)
        report = inspector(watch=watch, **arguments)
    except errors.EnvError as error:
        watch.fail(error)
        return
    except BaseException as error:
        breaches = inspection_report.Breaches(report)
        breaches.raised('making', 'it cannot be imported', error)
    watch.send(report, True)
    sys.stdout.flush()
    signal.pause()  # The parent ends this process and all that it has started.
