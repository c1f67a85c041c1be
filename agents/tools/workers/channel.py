"""Messages between a batch and a worker process.

A message is one byte; some kinds are followed by a payload. Steps do not use messages but shared
memory, see `agents.tools.workers.turns` and `agents.tools.workers.block`.
"""

import os
import select
import struct
import time
from collections.abc import Callable, Iterable
from typing import Any

# Requests.
START = b'i'  # Payload: pickled settings of the slice. Parent to child only.
WAKE = b'w'  # There is a request in shared memory.
CALL = b'c'  # Payload: pickled index, name, arguments. Parent to child only.
MEASURE = b'm'
INFO_NAMES = b'n'
CLOSE = b'q'

# Replies.
DONE = b'd'  # There is a reply in shared memory.
RESULT = b'v'  # Payload: a value by `agents.tools.workers.wire`.
REFUSED = b'x'  # Payload: text; the call cannot be answered, nothing broke.
EXCEPTION = b'e'  # Payload: text; the worker is over.
REPLIES = DONE, RESULT, REFUSED, EXCEPTION

# How long to sleep without looking whether there is something, in case the
# processor showed the other process too late that this one was about to sleep.
DOZE_SECONDS = 0.1

# How long to stay awake for a message. Long enough for a small policy and a few
# dozen environments, and short enough not to be felt by others.
AWAKE_SECONDS = 1e-3

# A process that was without a core for longer than this, while there was a
# message for it, had better sleep.
LATE_SECONDS = 2e-3

# For how long it then does not stay awake: from the first to the last, doubled
# each time that it happens again within so many seconds.
ASLEEP_SECONDS = 0.03, 1.0
SOON_SECONDS = 0.3

_LENGTH = struct.Struct('!Q')


class Channel:
    """One end of a stream socket between two processes.

    Payloads may exceed the buffer of the socket, so that the other end has to read. Deadlines are
    times of `time.monotonic`, or None.
    """

    def __init__(self, descriptor: int):
        self.descriptor = descriptor
        self._readable = Readable([descriptor])
        os.set_blocking(descriptor, False)

    def send(self, kind: bytes) -> None:
        os.write(self.descriptor, kind)

    def send_payload(self, kind: bytes, payload: bytes, deadline: float | None = None) -> None:
        message = memoryview(kind + _LENGTH.pack(len(payload)) + payload)
        while message:
            try:
                message = message[os.write(self.descriptor, message) :]
            except BlockingIOError:
                _await(self.descriptor, select.POLLOUT, deadline)

    def receive(self) -> bytes:
        """Return the kind of the next message, empty if the other end is closed."""
        try:
            return self._read(1, None)
        except ConnectionResetError:
            return b''

    def wait(self, *args: Any, **kwargs: Any) -> bool:
        """Wait for a message, or for something else, see `Readable.wait`.

        Returns:
            Whether there is a message.
        """
        return bool(self._readable.wait(*args, **kwargs))

    def receive_payload(self, deadline: float | None = None) -> bytes:
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size, deadline))
        return self._exactly(length, deadline)

    def _exactly(self, length: int, deadline: float | None) -> bytes:
        parts = bytearray()
        while len(parts) < length:
            part = self._read(min(length - len(parts), 1 << 20), deadline)
            if not part:
                raise EOFError('The other end closed within a message.')
            parts += part
        return bytes(parts)

    def _read(self, length: int, deadline: float | None) -> bytes:
        """Read some bytes as soon as there are any; empty at the end of the stream."""
        while True:
            try:
                return os.read(self.descriptor, length)
            except BlockingIOError:
                _await(self.descriptor, select.POLLIN, deadline)


class Readable:
    """Waits for descriptors to become readable: spins briefly, then blocks.

    Waking up takes longer than most policies need for the next action, and a process that wakes up
    preempts a worker that is not done. So this spins, yielding to other processes. When the other
    processes leave no time although there is something to read, it blocks at once for a while: on
    an oversubscribed machine, a blocked process is scheduled before one that yields.
    """

    def __init__(self, descriptors: Iterable[int]):
        self._poll = select.poll()
        for descriptor in descriptors:
            self._poll.register(descriptor, select.POLLIN)
        self._awake_from = 0.0
        self._asleep = 0.0

    def remove(self, descriptor: int) -> None:
        """Stop waiting for a descriptor."""
        self._poll.unregister(descriptor)

    def wait(
        self,
        timeout: float | None = None,
        is_over: Callable[[], bool] = lambda: False,
        fall_asleep: Callable[[], None] = lambda: None,
    ) -> list[int]:
        """Return the readable descriptors, none after a timeout.

        Args:
            timeout: Maximum seconds, by default unlimited.
            is_over: Returns whether to stop waiting although no descriptor is readable.
            fall_asleep: Called before blocking. From then on, the other side must make a descriptor
                readable.
        """
        now = time.perf_counter()
        awake = AWAKE_SECONDS if timeout is None else min(AWAKE_SECONDS, timeout)
        give_up = now + awake
        while self._awake_from <= now < give_up:
            if is_over():
                return []
            if ready := self._poll.poll(0):
                return [descriptor for descriptor, _ in ready]
            _give_way()
            before, now = now, time.perf_counter()
            late = now - before > LATE_SECONDS
            if late and (is_over() or self._poll.poll(0)):
                self._sleep(now)
        fall_asleep()
        if is_over():
            return []
        ready = self._poll.poll(None if timeout is None else 1000 * timeout)
        return [descriptor for descriptor, _ in ready]

    def _sleep(self, now: float) -> None:
        """Stop spinning for a while."""
        shortest, longest = ASLEEP_SECONDS
        again = now - self._awake_from < SOON_SECONDS
        self._asleep = min(2 * self._asleep, longest) if again else shortest
        self._awake_from = now + self._asleep


def is_readable(descriptor: int) -> bool:
    """Return whether a descriptor has something to read, or its other end is closed."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def _await(descriptor: int, event: int, deadline: float | None) -> None:
    """Wait for an event; raises `TimeoutError` after the deadline."""
    poll = select.poll()
    poll.register(descriptor, event)
    left = None if deadline is None else deadline - time.monotonic()
    if not poll.poll(None if left is None else 1000 * max(0, left)):
        raise TimeoutError('The other end did not do its part in time.')


def _give_way() -> None:
    """Yield the core to other processes."""
    if hasattr(os, 'sched_yield'):
        os.sched_yield()
    else:
        time.sleep(0)
