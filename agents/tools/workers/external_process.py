"""Environments in a worker process."""

import contextlib
import functools
import signal
import sys
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle
import gymnasium as gym

from agents.tools import errors
from agents.tools.nested import Nest
from agents.tools.workers import block, channel, launch, processes, turns, wire
from agents.tools.workers.replies import NOTHING, Replies

# A worker that has not closed its environments by then is killed.
CLOSE_SECONDS = 1.0


class ExternalProcess:
    """Constructs environments in a worker process and steps them there.

    The process starts when the object is created, so that several start at the same time; anything
    that needs a reply waits for it. For a single environment the object serves as that environment:

        env = ExternalProcess(lambda: gymnasium.make('CartPole-v1'))
        observ, info = env.reset(seed=0)
        promise = env.step(1, blocking=False)
        observ, reward, terminated, truncated, info = promise()

    With `blocking=False`, the request has been sent and the environment is working when the call
    returns. The result is a promise, a function without arguments that waits for the reply. So
    several environments step in parallel: send to all, then receive from all. A process has one
    outstanding request at a time.

    An exception of an environment is raised here with its original traceback. A process that dies
    or exceeds the timeout raises an error with the index of the environment that was active, and
    leaves nothing behind.

    Workers protect the training from the environments, not the machine: they run the code of the
    environments with the rights of the user.

    Attributes:
        first: Index of the first environment within its batch.
        log_info: Names of numbers of infos to report.

    Args:
        constructor: Function that makes an environment, or several of them for a process that steps
            as many in turn.
        seeds: Seeds for the first reset of the environments in a batch.
        first: Index of the first environment within its batch.
        timeout: Maximum seconds of a request.
        core: Core to pin the process to, by default none.
        log_info: Names of numbers of infos to report.
    """

    def __init__(
        self,
        constructor: Callable[[], gym.Env] | Sequence[Callable[[], gym.Env]],
        seeds: Sequence[int | None] | None = None,
        first: int = 0,
        timeout: float = 60.0,
        core: int | None = None,
        log_info: Sequence[str] = (),
    ):
        single = callable(constructor)
        constructors: Any = [constructor] if single else list(constructor)  # type: ignore[arg-type]
        settings = {
            'constructors': constructors,
            'seeds': seeds,
            'first': first,
            'core': core,
            'log_info': log_info,
        }
        self._make_alike = functools.partial(
            ExternalProcess,
            constructors,
            first=first,
            timeout=timeout,
            core=core,
            log_info=log_info,
        )
        self._seeds = seeds
        self._count = len(constructors)
        self.first = first
        self.log_info = log_info
        self._timeout = timeout
        self._spaces: tuple[gym.Space, gym.Space] | None = None
        self._busy = True  # With constructing the environments.
        self._in_words = True  # Whether a message answers that.
        self._asleep = False  # Whether it is waited for asleep.
        self._owed = 0  # How many messages may come that are too late.
        self._calls = 0
        self._number = 0  # Of the last request.
        self._close_by: float | None = None
        payload = launch.pickled(settings)
        worker = launch.start(first)
        self._process, self._memory = worker.process, worker.memory
        self._channel = channel.Channel(worker.control.fileno())
        self._pidfd = worker.pidfd
        self._turns = worker.turns
        self._finalizer = weakref.finalize(self, launch.end, worker)
        try:
            self._send(channel.START, payload)
        except errors.EnvError:
            self.close()
            raise

    def __len__(self) -> int:
        """Return the number of environments in the process."""
        return self._count

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_up(self) -> bool:
        """True once its environments have been constructed."""
        return self._spaces is not None

    @property
    def observation_space(self) -> gym.Space:
        return self._found_spaces()[0]

    @property
    def action_space(self) -> gym.Space:
        return self._found_spaces()[1]

    def step(self, action: Nest, blocking: bool = True) -> Any:
        """Step the environment; returns the usual tuple, or a promise of it."""
        return self.call('step', action, blocking=blocking)

    def reset(self, blocking: bool = True, **kwargs: Any) -> Any:
        """Reset the environment; returns the usual tuple, or a promise of it."""
        return self.call('reset', blocking=blocking, **kwargs)

    def call(
        self, name: str, *args: Any, index: int = 0, blocking: bool = True, **kwargs: Any
    ) -> Any:
        """Call a method or read an attribute of an environment.

        The result may be plain values, arrays and spaces.
        """
        self._found_spaces()
        message = cloudpickle.dumps((index, name, args, kwargs))
        self._require_idle()
        self._begin_request(turns.IN_WORDS)
        self._calls += 1
        self._send(channel.CALL, message)
        promise = functools.partial(self._keep, self._calls)
        return promise() if blocking else promise

    def measure(self) -> float:
        """Return the seconds of a step of an environment, see `EnvSlice`."""
        return self._ask(channel.MEASURE)

    def info_names(self) -> list[str]:
        """Return the names of numbers in infos that are not reported."""
        return self._ask(channel.INFO_NAMES)

    def __getattr__(self, name: str) -> Any:
        if name.startswith('_'):
            raise AttributeError(f'ExternalProcess has no attribute {name!r}.')
        return self.call(name)

    def anew(self, number: int) -> 'ExternalProcess':
        """Start another process for the same environments.

        Args:
            number: Index of the restart, from which new seeds are derived.
        """
        seeds = self._seeds and [launch.derive_seed(seed, number) for seed in self._seeds]
        return self._make_alike(seeds=seeds)

    def attach(self, is_cancelled: Callable[[], bool] = lambda: False) -> block.Block:
        """Set up the shared memory of a batch."""
        found = self._found_spaces(is_cancelled)
        numbers = len(self.log_info)
        size = turns.SIZE + block.Block.size(*found, self._count, numbers)
        memory = block.grown(self._memory, size)
        self.request(turns.ATTACH)
        self._wait(is_cancelled)
        buffer = memoryview(memory)[turns.SIZE :]
        return block.Block(*found, self._count, buffer, numbers)

    def request(self, kind: int) -> None:
        """Send a request about the block; `Replies.wait` awaits the reply."""
        self._require_idle()
        if self._begin_request(kind):
            self._send_kind(channel.WAKE)

    def is_done(self) -> bool:
        """Return whether the last request about the block has been answered."""
        return not self._in_words and self._turns.is_answered(self._number)

    def conclude(self) -> None:
        """Receive the reply to a request about the block that is done."""
        self._busy = False
        self._owed += self._asleep

    def let_sleep(self) -> None:
        """Have the reply announced by a message as well."""
        self._asleep = True
        self._turns.let_parent_sleep(self._number)

    def receive(self, timeout: float, deadline: float) -> Any:
        """Receive the message that has arrived.

        Args:
            timeout: Timeout of the request in seconds, for the error.
            deadline: Time of `time.monotonic` until which to wait.

        Returns:
            Value of the reply, or `NOTHING` if the message announced an earlier reply.
        """
        kind = self._channel.receive()
        awaited = self._busy and self._asleep and self.is_done()
        if kind == channel.DONE and self._owed and not awaited:
            self._owed -= 1
            return NOTHING
        if kind not in channel.REPLIES:
            raise self.death()
        payload = b''
        try:
            if kind != channel.DONE:
                payload = self._channel.receive_payload(deadline)
        except (EOFError, ConnectionError):
            raise self.death() from None
        except TimeoutError:
            raise self.timed_out(timeout) from None
        if kind == channel.EXCEPTION:
            self._busy = False
            raise errors.EnvError(payload.decode())
        self._require_answer(kind)
        if kind == channel.REFUSED:
            raise AttributeError(payload.decode())
        return wire.loads(payload) if kind == channel.RESULT else None

    def descriptors(self) -> list[int]:
        """Return descriptors that become readable by a reply or by death."""
        return [self._channel.descriptor, *self._pidfd]

    def death(self) -> errors.WorkerDied:
        """Return the error that describes how the process ended."""
        processes.await_exit(self._process, CLOSE_SECONDS)
        self.close()
        code = self._process.returncode
        how = (
            f'was killed by {signal.Signals(-code).name}'
            if code < 0
            else f'exited with code {code}'
        )
        return errors.WorkerDied(
            f'The worker process {self._process.pid} {how} while environment '
            f'{self._at_work()} was at work.'
        )

    def timed_out(self, timeout: float) -> errors.EnvError:
        """End the process; returns the error of a timeout."""
        at_work = self._at_work()
        self.close()
        return errors.EnvError(
            f'Environment {at_work} did not answer within {timeout:g} '
            f'seconds; its worker process {self._process.pid} was killed. If '
            'it needs longer than that, raise the timeout, worker_timeout in a '
            'config.'
        )

    def close(self) -> None:
        """Close the environments and end the process, at once if it is busy.

        Errors of the environments are printed in a line of the standard error.
        """
        left = self.begin_close() - time.monotonic()
        processes.await_exit(self._process, left)
        if self._finalizer.alive and not self._busy:
            self._tell_last_error()
        self._finalizer()

    def begin_close(self) -> float:
        """Ask the process to close without waiting for it.

        Returns:
            Time after which it is killed.
        """
        if self._close_by is None:
            self._close_by = time.monotonic() + CLOSE_SECONDS
            if self._busy:
                processes.end(self._process)
            else:
                with contextlib.suppress(OSError):  # It is gone.
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

    def _ask(self, kind: bytes) -> Any:
        """Send a request as a message and wait for the reply."""
        self._found_spaces()
        self._require_idle()
        self._begin_request(turns.IN_WORDS)
        self._send_kind(kind)
        return self._wait()

    def _begin_request(self, kind: int) -> bool:
        """Send a request; returns whether the worker has to be woken up."""
        self._busy = True
        self._asleep = False
        self._in_words = kind == turns.IN_WORDS
        self._number += 1
        return self._turns.ask(self._number, kind)

    def _send_kind(self, kind: bytes) -> None:
        try:
            self._channel.send(kind)
        except ConnectionError:
            raise self.death() from None

    def _send(self, kind: bytes, payload: bytes) -> None:
        deadline = time.monotonic() + self._timeout
        try:
            self._channel.send_payload(kind, payload, deadline)
        except ConnectionError:
            if kind != channel.START:  # Else told by who asks for the spaces.
                raise self.death() from None
        except TimeoutError:
            raise self.timed_out(self._timeout) from None

    def _require_answer(self, kind: bytes) -> None:
        """Refuse a message that is no reply to the last request."""
        answered = self._turns.answered
        wanted = self._asleep or self._in_words or not turns.IN_ORDER
        expected = self._busy and wanted
        if not expected or answered != self._number:
            self.close()
            raise errors.EnvError(
                f'The worker process {self._process.pid} of environment '
                f'{self.first} replied to request {answered} when the last one '
                f'was {self._number}{"" if expected else ", again"}. A '
                'process that an environment has forked may not return to '
                'agents.'
            )
        self._busy = False

    def _tell_last_error(self) -> None:
        """Print why the environments could not be closed, if so."""
        control = self._channel.descriptor
        with contextlib.suppress(EOFError, OSError):  # As is usual.
            if channel.is_readable(control):
                kind = self._channel.receive()
                if kind == channel.EXCEPTION:
                    payload = self._channel.receive_payload(self._close_by)
                    error = errors.in_a_line(errors.EnvError(payload.decode()))
                    print(error, file=sys.stderr)

    def _keep(self, call: int) -> Any:
        """Remember the promise of a call."""
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
        return self.first + self._turns.current[0]
