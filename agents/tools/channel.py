"""The messages between a batch and a worker process.

A message is one byte; a few kinds are followed by a payload of bytes. Numbers
of steps and resets are not in messages but in a block of shared memory.
"""

import os
import select
import struct
import time

# Requests.
START = b'i'  # Payload: pickled settings of the slice. Parent to child only.
STEP = b's'
STEP_ONCE = b'o'  # Without resetting environments that end.
RESET = b'r'
CALL = b'c'  # Payload: pickled index, name, arguments. Parent to child only.
ATTACH = b'a'
CLOSE = b'q'

# Replies.
DONE = b'd'
RESULT = b'v'  # Payload: a value by `agents.tools.wire`.
REFUSED = b'x'  # Payload: text; the call cannot be answered, nothing broke.
EXCEPTION = b'e'  # Payload: text; the worker is over.

# How long to stay awake for a message. Long enough for a small policy and a few
# dozen environments, and short enough not to be felt by others.
AWAKE_SECONDS = 1e-3

_LENGTH = struct.Struct('!Q')


class Channel:
    """One end of a stream between two processes, a file descriptor."""

    def __init__(self, descriptor: int):
        self.descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)
        os.set_blocking(descriptor, True)

    def send(self, kind: bytes) -> None:
        os.write(self.descriptor, kind)

    def send_payload(self, kind: bytes, payload: bytes) -> None:
        message = memoryview(kind + _LENGTH.pack(len(payload)) + payload)
        while message:
            message = message[os.write(self.descriptor, message) :]

    def receive(self) -> bytes:
        """The kind of the next message; empty if the other end is gone."""
        try:
            return os.read(self.descriptor, 1)
        except ConnectionResetError:
            return b''

    def receive_soon(self) -> bytes:
        """Like `receive`, but awake for a while before sleeping."""
        await_readable(self._poll)
        return self.receive()

    def receive_payload(self) -> bytes:
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        return self._exactly(length)

    def _exactly(self, length: int) -> bytes:
        parts = bytearray()
        while len(parts) < length:
            part = os.read(self.descriptor, min(length - len(parts), 1 << 20))
            if not part:
                raise EOFError('The other end closed within a message.')
            parts += part
        return bytes(parts)


def await_readable(
    poll: select.poll, timeout: float | None = None
) -> list[tuple[int, int]]:
    """Wait for descriptors to become readable; returns them as `poll` does.

    Awake for a while before sleeping, but only on what time the other processes
    leave. Waking up takes longer than most policies need to choose the next
    action, and whoever is woken up interrupts a worker that is not done yet.

    Args:
        poll: The descriptors.
        timeout: Seconds to sleep at most, by default as long as it takes.
    """
    give_up = time.perf_counter() + AWAKE_SECONDS
    while time.perf_counter() < give_up:
        if ready := poll.poll(0):
            return ready
        os.sched_yield()
    return poll.poll(None if timeout is None else 1000 * timeout)
