"""Starts a command again on several ranks, by the mpiexec of mpi4py's MPI."""

import contextlib
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

from agents.scripts import console, interrupts
from agents.tools import errors

# What the launcher itself says of signals and of ranks that end, which have
# said why.
NOISE = (
    b'[mpiexec@',
    b'[proxy:',
    b'=====',
    b'=   ',
    b'YOUR APPLICATION TERMINATED',
    b'This typically refers to',
    b'Please see the FAQ',
    b'Abort(',
    b'application called MPI_Abort',
)
KILLED = b'YOUR APPLICATION TERMINATED WITH THE EXIT STRING: '

# What the system does to the launcher when this process is killed.
PR_SET_PDEATHSIG = 1


def run(count: int, module: str, arguments: Sequence[str]) -> int:
    """Run a module on several ranks; returns the exit code.

    Args:
        count: How many ranks.
        module: Name of the module.
        arguments: Its arguments.
    """
    command = [str(find_mpiexec()), '-n', str(count), sys.executable, '-m']
    environ = {**os.environ, console.TERMINAL: _describe_terminal()}
    began = time.time()
    process = subprocess.Popen(
        [*command, module, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env=environ,
        start_new_session=True,  # Signals of the terminal come by this one.
        preexec_fn=_end_with_parent,
    )
    assert process.stdout is not None and process.stderr is not None
    killed: list[str] = []
    shown: list[bytes] = []
    problems: list[bytes] = []
    threads = [
        threading.Thread(target=_relay, args=arguments)
        for arguments in (
            (process.stdout, sys.stdout, killed, shown),
            (process.stderr, sys.stderr, killed, problems),
        )
    ]
    with _forwarding(process, shown) as told:
        for thread in threads:
            thread.start()
        code = process.wait()
        for thread in threads:
            thread.join()
    _forget_memory(began)
    if killed and not told:
        console.complain(
            f'A rank was ended from outside ({killed[0]}), and with it all '
            'others. Give the timestamp of the run to go on from its last '
            'checkpoint.'
        )
        return 128 + code
    if code and not told and not problems:
        console.complain(
            f'A rank ended by itself with the exit code {code}, and with it '
            'all others.'
        )
    if told and not shown:
        return 128 + told[0]
    return code if code >= 0 else 128 - code


def find_mpiexec() -> pathlib.Path:
    """The launcher beside this Python, or the one that a shell would find."""
    beside = pathlib.Path(sys.executable).with_name('mpiexec')
    found = str(beside) if beside.exists() else shutil.which('mpiexec')
    if found is None:
        raise errors.ConfigError(
            'Several ranks need mpiexec and mpi4py, and there is no mpiexec: '
            "pip install 'agents[mpi]'."
        )
    return pathlib.Path(found)


def _forget_memory(began: float) -> None:
    """Remove what ranks leave in shared memory that are killed as they start.

    That is what was made since then and belongs to nobody any more.
    """
    used = ''
    for maps in pathlib.Path('/proc').glob('[0-9]*/maps'):
        with contextlib.suppress(OSError):
            used += maps.read_text()
    for path in pathlib.Path('/dev/shm').glob('mpich_shm_*'):
        with contextlib.suppress(OSError):
            if path.stat().st_ctime >= began - 1 and str(path) not in used:
                path.unlink()


def _describe_terminal() -> str:
    if not sys.stdout.isatty():
        return ''
    return str(shutil.get_terminal_size().columns)


def _end_with_parent() -> None:
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@contextlib.contextmanager
def _forwarding(
    process: subprocess.Popen, shown: list[bytes]
) -> Iterator[list[int]]:
    """Pass signals on, which are listed; the launcher tells the ranks.

    Before these have shown anything they cannot handle signals yet, and are
    ended.
    """

    def forward(number: int, frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            # It does not survive others, nor a second one of the first.
            kind = number if shown and not told else signal.SIGTERM
            told.append(number)
            known = (signal.SIGINT, signal.SIGTERM)
            process.send_signal(kind if kind in known else signal.SIGTERM)

    told: list[int] = []
    before = {
        number: signal.signal(number, forward) for number in interrupts.SIGNALS
    }
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _relay(
    source: BinaryIO, target: TextIO, killed: list[str], printed: list[bytes]
) -> None:
    """Print what ranks print, as it comes, but not what the launcher does.

    Args:
        source: Where it comes from.
        target: Where to print it.
        killed: Receives what the launcher says of a rank that was killed.
        printed: Receives what was printed.
    """
    rest = b''
    while part := os.read(source.fileno(), 2**16):
        *lines, rest = (rest + part).split(b'\n')
        kept = [line + b'\n' for line in lines if not line.startswith(NOISE)]
        killed += [
            line.removeprefix(KILLED).decode(errors='replace')
            for line in lines
            if line.startswith(KILLED)
        ]
        if not rest.startswith(NOISE):  # Such as a line that is renewed.
            kept.append(rest)
            rest = b''
        printed += [line for line in kept if line.strip()]
        with contextlib.suppress(OSError):
            target.buffer.write(b''.join(kept))
            target.buffer.flush()
