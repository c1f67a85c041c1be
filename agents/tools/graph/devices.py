"""Devices and threads of TensorFlow."""

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any

from agents.tools.graph.backend import tf


def _find_second() -> str | None:
    """Return the name of the second logical device of the processor, or None."""
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
    """Call two functions at the same time, the second one on another device.

    They must not depend on each other's effects. Without a device, and within a graph, they are
    called one after the other.

    Args:
        first: Function to call on this thread.
        second: Function to call on another thread; both are awaited, even if one raises.
        device: Device of the variables of the second one, such as `SECOND_DEVICE`, or None.

    Returns:
        Results of both.
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
    """Set the number of threads of one operation.

    Minibatches of a few hundred rows are faster on one thread, those of thousands on all cores.
    No effect once TensorFlow has run something, or if the user has set a number.
    """
    if 'TF_NUM_INTRAOP_THREADS' not in os.environ:
        with contextlib.suppress(RuntimeError):
            tf.config.threading.set_intra_op_parallelism_threads(count)


_THREAD = threading.local()


def keep_thread() -> None:
    """Keep Python's state of the calling thread, which belongs to TensorFlow.

    Otherwise Python creates and destroys it in each call, which takes as long as the step of a
    simple environment while workers use the same cores.
    """
    if not hasattr(_THREAD, 'kept'):
        # Never released, as the thread lives as long as the process.
        ctypes.pythonapi.PyGILState_Ensure()
        _THREAD.kept = True
