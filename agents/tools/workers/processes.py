"""Process control by the operating system.

Linux supports all of it. Elsewhere, children of an environment may outlive its worker; see the
comments.
"""

import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import time

# Requests to Linux: a signal when the parent dies, and to be the parent of
# processes whose own has died. From linux/prctl.h.
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

# How often to look for processes that were started in the meantime.
ROUNDS = 10


def finding_modules(program: str) -> str:
    """Let `python -c` find modules where this process does.

    This package comes first, as another one of its name may be on the path, such as the directory
    of a clone. The working directory, which may hold files of strangers, is left out unless it is
    on the path of this process.
    """
    root = pathlib.Path(__file__).parents[3]
    path = [entry for entry in sys.path if isinstance(entry, str)]
    return (
        f'import sys; sys.path[0] = {str(root)!a}; import agents; sys.path[:] = {path!a}; {program}'
    )


def end_with_parent(number: int) -> None:
    """Receive a signal when the parent of this process dies."""
    _prctl(PR_SET_PDEATHSIG, number)


def adopt_orphans() -> None:
    """Become the parent of descendants whose parent died."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def end(process: subprocess.Popen) -> None:
    """Kill a process with all its descendants."""
    if process.returncode is not None:
        return  # Its number may be another's by now.
    with contextlib.suppress(ProcessLookupError):
        # Lest it starts more of them. A worker that has no group yet has none,
        # and does not see yet whether its parent is alive: stopped, it would
        # be left if this process were killed now.
        if os.getpgid(process.pid) == process.pid:
            os.kill(process.pid, signal.SIGSTOP)
    kill_descendants(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    # It makes its group only after a while, and dies without it until then.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def await_exit(process: subprocess.Popen, seconds: float) -> None:
    """Wait for the end of a process without reaping it, as its group is still needed."""
    give_up = time.monotonic() + seconds
    while process.returncode is None and time.monotonic() < give_up:
        if _has_ended(process):
            return
        time.sleep(0.001)


def kill_descendants(pid: int) -> None:
    """Kill all descendants of a process.

    Finds those whose parents are alive or that this process has adopted, on Linux only.
    """
    killed: set[int] = set()
    for _ in range(ROUNDS):
        found = _descendants(pid) - killed
        if not found:
            return
        for number in found:
            with contextlib.suppress(OSError):
                os.kill(number, signal.SIGKILL)
        killed |= found


def death_descriptors(process: subprocess.Popen) -> list[int]:
    """Return descriptors that become readable by the death of a process, if supported."""
    return [os.pidfd_open(process.pid)] if hasattr(os, 'pidfd_open') else []


def _descendants(pid: int) -> set[int]:
    found: set[int] = set()
    parents = [pid]
    while parents:
        new = _children(parents.pop()) - found
        found |= new
        parents += new
    return found


def _children(pid: int) -> set[int]:
    """Return the children of all threads of a process."""
    children: set[int] = set()
    with contextlib.suppress(OSError):
        for thread in pathlib.Path(f'/proc/{pid}/task').iterdir():
            with contextlib.suppress(OSError):  # It is over.
                children.update(map(int, (thread / 'children').read_text().split()))
    return children


def _has_ended(process: subprocess.Popen) -> bool:
    if not hasattr(os, 'waitid'):
        return process.poll() is not None  # Which forgets about the group.
    options = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, process.pid, options) is not None


def _prctl(option: int, value: int) -> None:
    """Set an option of this process on Linux; no effect elsewhere."""
    with contextlib.suppress(AttributeError, OSError):
        arguments = [ctypes.c_ulong(number) for number in (value, 0, 0, 0)]
        ctypes.CDLL(None).prctl(option, *arguments)
