"""The program of a worker process; see `agents.tools.external_process`.

A worker hosts a slice of environments. It is started afresh rather than
forked, never imports TensorFlow, and dies with its parent.
"""

import fcntl
import mmap
import os
import select
import signal
import sys
import threading
import traceback

import cloudpickle
import numpy as np

from agents.tools import block, channel, env_slice, errors, wire


def main() -> None:
    """Serve requests until the parent closes or dies."""
    control, lifeline, memory = map(int, sys.argv[1:4])
    # A group of its own, since Ctrl-C is the parent's to handle, but not a
    # session: schedulers share out time by session, and would let a worker
    # that is awake keep the parent waiting.
    os.setpgid(0, 0)
    _die_with_parent(lifeline)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent's to handle.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    parent = channel.Channel(control)
    try:
        if parent.receive() != channel.START:
            return  # The parent changed its mind or died.
        settings = cloudpickle.loads(parent.receive_payload())
        core = settings.pop('core')
        if core is not None:
            os.sched_setaffinity(0, {core})
        current = np.frombuffer(mmap.mmap(memory, block.HEADER), np.int64, 1)
        envs = env_slice.EnvSlice(**settings, current=current)
        found = envs.observation_space, envs.action_space
        parent.send_payload(channel.RESULT, wire.dumps(found))
        serve(parent, envs, memory)
        envs.close()
    except errors.EnvError as error:
        parent.send_payload(channel.EXCEPTION, _encode(str(error)))
    except Exception:
        parent.send_payload(channel.EXCEPTION, _encode(traceback.format_exc()))


def serve(
    parent: channel.Channel, envs: env_slice.EnvSlice, memory: int
) -> None:
    """Answer requests until told to close."""
    while True:
        request = parent.receive_soon()
        if request == channel.STEP:
            envs.step()
        elif request == channel.STEP_ONCE:
            envs.step(autoreset=False)
        elif request == channel.RESET:
            envs.reset()
        elif request == channel.ATTACH:
            found = envs.observation_space, envs.action_space
            buffer = memoryview(mmap.mmap(memory, 0))[block.HEADER :]
            envs.attach(block.Block(*found, len(envs), buffer))
        elif request == channel.CALL:
            _call(parent, envs)
            continue
        else:
            return
        parent.send(channel.DONE)


def _call(parent: channel.Channel, envs: env_slice.EnvSlice) -> None:
    index, name, args, kwargs = cloudpickle.loads(parent.receive_payload())
    try:
        value = wire.dumps(envs.call(index, name, *args, **kwargs))
        parent.send_payload(channel.RESULT, value)
    except (AttributeError, TypeError) as error:
        parent.send_payload(channel.REFUSED, _encode(f'{name}: {error}'))


def _encode(text: str) -> bytes:
    """Names of files, for example, may hold what is not text."""
    return text.encode(errors='backslashreplace')


def _die_with_parent(lifeline: int) -> None:
    """Kill this process and those it starts once the parent is gone.

    The parent alone holds the other end of the pipe. Linux can be asked to
    signal a whole group of processes when that closes, which works even while
    an environment never returns to the interpreter.
    """
    if not hasattr(fcntl, 'F_SETSIG'):
        threading.Thread(target=_watch, args=[lifeline], daemon=True).start()
        return
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC)
    if select.select([lifeline], [], [], 0)[0]:  # The parent died before that.
        os._exit(1)


def _watch(lifeline: int) -> None:
    os.read(lifeline, 1)
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == '__main__':
    main()
