"""Environments in a process of their own."""

import contextlib
import functools
import mmap
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np

from agents.tools import block, channel, errors, wire

# Variables that would make a worker's libraries believe that they are part of
# the parent's MPI job.
MPI_PREFIXES = ('OMPI_', 'PMIX_', 'PMI_', 'MPI_', 'MPICH_', 'HYDRA_', 'HYDI_')

# A worker keeps one core busy with environments; threads would only compete.
ONE_THREAD = ('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'MKL_NUM_THREADS')

# A worker that has not closed its environments by then is killed.
CLOSE_SECONDS = 1.0

# How long it may take until a call for cancellation is heard.
CANCEL_SECONDS = 0.1


class ExternalProcess:
    """Constructs environments inside another process and steps them there.

    The process is started when the object is made, so that several start at
    the same time; anything that needs an answer waits for it. For a single
    environment the object serves as that environment:

        env = ExternalProcess(lambda: gymnasium.make('CartPole-v1'))
        observ, info = env.reset(seed=0)
        promise = env.step(1, blocking=False)
        observ, reward, terminated, truncated, info = promise()

    With `blocking=False` the request has been sent and the environment is
    already working when the call returns. What is returned is a promise, a
    function without arguments: calling it only waits for the reply. This is
    how several environments step in parallel, send to all, then receive from
    all. A process has one outstanding request at a time.

    An error of an environment is raised here with its original traceback. A
    process that dies or does not answer within the timeout is reported with
    the index of the environment that was at work, and leaves nothing behind.

    Workers protect the training from the environments, not the machine: they
    run the environments' code with the user's rights.

    Attributes:
        first: Index of the first environment within its batch.

    Args:
        constructor: Function that makes an environment, or several of them
            for a process that hosts as many and steps them in turn.
        seeds: Seeds for the first reset of the environments in a batch.
        first: Index of the first environment within its batch.
        timeout: Seconds within which any request has to be answered.
        core: The core to stay on, by default any.
    """

    def __init__(
        self,
        constructor: Callable[[], gym.Env] | Sequence[Callable[[], gym.Env]],
        seeds: Sequence[int | None] | None = None,
        first: int = 0,
        timeout: float = 60.0,
        core: int | None = None,
    ):
        single = callable(constructor)
        constructors: Any = [constructor] if single else list(constructor)  # type: ignore[arg-type]
        settings = {
            'constructors': constructors,
            'seeds': seeds,
            'first': first,
            'core': core,
        }
        self._make_alike = functools.partial(
            ExternalProcess,
            constructors,
            first=first,
            timeout=timeout,
            core=core,
        )
        self._seeds = seeds
        self._count = len(constructors)
        self.first = first
        self._timeout = timeout
        self._spaces: tuple[gym.Space, gym.Space] | None = None
        self._busy = True  # With constructing the environments.
        self._calls = 0
        self._close_by: float | None = None
        self._memory = _anonymous_file(block.HEADER)
        self._process, control, self._lifeline = _start(self._memory)
        self._socket = control
        self._channel = channel.Channel(control.fileno())
        self._pidfd = _pidfd(self._process)
        header = mmap.mmap(self._memory, block.HEADER)
        self._current = np.frombuffer(header, np.int64, 1)
        self._finalizer = weakref.finalize(
            self,
            _end,
            self._process,
            control,
            [self._lifeline, self._memory, *self.descriptors()[1:]],
        )
        try:
            payload = cloudpickle.dumps(settings)
            self._channel.send_payload(channel.START, payload)
        except ConnectionError:
            pass  # Told by whoever asks for the spaces.
        except Exception as error:
            self.close()
            raise errors.ConfigError(
                f'The constructor of an environment cannot be sent to a '
                f'process: {error}'
            ) from error

    def __len__(self) -> int:
        """The number of environments in the process."""
        return self._count

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def observation_space(self) -> gym.Space:
        return self._found_spaces()[0]

    @property
    def action_space(self) -> gym.Space:
        return self._found_spaces()[1]

    def step(self, action: Any, blocking: bool = True) -> Any:
        """Step the environment; returns the usual tuple, or its promise."""
        return self.call('step', action, blocking=blocking)

    def reset(self, blocking: bool = True, **kwargs: Any) -> Any:
        """Reset the environment; returns the usual tuple, or its promise."""
        return self.call('reset', blocking=blocking, **kwargs)

    def call(
        self,
        name: str,
        *args: Any,
        index: int = 0,
        blocking: bool = True,
        **kwargs: Any,
    ) -> Any:
        """Call a method or read an attribute of one of the environments.

        Plain values, arrays and spaces can be returned.
        """
        self._found_spaces()
        message = cloudpickle.dumps((index, name, args, kwargs))
        self._require_idle()
        self._busy = True
        self._calls += 1
        try:
            self._channel.send_payload(channel.CALL, message)
        except ConnectionError:
            raise self.death() from None
        promise = functools.partial(self._keep, self._calls)
        return promise() if blocking else promise

    def __getattr__(self, name: str) -> Any:
        if name.startswith('_'):
            raise AttributeError(f'ExternalProcess has no attribute {name!r}.')
        return self.call(name)

    def anew(self, number: int) -> 'ExternalProcess':
        """Start another process for the same environments.

        Args:
            number: Tells apart the processes that are made of this one: their
                seeds are derived from it, so that episodes are others.
        """
        seeds = self._seeds and [_derived(seed, number) for seed in self._seeds]
        return self._make_alike(seeds=seeds)

    def attach(
        self, is_cancelled: Callable[[], bool] = lambda: False
    ) -> block.Block:
        """Set up the shared memory through which a batch uses the process."""
        found = self._found_spaces(is_cancelled)
        size = block.HEADER + block.Block.size(*found, self._count)
        _grow(self._memory, size)
        self.request(channel.ATTACH)
        self._wait(is_cancelled)
        buffer = memoryview(mmap.mmap(self._memory, size))
        return block.Block(*found, self._count, buffer[block.HEADER :])

    def request(self, kind: bytes) -> None:
        """Send a request about the block; `Replies.wait` awaits the reply."""
        self._require_idle()
        self._busy = True
        try:
            self._channel.send(kind)
        except ConnectionError:
            raise self.death() from None

    def receive(self) -> Any:
        """Take the reply that has arrived."""
        kind = self._channel.receive()
        self._busy = False
        if kind == channel.DONE:
            return None
        if kind not in (channel.RESULT, channel.REFUSED, channel.EXCEPTION):
            raise self.death()
        try:
            payload = self._channel.receive_payload()
        except EOFError:
            raise self.death() from None
        if kind == channel.RESULT:
            return wire.loads(payload)
        if kind == channel.REFUSED:
            raise AttributeError(payload.decode())
        raise errors.EnvError(payload.decode())

    def descriptors(self) -> list[int]:
        """File descriptors that become readable by a reply or by death."""
        return [self._channel.descriptor, *self._pidfd]

    def death(self) -> errors.EnvError:
        """The error that tells how the process ended."""
        _await_exit(self._process, CLOSE_SECONDS)
        self.close()
        code = self._process.returncode
        how = (
            f'was killed by {signal.Signals(-code).name}'
            if code < 0
            else f'exited with code {code}'
        )
        return errors.EnvError(
            f'The worker process {self._process.pid} {how} while environment '
            f'{self._at_work()} was at work.'
        )

    def timed_out(self, timeout: float) -> errors.EnvError:
        """The error that tells that no reply came in time; ends the process."""
        at_work = self._at_work()
        self.close()
        return errors.EnvError(
            f'Environment {at_work} did not answer within {timeout:g} '
            f'seconds; its worker process {self._process.pid} was killed. If '
            'it needs longer than that, raise the timeout, worker_timeout in a '
            'config.'
        )

    def close(self) -> None:
        """Close the environments and end the process, at once if it is busy."""
        _await_exit(self._process, self.begin_close() - time.monotonic())
        self._finalizer()

    def begin_close(self) -> float:
        """Ask the process to close without waiting until it has.

        Returns:
            The time by which it will have closed or else is killed.
        """
        if self._close_by is None:
            self._close_by = time.monotonic() + CLOSE_SECONDS
            if self._busy:
                _kill_group(self._process)
            else:
                with contextlib.suppress(ConnectionError):  # It is gone.
                    self._channel.send(channel.CLOSE)
        return self._close_by

    def _found_spaces(
        self, is_cancelled: Callable[[], bool] = lambda: False
    ) -> tuple[gym.Space, gym.Space]:
        if self._spaces is None:
            try:
                self._spaces = self._wait(is_cancelled)
            except errors.EnvError:
                self.close()
                raise
        return self._spaces

    def _keep(self, call: int) -> Any:
        """Keep the promise of a call."""
        if call != self._calls or not self._busy:
            raise RuntimeError('The reply to this request has been taken.')
        return self._wait()

    def _wait(self, is_cancelled: Callable[[], bool] = lambda: False) -> Any:
        self._require_open()
        return Replies([self]).wait(self._timeout, is_cancelled)[0]

    def _require_open(self) -> None:
        if not self._finalizer.alive:
            raise errors.EnvError('The worker process has been closed.')

    def _require_idle(self) -> None:
        self._require_open()
        if self._busy:
            raise RuntimeError(
                'A process has one outstanding request at a time: call the '
                'promise of the one before.'
            )

    def _at_work(self) -> int:
        return self.first + int(self._current[0])


def _raise(error: errors.EnvError) -> None:
    raise error


class Replies:
    """Waits for the replies of processes that work at the same time."""

    def __init__(self, processes: Sequence[ExternalProcess]):
        self._processes = {}  # By the descriptor that carries the reply.
        self._control = {}  # That descriptor by each that may become readable.
        self._failed: list[ExternalProcess] = []
        for process in processes:
            control, *others = process.descriptors()
            self._processes[control] = process
            self._control.update(dict.fromkeys((control, *others), control))
        self._readable = channel.Readable(self._control)

    def exchange(
        self,
        kind: bytes,
        timeout: float,
        is_cancelled: Callable[[], bool],
        bear: Callable[[errors.EnvError], None],
    ) -> list[ExternalProcess]:
        """Send a request to all processes and wait for the replies.

        Args:
            kind: The request.
            timeout: Seconds until those that have not replied are given up.
            is_cancelled: Whether to stop waiting.
            bear: Raises the error of a process that failed, or does not, so
                that the others go on.

        Returns:
            The processes that failed; only the others may be asked again.
        """
        for control, process in [*self._processes.items()]:
            try:
                process.request(kind)
            except errors.EnvError as error:
                self._give_up(control, error, bear)
        self.wait(timeout, is_cancelled, bear)
        return self._failed

    def wait(
        self,
        timeout: float,
        is_cancelled: Callable[[], bool] = lambda: False,
        bear: Callable[[errors.EnvError], None] = _raise,
    ) -> list:
        """Receive from all processes, as each of them replies.

        Raises:
            EnvError: If one of them raised, died or exceeded the timeout.
            Cancelled: If `is_cancelled` came to be true meanwhile.
        """
        replies: dict[int, Any] = {}
        deadline = time.monotonic() + timeout
        while len(replies) < len(self._processes):
            patience = min(deadline - time.monotonic(), CANCEL_SECONDS)
            ready = self._readable.wait(max(0, patience))
            if not ready and is_cancelled():
                raise errors.Cancelled(
                    'Stepping the environments was called off.'
                )
            if not ready and time.monotonic() >= deadline:
                for late in [fd for fd in self._processes if fd not in replies]:
                    error = self._processes[late].timed_out(timeout)
                    self._give_up(late, error, bear)
            for descriptor in ready:
                self._receive(descriptor, replies, bear)
        return [replies[control] for control in self._processes]

    def _receive(
        self,
        descriptor: int,
        replies: dict[int, Any],
        bear: Callable[[errors.EnvError], None],
    ) -> None:
        control = self._control.get(descriptor)
        if control is None:
            return  # That of a process which has just been given up.
        process = self._processes[control]
        try:
            if control in replies:
                raise process.death()  # It was done, so it is not a reply.
            if descriptor != control and not _is_readable(control):
                raise process.death()
            replies[control] = process.receive()
        except errors.EnvError as error:
            replies.pop(control, None)
            self._give_up(control, error, bear)

    def _give_up(
        self,
        control: int,
        error: errors.EnvError,
        bear: Callable[[errors.EnvError], None],
    ) -> None:
        """Go on without a process, if that is to be borne."""
        bear(error)
        for descriptor, its_control in [*self._control.items()]:
            if its_control == control:
                del self._control[descriptor]
                self._readable.remove(descriptor)
        process = self._processes.pop(control)
        self._failed.append(process)
        process.close()


def _derived(seed: int | None, number: int) -> int | None:
    """A seed that differs for every number, if there is one."""
    if seed is None:
        return None
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0])


