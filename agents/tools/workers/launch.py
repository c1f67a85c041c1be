"""Start of worker processes."""

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
from typing import NamedTuple

import cloudpickle
import numpy as np

from agents.tools import errors
from agents.tools.batch import headless
from agents.tools.workers import block, processes, turns

# Variables that would make a worker's libraries believe that they are part of
# the parent's MPI job.
MPI_PREFIXES = ('OMPI_', 'PMIX_', 'PMI_', 'MPI_', 'MPICH_', 'HYDRA_', 'HYDI_')

# A worker keeps one core busy with environments; threads would only compete.
ONE_THREAD = ('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'MKL_NUM_THREADS')

# File descriptors that the parent has of each worker: a socket, a pipe, one
# that tells of its death, and the shared memory, opened once and mapped twice.
DESCRIPTORS = 6

# The program of a worker.
PROGRAM = 'from agents.tools.workers.worker import main; main()'


class Launched(NamedTuple):
    """Process with its resources.

    Attributes:
        process: Process.
        control: Socket to the process.
        lifeline: Descriptor of a pipe; the process ends when it is closed.
        memory: Descriptor of the shared memory.
        turns: Numbers at the start of the shared memory.
        pidfd: Descriptor that becomes readable by the death of the process, or None.
    """

    process: subprocess.Popen
    control: socket.socket
    lifeline: int
    memory: int
    turns: turns.Turns
    pidfd: list[int]


# Counts the workers that this process has started.
_started = itertools.count()


def start(first: int, program: str = PROGRAM) -> Launched:
    """Start a worker; leaves nothing behind if that fails.

    Python warnings are shown for the first worker only, as all run the same code.

    Args:
        first: Index of its first environment.
        program: Python code to run.
    """
    try:
        with contextlib.ExitStack() as stack:
            worker = _start_on(stack, program)
            stack.pop_all()
            return worker
    except OSError as error:
        raise errors.EnvError(
            f'The worker of environment {first} cannot be started: {error}. '
            'Use fewer workers, or raise the limit in question (see ulimit -a).'
        ) from error


def _start_on(stack: contextlib.ExitStack, program: str) -> Launched:
    """Start a worker; the stack releases its resources."""
    memory = block.anonymous_file()
    stack.callback(os.close, memory)
    numbers = turns.Turns(block.grown(memory, turns.SIZE))
    ours, theirs = socket.socketpair()
    stack.callback(ours.close)
    with theirs:
        their_lifeline, our_lifeline = os.pipe()
        stack.callback(os.close, our_lifeline)
        try:
            process = _popen(program, theirs.fileno(), their_lifeline, memory)
        finally:
            os.close(their_lifeline)
    stack.callback(processes.end, process)
    pidfd = processes.death_descriptors(process)
    return Launched(process, ours, our_lifeline, memory, numbers, pidfd)


def _popen(program: str, *descriptors: int) -> subprocess.Popen:
    """Start a program with its ends of the connections."""
    environ = {
        key: value
        for key, value in {**headless.for_workers, **os.environ}.items()
        if not key.startswith(MPI_PREFIXES)
    }
    environ.update({key: os.environ.get(key, '1') for key in ONE_THREAD})
    environ.setdefault('PYGAME_HIDE_SUPPORT_PROMPT', '1')
    program = processes.finding_modules(program)
    # The end of another thread would be taken for that of this process.
    lasting = threading.current_thread() is threading.main_thread()
    parent = os.getpid() if lasting else 0
    quiet = next(_started) > 0 and not environ.get('PYTHONWARNINGS')
    arguments = *descriptors, parent, int(quiet)
    # Blocked signals stay so in the child, until it can tell them itself that
    # they are not for it: Ctrl-C is the parent's to handle.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        return subprocess.Popen(
            [sys.executable, '-c', program, *map(str, arguments)],
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
            env=environ,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def derive_seed(seed: int | None, number: int) -> int | None:
    """Derive a seed that differs for every number; None stays None."""
    if seed is None:
        return None
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0])


def pickled(settings: dict) -> bytes:
    """Serialize the settings of a worker."""
    try:
        return cloudpickle.dumps(settings)
    except Exception as error:
        raise errors.ConfigError(
            f'The constructor of an environment cannot be sent to a process: {error}'
        ) from error


def end(worker: Launched) -> None:
    """Kill a process and release its resources."""
    processes.end(worker.process)
    worker.control.close()
    for descriptor in (worker.lifeline, worker.memory, *worker.pidfd):
        os.close(descriptor)
