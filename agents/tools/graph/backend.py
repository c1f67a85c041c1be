"""Quiet import of TensorFlow, and its setup for this process.

Every module that needs TensorFlow imports it from here. Importing this module sets up memory
allocation, environment variables and two logical devices for the processor. Environment variables
that the user has set are kept.
"""

import atexit
import contextlib
import ctypes
import gc
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from agents.tools.graph import compile_cache

# If set to 1, TensorFlow sees the GPUs that there are, which nobody has tried.
GPU = 'AGENTS_GPU'

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
def _hidden(*names: str) -> Iterator[None]:
    """Make modules seem not installed while others are imported, unless loaded already."""
    hide = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hide))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in hide:
            del sys.modules[name]


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Disable garbage collection while many objects are created."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _collect_garbage_once() -> None:
    """Collect garbage once, then freeze all objects.

    While a process ends, Python traverses all objects of TensorFlow several times, which takes most
    of a second.
    """
    gc.collect()  # What ends by being thrown away still does so.
    gc.freeze()


def _add_flags(variable: str, flags: str) -> None:
    """Add flags to an environment variable unless it sets them already."""
    present = os.environ.get(variable, '')
    missing = [f for f in flags.split() if f.partition('=')[0] not in present]
    os.environ[variable] = ' '.join([present, *missing]).strip()


# Threads that allocate memory from the same arena wait for each other.
with contextlib.suppress(OSError, AttributeError):
    ctypes.CDLL(None).mallopt(-8, 64)  # M_ARENA_MAX of the GNU C library.

# A graph that waits for environments has one thing to do at a time, and handing
# it from thread to thread takes longer than doing it. Threads within an
# operation are slower for all but large minibatches, see `devices`; they
# belong to a device, so that two devices can work side by side.
os.environ.setdefault('TF_NUM_INTEROP_THREADS', '1')
os.environ.setdefault('TF_OVERRIDE_GLOBAL_THREADPOOL', '1')
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
os.environ.setdefault('KERAS_BACKEND', 'tensorflow')
_add_flags('XLA_FLAGS', '--xla_cpu_prefer_vector_width=512')
_before = os.environ.get('TF_XLA_FLAGS')
_add_flags('TF_XLA_FLAGS', compile_cache.flags())

# Imported where they are installed, in a quarter of the time, though nothing
# here needs what they are for: galleries of images, and conversion from JAX.
with _quiet(), _hidden('matplotlib', 'jax', 'IPython'), _no_garbage_collection():
    import keras
    import tensorflow as tf

atexit.register(_collect_garbage_once)

tf.get_logger().setLevel('ERROR')

# What is compiled needs no optimization before, which would take time and name
# things at random, so that the cache would not recognize the program.
tf.config.optimizer.set_experimental_options({'disable_meta_optimizer': True})

# Traced once for each set of arguments that are not tensors. Inside of a
# function that is compiled as a whole, such a function becomes part of it.
compiled = tf.function(jit_compile=True, autograph=False)


def compile_part(function: Callable[..., Any], whole: bool = True) -> Any:
    """Compile a function as a part of the graph that is being built.

    The part belongs to that graph and is freed with it.

    Args:
        function: Function to compile; called as it is outside of graphs.
        whole: False to leave the function uncompiled.
    """
    return compiled(function) if whole and tf.inside_function() else function


class compile_unless_conv:
    """Compiles a method with XLA unless its object is `convolutional`.

    The convolutions of TensorFlow take half the time of those of XLA on the processor. XLA programs
    cannot call them, so that methods around convolutions are plain graphs with compiled parts.

    Args:
        method: Method to compile.
    """

    def __init__(self, method: Callable[..., Any]):
        self._compiled = compiled(method)
        self._plain = tf.function(method, autograph=False)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        chosen = self._plain if instance.convolutional else self._compiled
        return chosen.__get__(instance, owner)


def bind_concrete(function: Any, *arguments: Any) -> Callable[..., Any]:
    """Bind a function of TensorFlow to the types of some arguments.

    For small programs, finding the program for the arguments of a call takes five times as long as
    running it. The result is called with the tensors alone, in the order of `nested.flatten`.

    Args:
        function: Function of TensorFlow.
        arguments: Arguments of the types of later calls.
    """
    traced = function.get_concrete_function(*arguments)
    captured = traced.captured_inputs
    return lambda *tensors: traced._call_flat([*tensors], captured)


# Environments step on the processor, and programs that call them are for it.
# What is drawn or simulated by a GPU in workers is no concern of TensorFlow's.
# Not if it is in use already.
if os.environ.get(GPU, '0') == '0':
    with contextlib.suppress(RuntimeError, ValueError):
        tf.config.set_visible_devices([], 'GPU')

# Two devices, so that the policy and the value can be learnt side by side; see
# `devices`. Not if TensorFlow is in use already.
with contextlib.suppress(RuntimeError, ValueError):
    _PART = tf.config.LogicalDeviceConfiguration()
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices('CPU')[0], [_PART, _PART]
    )

# TensorFlow has read its flags by now. They name a descriptor of this process,
# which others that it starts do not have.
if _before is None:
    del os.environ['TF_XLA_FLAGS']
else:
    os.environ['TF_XLA_FLAGS'] = _before


__all__ = ['bind_concrete', 'compile_part', 'compile_unless_conv', 'compiled', 'keras', 'tf']
