"""TensorFlow, imported quietly and set up for the loops of this project.

Every module that needs TensorFlow takes it from here, so that the settings
that have to precede its first use stand in one place. What a user has set in
the environment is kept.
"""

import contextlib
import ctypes
import gc
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

from agents.tools.graph import compile_cache

# Log lines of severity info and warning, which are not for users of agents.
_NOISE = re.compile(rb'^(WARNING: All log messages before absl|[IW]\d{4} )')


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Drop log lines that libraries print straight to the terminal."""
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)
            file.seek(0)
            kept = [line for line in file if not _NOISE.match(line)]
            sys.stderr.write(b''.join(kept).decode(errors='replace'))


@contextlib.contextmanager
def _hidden(name: str) -> Iterator[None]:
    """Let a module seem not installed, unless it has been imported already."""
    hide = name not in sys.modules
    if hide:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if hide:
            del sys.modules[name]


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Do not look for garbage while much is made and nothing thrown away."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _add_flags(variable: str, flags: str) -> None:
    """Add flags to an environment variable that it does not mention yet."""
    present = os.environ.get(variable, '')
    missing = [f for f in flags.split() if f.partition('=')[0] not in present]
    os.environ[variable] = ' '.join([present, *missing]).strip()


# Threads that allocate memory from the same arena wait for each other.
with contextlib.suppress(OSError, AttributeError):
    ctypes.CDLL(None).mallopt(-8, 64)  # M_ARENA_MAX of the GNU C library.

# A graph that waits for environments has one thing to do at a time, and handing
# it from thread to thread takes longer than doing it. Threads within an
# operation are slower for all but large minibatches, see `use_threads`; they
# belong to a device, so that two devices can work side by side.
os.environ.setdefault('TF_NUM_INTEROP_THREADS', '1')
os.environ.setdefault('TF_OVERRIDE_GLOBAL_THREADPOOL', '1')
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
os.environ.setdefault('KERAS_BACKEND', 'tensorflow')
_add_flags('XLA_FLAGS', '--xla_cpu_prefer_vector_width=512')
_add_flags('TF_XLA_FLAGS', compile_cache.flags())

# Keras imports all of pyplot, a fifth of the time, for a gallery of images.
with _quiet(), _hidden('matplotlib'), _no_garbage_collection():
    import keras
    import tensorflow as tf

tf.get_logger().setLevel('ERROR')

# What is compiled needs no optimization before, which would take time and name
# things at random, so that the cache would not recognize the program.
tf.config.optimizer.set_experimental_options({'disable_meta_optimizer': True})

# Traced once for each set of arguments that are not tensors. Inside of a
# function that is compiled as a whole, such a function becomes part of it.
compiled = tf.function(jit_compile=True, autograph=False)


def _split_processor() -> str | None:
    """Make the processor two devices; returns the name of the second."""
    cpus = tf.config.list_physical_devices('CPU')
    part = tf.config.LogicalDeviceConfiguration()
    try:
        tf.config.set_logical_device_configuration(cpus[0], [part, part])
    except (RuntimeError, ValueError):  # TensorFlow is in use already.
        return None
    return 'CPU:1'


# A device to learn the value on while the policy is learnt on the first; None
# if there is none, so that they have to take turns.
SECOND_DEVICE = _split_processor()
LEARNER = 'agents-learner'
_SECOND_THREAD = futures.ThreadPoolExecutor(1, LEARNER)


def together(
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

    def on_device() -> Any:
        with tf.device(device):
            return second()

    pending = _SECOND_THREAD.submit(on_device)
    try:
        result = first()
    except BaseException as error:
        other = pending.exception()  # Waits for it.
        if other is not None:
            raise error from other  # So that neither is lost.
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


__all__ = [
    'LEARNER',
    'SECOND_DEVICE',
    'compiled',
    'keep_thread',
    'keras',
    'tf',
    'together',
    'use_threads',
]
