"""Launch of a command on several ranks, by the mpiexec of the MPI of mpi4py."""

import contextlib
import functools
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import BinaryIO, TextIO

from agents.terminal import console, interrupts
from agents.tools import errors, leftovers
from agents.tools.workers import processes

# What the launcher itself says of signals and of ranks that end, which have
# said why.
NOISE = (
    b'[mpiexec@',
    b'[proxy:',
    b'=' * 80,
    b'=   BAD TERMINATION',
    b'=   PID ',
    b'=   EXIT CODE',
    b'=   CLEANING UP',
    b'=   YOU CAN IGNORE',
    b'YOUR APPLICATION TERMINATED',
    b'This typically refers to',
    b'Please see the FAQ',
    b'Abort(',
    b'application called MPI_Abort',
)
# Seconds until the launcher is sent a signal once more.
RETRY_SECONDS = 1.0

# How ranks say why they end.
ENDS = b'error:', b'Traceback', b'stopped', b' Ended at once.'
KILLED = b'YOUR APPLICATION TERMINATED WITH THE EXIT STRING: '


def command_of(module: str) -> list[str]:
    """Return the command that runs a module by name, as in this process."""
    program = processes.finding_modules(
        f"import runpy; runpy.run_module({module!r}, None, '__main__', True)"
    )
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return [sys.executable, *flags, '-c', program]


def run(count: int, module: str, arguments: Sequence[str]) -> int:
    """Run a module on several ranks; returns the exit code.

    Args:
        count: Number of ranks.
        module: Name of the module.
        arguments: Arguments.
    """
    command = [str(find_mpiexec()), '-n', str(count), *command_of(module)]
    began = time.time()
    process = subprocess.Popen(
        [*command, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env={**os.environ, console.TERMINAL: _describe_terminal()},
        start_new_session=True,  # Signals of the terminal come by this one.
        preexec_fn=functools.partial(processes.end_with_parent, signal.SIGTERM),
    )
    heard = _Heard()
    threads = [
        threading.Thread(target=_relay, args=[*stream, heard])
        for stream in ((process.stdout, sys.stdout), (process.stderr, sys.stderr))
    ]
    with _forwarding(process, heard) as told:
        for thread in threads:
            thread.start()
        code = process.wait()
        for thread in threads:
            thread.join()
    leftovers.remove_unused(began)
    if code and told and not (code == 1 and heard.failed):
        # The code is of whichever rank or launcher the signal reached first.
        if not heard.explained:
            first = f'\n{signal.Signals(told[0]).name}: Ended at the start.'
            text = first if len(told) == 1 else ' Ended at once.'
            print(text, file=sys.stderr)
        return 128 + told[0]
    if code and not told:
        _explain(code, heard)
    return 128 + code if heard.killed else abs(code)


class _Heard:
    """Output of the ranks and of their launcher so far.

    Attributes:
        something: Whether anything was printed.
        explained: Whether a message explained the end.
        failed: Whether a rank printed an error.
        killed: Message of the launcher about a rank that was killed.
        noise: Other messages of the launcher.
    """

    def __init__(self) -> None:
        self.something = self.explained = self.failed = False
        self.killed = ''
        self.noise: list[str] = []

    def take(self, line: bytes) -> bool:
        """Receive a line; returns whether to print it."""
        if line.startswith(KILLED):
            self.killed = line.removeprefix(KILLED).decode(errors='replace')
        if line.startswith(NOISE):
            self.noise.append(line.decode(errors='replace'))
            return False
        self.something |= bool(line.strip())
        self.explained |= line.startswith(ENDS)
        self.failed |= line.startswith(b'error:')
        return True


def _explain(code: int, heard: _Heard) -> None:
    """Print why all ranks have ended, if no rank has."""
    if heard.killed:
        console.complain(
            f'A rank was killed: {heard.killed}. All others have been ended. '
            'Give the --name of the run to go on from its last checkpoint.'
        )
    elif not heard.explained:
        for line in heard.noise:
            print(line, file=sys.stderr)
        console.complain(
            f'A rank ended without a word, or none could be started; the exit code is {code}.'
        )


def find_mpiexec() -> pathlib.Path:
    """Return the launcher beside this Python, or the one on the path."""
    beside = pathlib.Path(sys.executable).with_name('mpiexec')
    found = str(beside) if beside.exists() else shutil.which('mpiexec')
    if found is None:
        raise errors.ConfigError(
            'Several ranks need mpiexec and mpi4py, and there is no mpiexec: '
            "pip install 'agents[mpi]'."
        )
    return pathlib.Path(found)


def _describe_terminal() -> str:
    if not sys.stdout.isatty():
        return ''
    return str(shutil.get_terminal_size().columns)


@contextlib.contextmanager
def _forwarding(process: subprocess.Popen, heard: _Heard) -> Iterator[list[int]]:
    """Forward signals to the ranks; yields the list of those received.

    Ranks without output cannot handle signals yet and are ended by the launcher, as by a second
    signal.
    """

    def forward(number: int, frame: object) -> None:
        told.append(number)
        if not heard.something:
            if len(told) == 1:
                threading.Thread(target=insist, daemon=True).start()
            return
        ranks = _find_ranks(process.pid) if len(told) == 1 else []
        known = number in (signal.SIGINT, signal.SIGTERM)
        with contextlib.suppress(ProcessLookupError):
            # Not by mpiexec, whose own handler may corrupt its memory.
            for rank in ranks:
                os.kill(rank, number if known else signal.SIGTERM)
            if not ranks:
                process.send_signal(signal.SIGTERM)

    def insist() -> None:
        # The launcher loses signals while it starts.
        while process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            time.sleep(RETRY_SECONDS)

    told: list[int] = []
    before = {
        number: signal.signal(number, forward)
        for number in interrupts.SIGNALS
        if number == signal.SIGINT or interrupts.is_heard(number)
    }
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _find_ranks(launcher: int) -> list[int]:
    """Return the processes of the ranks: children of the children of the launcher."""
    return [rank for proxy in _find_children(launcher) for rank in _find_children(proxy)]


def _find_children(process: int) -> list[int]:
    path = pathlib.Path(f'/proc/{process}/task/{process}/children')
    with contextlib.suppress(OSError):
        return [*map(int, path.read_text().split())]
    return []


def _relay(source: BinaryIO, target: TextIO, heard: _Heard) -> None:
    """Print the output of the ranks as it comes, without messages of the launcher."""
    rest = b''
    while part := os.read(source.fileno(), 2**16):
        *lines, rest = (rest + part).split(b'\n')
        kept = [line + b'\n' for line in lines if heard.take(line)]
        if not _may_be_noise(rest):  # Such as a line that is renewed.
            heard.take(rest)
            kept.append(rest)
            rest = b''
        _print(target, b''.join(kept))
    if heard.take(rest):
        _print(target, rest)


def _may_be_noise(begun: bytes) -> bool:
    """Return whether the start of a line may be a message of the launcher."""
    starts = (noise[: len(begun)] == begun for noise in NOISE)
    return begun.startswith(NOISE) or any(starts)


def _print(target: TextIO, text: bytes) -> None:
    with contextlib.suppress(OSError):
        target.buffer.write(text)
        target.buffer.flush()
