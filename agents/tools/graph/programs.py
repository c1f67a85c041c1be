"""Memory of compiled programs, which TensorFlow keeps until the process ends.

A process that trains many times would run out of memory, and after about a hundred trainings out
of memory mappings, of which Linux allows 65,530.
"""

import contextlib
import ctypes
import functools
import gc
import inspect
import sys
import threading
from collections.abc import Iterator

from tensorflow.core.framework import resource_handle_pb2, tensor_pb2, types_pb2

from agents.tools.graph import compile_cache
from agents.tools.graph.backend import tf
from agents.tools.graph.devices import LEARNER
from agents.tools.world import WATCH

# The object of a device that owns its compiled programs: its name, its type
# and the hash of that by which TensorFlow tells types apart.
OWNER = 'xla_device_compiler'
OWNER_TYPE = 'N10tensorflow14DeviceCompilerIN3xla15LocalExecutableENS1_11LocalClientEEE'
OWNER_HASH = 0x6B406BD7CBE180FF

# The modules whose threads serve a notebook, and that of threads that may run a
# cell beside the main one.
KERNEL = 'ipykernel.', 'IPython.core.history'
SUBSHELL = 'ipykernel.subshell'

# Trainings under way, and whether one has ended.
_RUNNING: set[object] = set()
_ENDED = threading.Event()


@contextlib.contextmanager
def afresh() -> Iterator[None]:
    """Run a training after releasing the memory of earlier ones in this process.

    Before and not after a training, so that a single training does not wait for it.
    """
    again = _ENDED.is_set()
    if again:
        gc.collect()
        if not _RUNNING and _is_only_thread():
            _release_programs()
        _omit_traces()
    training = object()
    _RUNNING.add(training)
    try:
        yield
    finally:
        _RUNNING.remove(training)
        _ENDED.set()
        if again:
            _return_memory()


def give_up_cache(error: Exception) -> bool:
    """Disable the compile cache if an error comes from it.

    TensorFlow keeps the error with the program, so that all programs are compiled again.

    Returns:
        Whether to repeat the call that failed.
    """
    given_up = compile_cache.give_up(error)
    if given_up:
        _release_programs()
    return given_up


def _is_only_thread() -> bool:
    """Return whether no other thread can be running a program."""
    mine = threading.current_thread()
    return all(
        thread is mine or thread.name.startswith((LEARNER, WATCH)) or _serves_notebook(thread)
        for thread in threading.enumerate()
    )


def _serves_notebook(thread: threading.Thread) -> bool:
    """Return whether a thread belongs to the kernel of a notebook and runs no cells."""
    if type(thread).__module__ == SUBSHELL:
        return False
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        if frame.f_globals.get('__name__', '').startswith(KERNEL):
            return True
        frame = frame.f_back
    return False


def _release_programs() -> None:
    """Delete the resources that own compiled programs; TensorFlow recreates them when needed.

    There is no public function for this, but resources are deleted by a handle, which is just a
    name. Without a resource of that name, nothing happens.
    """
    for device in tf.config.list_logical_devices('CPU'):
        handle = resource_handle_pb2.ResourceHandleProto(
            device=f'/job:localhost/replica:0/task:0{device.name}',
            container='localhost',
            name=OWNER,
            hash_code=OWNER_HASH,
            maybe_type_name=OWNER_TYPE,
        )
        tensor = tensor_pb2.TensorProto(dtype=types_pb2.DT_RESOURCE, resource_handle_val=[handle])
        tensor.tensor_shape.SetInParent()  # That of a scalar.
        with tf.device(device.name):
            resource = tf.io.parse_tensor(tensor.SerializeToString(), tf.resource)
            tf.raw_ops.DestroyResourceOp(resource=resource, ignore_lookup_error=True)


def _omit_traces() -> None:
    """Stop recording the Python traceback of each operation.

    The record, several kilobytes each, is never freed once the operation is compiled. It serves
    errors within the graph, which an earlier training of the process has mostly ruled out.
    """
    with contextlib.suppress(ImportError, AttributeError):
        from tensorflow.python.framework import ops

        make = ops._create_c_op
        if isinstance(make, functools.partial):
            return
        if 'extract_traceback' in inspect.signature(make).parameters:
            ops._create_c_op = functools.partial(make, extract_traceback=False)


def _return_memory() -> None:
    """Return freed memory to the system."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # Of the GNU C library.
