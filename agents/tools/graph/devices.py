"""The devices and threads that TensorFlow works with."""

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any

from agents.tools.graph.backend import tf


def _find_second() -> str | None:
    """The name of the second device that the processor is split into."""
    cpus = tf.config.list_physical_devices('CPU')
    parts = tf.config.get_logical_device_configuration(cpus[0]) or []
    return 'CPU:1' if len(parts) > 1 else None


# A device to learn the value on while the policy is learnt on the first; None
# if there is none, so that they have to take turns.
SECOND_DEVICE = _find_second()
LEARNER = 'agents-learner'
_SECOND_THREAD = futures.ThreadPoolExecutor(1, LEARNER)


def run_concurrently(
    first: Callable[[], Any], second: Callable[[], Any], device: str | None
) -> tuple[Any, Any]:
    """Call two functions at the same time, the second on a device of its own.

    They must not depend on each other's effects. Without a device, or within a
    graph, which is on one, they are called one after the other.

    Args:
        first: Is called on this thread.
        second: Is called on another; both are awaited, even if one raises.
        device: Where the second one's variables are, such as `SECOND_DEVICE`,
            or None if they are where those of the first are.

    Returns:
        What the first and the second return.
    """
    if tf.inside_function() or device is None:
        return first(), second()

    def call_second() -> Any:
        with tf.device(device):
            return second()

    pending = _SECOND_THREAD.submit(call_second)
    try:
        result = first()
    except BaseException as error:
        hidden = pending.exception()  # Waits for it.
        if hidden is not None:
            raise error from hidden  # So that neither is lost.
        raise
    return result, pending.result()


def use_threads(count: int) -> None:
    """Set how many threads one operation may use.

    Minibatches of a few hundred rows are faster on one; those of thousands
    want every core. Without effect once TensorFlow has run something, or where
    the user has decided.
    """
    if 'TF_NUM_INTRAOP_THREADS' not in os.environ:
        with contextlib.suppress(RuntimeError):
            tf.config.threading.set_intra_op_parallelism_threads(count)


_THREAD = threading.local()


def keep_thread() -> None:
    """Let Python remember the calling thread, which is one of TensorFlow's.

    Otherwise Python makes a record of the thread for each call, with memory to
    run functions in, and throws both away after it. With workers beside it on
    the same cores that takes as long as the step of an environment.
    """
    if not hasattr(_THREAD, 'kept'):
        # Never released, as the thread lives as long as the process.
        ctypes.pythonapi.PyGILState_Ensure()
        _THREAD.kept = True
