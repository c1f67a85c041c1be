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

    def receive_soon(self, seconds: float) -> bytes:
        """Like `receive`, but awake for a while before sleeping.

        Waking a process up takes longer than most policies need to choose the
        next action.
        """
        give_up = time.perf_counter() + seconds
        while time.perf_counter() < give_up:
            if self._poll.poll(0):
                break
            os.sched_yield()
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
