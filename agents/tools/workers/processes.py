"""What is asked of the operating system about processes.

Linux can do all of it. Elsewhere less of what an environment has started ends
with its process, see the comments.
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
    """Let the program of a `python -c` find modules where this process does.

    This package first, as on the path there may be something else by its name,
    such as a directory that it was cloned to. The working directory, which may
    hold files of strangers, is not on the path unless it is here.
    """
    root = pathlib.Path(__file__).parents[3]
    path = [entry for entry in sys.path if isinstance(entry, str)]
    return (
        f'import sys; sys.path[0] = {str(root)!a}; import agents; sys.path[:] = {path!a}; {program}'
    )


def end_with_parent(number: int) -> None:
    """Get a signal when the parent of this process dies."""
    _prctl(PR_SET_PDEATHSIG, number)


def adopt_orphans() -> None:
    """Be the parent of what descends from this process and has lost its own."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def end(process: subprocess.Popen) -> None:
    """Kill a process, if it is alive, and all that it has started."""
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
    """Wait for the end of a process without forgetting about its group."""
    give_up = time.monotonic() + seconds
    while process.returncode is None and time.monotonic() < give_up:
        if _has_ended(process):
            return
        time.sleep(0.001)


def kill_descendants(pid: int) -> None:
    """Kill the processes that one has started, and those that these have.

    Only those whose parents are alive, or that were handed to this one when
    they died, can be found, and only where Linux tells the children.
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
    """A descriptor that becomes readable by death, where there is such."""
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
    """The children of all threads of a process."""
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
    """Ask Linux for something about this process; elsewhere it is left out."""
    with contextlib.suppress(AttributeError, OSError):
        arguments = [ctypes.c_ulong(number) for number in (value, 0, 0, 0)]
        ctypes.CDLL(None).prctl(option, *arguments)
