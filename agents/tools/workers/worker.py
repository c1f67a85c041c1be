"""Program of a worker process; see `agents.tools.workers.external_process`.

A worker hosts a slice of environments. It is spawned instead of forked, never imports TensorFlow,
and dies with its parent.
"""

import contextlib
import fcntl
import mmap
import os
import signal
import sys
import threading
import warnings

import cloudpickle

from agents.tools import errors
from agents.tools.batch import env_slice
from agents.tools.workers import block, channel, processes, turns, wire


def main() -> None:
    """Serve requests until the parent closes the worker or dies."""
    control, memory = begin()
    try:
        Worker(control, memory).run()
    finally:
        processes.kill_descendants(os.getpid())


def begin() -> tuple[int, int]:
    """Set up this process to die with its parent and to ignore Ctrl-C.

    Returns:
        Descriptors of the socket to the parent and of the shared memory.
    """
    control, lifeline, memory, parent, quiet = map(int, sys.argv[1:6])
    if quiet:
        warnings.showwarning = lambda *_, **__: None
    # A group of its own, since Ctrl-C is the parent's to handle, but not a
    # session: schedulers share out time by session, and would let a worker
    # that is awake keep the parent waiting.
    os.setpgid(0, 0)
    _die_with_parent(lifeline, parent)
    processes.adopt_orphans()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent's to handle.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    return control, memory


class Worker:
    """Answers the requests of the parent.

    Args:
        control: Descriptor of the socket to the parent.
        memory: Descriptor of the shared memory.
    """

    def __init__(self, control: int, memory: int):
        self._parent = channel.Channel(control)
        self._memory = memory
        self._turns = turns.Turns(mmap.mmap(memory, turns.SIZE))
        self._number = 0  # Of the request that is being answered.
        self._pid = os.getpid()

    def run(self) -> None:
        """Make the environments and serve requests; reports errors to the parent."""
        try:
            if self._parent.receive() != channel.START:
                return  # The parent changed its mind or died.
            settings = cloudpickle.loads(self._parent.receive_payload())
            _stay_on(settings.pop('core'))
            envs = env_slice.EnvSlice(**settings, current=self._turns.current)
            found = envs.observation_space, envs.action_space
            self._reply(channel.RESULT, wire.dumps(found))
            self._serve(envs)
            envs.close()
        except errors.EnvError as error:
            self._tell(channel.EXCEPTION, str(error))
        except BaseException as error:
            self._tell(channel.EXCEPTION, errors.describe_trace(error))

    def _serve(self, envs: env_slice.EnvSlice) -> None:
        """Answer requests until the worker is closed."""
        actions = {
            turns.STEP: envs.step,
            turns.RESET: envs.reset,
            turns.ATTACH: lambda: self._attach(envs),
        }
        while True:
            request = self._await_request()
            if request in actions:
                actions[request]()
                self._conclude()
            elif request == channel.CALL:
                self._call(envs)
            elif request == channel.MEASURE:
                seconds = envs.measure()
                self._reply(channel.RESULT, wire.dumps(seconds))
            elif request == channel.INFO_NAMES:
                self._reply(channel.RESULT, wire.dumps(envs.info_names()))
            else:
                return

    def _await_request(self) -> int | bytes:
        """Return the kind of the next request."""
        numbers = self._turns
        while True:
            words = self._parent.wait(channel.DOZE_SECONDS, self._is_asked, self._sleep)
            numbers.let_worker_sleep(False)
            word = self._parent.receive() if words else channel.WAKE
            if word != channel.WAKE:
                self._number = numbers.asked
                return word
            if numbers.asked != self._number:
                self._number = numbers.asked
                if numbers.kind != turns.IN_WORDS:  # Else these follow.
                    return numbers.kind

    def _is_asked(self) -> bool:
        return self._turns.is_asked(self._number)

    def _sleep(self) -> None:
        self._turns.let_worker_sleep(True)

    def _attach(self, envs: env_slice.EnvSlice) -> None:
        found = envs.observation_space, envs.action_space
        buffer = memoryview(mmap.mmap(self._memory, 0))[turns.SIZE :]
        numbers = len(envs.log_info)
        envs.attach(block.Block(*found, len(envs), buffer, numbers))

    def _call(self, envs: env_slice.EnvSlice) -> None:
        message = cloudpickle.loads(self._parent.receive_payload())
        index, name, args, kwargs = message
        try:
            value = wire.dumps(envs.call(index, name, *args, **kwargs))
        except errors.EnvError:
            raise
        except Exception as error:
            self._reply(channel.REFUSED, _encode(f'{name}: {error}'))
        else:
            self._reply(channel.RESULT, value)

    def _conclude(self) -> None:
        """Report that a request about the block is done."""
        self._require_own_process()
        if self._turns.answer(self._number):
            self._parent.send(channel.DONE)

    def _reply(self, kind: bytes, payload: bytes) -> None:
        """Send a reply as a message."""
        self._require_own_process()
        self._turns.answer(self._number)
        self._parent.send_payload(kind, payload)

    def _require_own_process(self) -> None:
        """Exit if this is a fork of the worker."""
        if os.getpid() != self._pid:
            raise errors.EnvError(
                f'An environment of the worker process {self._pid} has called '
                'os.fork, and both processes returned from it. The child has '
                'to end by os._exit.'
            )

    def _tell(self, kind: bytes, text: str) -> None:
        with contextlib.suppress(ConnectionError):  # The parent is gone.
            self._parent.send_payload(kind, _encode(text))


def _encode(text: str) -> bytes:
    """Encode text that may hold undecodable names of files."""
    return text.encode(errors='backslashreplace')


def _stay_on(core: int | None) -> None:
    if core is not None and hasattr(os, 'sched_setaffinity'):
        os.sched_setaffinity(0, {core})


def _die_with_parent(lifeline: int, parent: int) -> None:
    """Kill this process and its children once the parent is gone.

    Only the parent holds the other end of the pipe. Linux signals the whole process group when it
    closes, even while an environment never returns to the interpreter. In case an environment
    closes foreign descriptors, the death of the parent is signalled as well. That signal is handled
    instead of deadly, because children would survive if this process died before the pipe closes.

    Args:
        lifeline: This end of the pipe.
        parent: Process ID of the parent; 0 if the thread that started this process may end before
            the parent does.
    """
    if parent and hasattr(signal, 'SIGRTMAX'):
        signal.signal(signal.SIGRTMAX, lambda *_: _kill_group())
        processes.end_with_parent(signal.SIGRTMAX)
        if os.getppid() != parent:  # It died before that.
            os._exit(1)
    if not hasattr(fcntl, 'F_SETSIG'):
        threading.Thread(target=_watch, args=[lifeline], daemon=True).start()
        return
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC)
    if channel.is_readable(lifeline):  # The parent died before that.
        os._exit(1)


def _watch(lifeline: int) -> None:
    os.read(lifeline, 1)
    _kill_group()


def _kill_group() -> None:
    os.killpg(os.getpgrp(), signal.SIGKILL)