def _start(memory: int) -> tuple[subprocess.Popen, socket.socket, int]:
    """Start a worker; returns it, the socket to it and its lifeline."""
    ours, theirs = socket.socketpair()
    their_lifeline, our_lifeline = os.pipe()
    environ = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(MPI_PREFIXES)
    }
    environ.update({key: os.environ.get(key, '1') for key in ONE_THREAD})
    environ['PYTHONPATH'] = os.pathsep.join(
        path or str(pathlib.Path.cwd()) for path in sys.path
    )
    descriptors = theirs.fileno(), their_lifeline, memory
    # Blocked signals stay so in the child, until it can tell them itself that
    # they are not for it: Ctrl-C is the parent's to handle.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        process = subprocess.Popen(
            [
                sys.executable,
                '-m',
                'agents.tools.worker',
                *map(str, descriptors),
            ],
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
            env=environ,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        theirs.close()
        os.close(their_lifeline)
    return process, ours, our_lifeline


def _end(
    process: subprocess.Popen, control: socket.socket, descriptors: list[int]
) -> None:
    """Kill a process and let go of all that belongs to it."""
    _kill_group(process)
    control.close()
    for descriptor in descriptors:
        os.close(descriptor)


def _await_exit(process: subprocess.Popen, seconds: float) -> None:
    """Wait for the end of a process without forgetting about its group."""
    give_up = time.monotonic() + seconds
    options = os.WEXITED | os.WNOHANG | os.WNOWAIT
    while process.returncode is None and time.monotonic() < give_up:
        if os.waitid(os.P_PID, process.pid, options):
            return
        time.sleep(0.001)


def _kill_group(process: subprocess.Popen) -> None:
    """Kill a process, if it is alive, and all that it has started."""
    if process.returncode is None:  # So its number cannot be another's yet.
        os.kill(process.pid, signal.SIGKILL)
        # It makes its group only after a while, and dies without it until then.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _pidfd(process: subprocess.Popen) -> list[int]:
    return [os.pidfd_open(process.pid)] if hasattr(os, 'pidfd_open') else []


def _is_readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


def _anonymous_file(size: int) -> int:
    """A file in memory that has no name and vanishes with its last user."""
    if hasattr(os, 'memfd_create'):
        descriptor = os.memfd_create('agents')
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    _grow(descriptor, size)
    return descriptor


def _grow(descriptor: int, size: int) -> None:
    """Make room now, rather than die from touching memory that is not there."""
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        raise errors.EnvError(
            f'There are no {size:,} bytes of shared memory for the data of the '
            f'environments: {error}. Use fewer agents or free some memory.'
        ) from error
