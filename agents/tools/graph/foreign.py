"""XLA's foreign function interface, implemented with ctypes.

Compiled programs can call a function that is registered by name. XLA has a C interface for this,
`xla/ffi/api/c_api.h` among the headers of TensorFlow. The structures that are needed are declared
here, up to the last field that is used; each begins with its size, by which both sides know the
version of the other. No compiler is needed, as ctypes turns Python functions into C functions.
"""

import contextlib
import ctypes
import functools
import os
import pathlib
from collections.abc import Callable, Generator
from typing import Any

from agents.tools import errors
from agents.tools.graph.backend import tf
from agents.tools.graph.devices import keep_thread

# The version of the interface: another first number means other structures;
# a larger second one, that there are more of them.
MAJOR, MINOR = 0, 2

# The code of an error that is none of XLA's own.
INTERNAL = 13

# If set to 0, programs are left at every step instead, as where this interface
# is not to be had.
VARIABLE = 'AGENTS_HOST_CALLS'

# What holds TensorFlow's code, by system. That of macOS does not show the
# function as of TensorFlow 2.21.
LIBRARIES = 'libtensorflow_cc.so.2', 'libtensorflow_cc.2.dylib'

PLATFORM = b'Host'

Pointer, Size, Integer = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int


def _structure(name: str, *fields: tuple) -> Any:
    return type(name, (ctypes.Structure,), {'_fields_': fields})


_HEAD = ('size', Size), ('extension', Pointer)
Span = _structure('Span', ('data', ctypes.c_char_p), ('length', Size))
Version = _structure('Version', *_HEAD, ('major', Integer), ('minor', Integer))
Api = _structure(
    'Api',
    *_HEAD,
    ('version', Version),
    ('internal', Pointer),
    ('error_create', Pointer),
    ('error_message', Pointer),
    ('error_destroy', Pointer),
    ('register', Pointer),
)
Stages = _structure(
    'Stages',
    ('instantiate', Pointer),
    ('prepare', Pointer),
    ('initialize', Pointer),
    ('execute', Pointer),
)
Registration = _structure(
    'Registration',
    *_HEAD,
    ('name', Span),
    ('platform', Span),
    ('stages', Stages),
    ('traits', ctypes.c_uint32),
)
Failure = _structure('Failure', *_HEAD, ('message', ctypes.c_char_p), ('code', Integer))
# Arguments and results alike.
Values = _structure(
    'Values', *_HEAD, ('count', ctypes.c_int64), ('types', Pointer), ('buffers', Pointer)
)
Buffer = _structure('Buffer', *_HEAD, ('type', Integer), ('data', Pointer))
Frame = _structure(
    'Frame',
    *_HEAD,
    ('api', Pointer),
    ('context', Pointer),
    ('stage', Integer),
    ('arguments', Values),
    ('results', Values),
)
Metadata = _structure(
    'Metadata',
    ('size', Size),
    ('version', Version),
    ('traits', ctypes.c_uint32),
    ('type', ctypes.c_int64),
)
MetadataExtension = _structure(
    'MetadataExtension',
    ('size', Size),
    ('type', Integer),
    ('next', Pointer),
    ('metadata', ctypes.POINTER(Metadata)),
)
Handler = ctypes.CFUNCTYPE(Pointer, Pointer)

_EXTENSION = Frame.extension.offset
_ARGUMENTS = Frame.arguments.offset + Values.buffers.offset
_RESULTS = Frame.results.offset + Values.buffers.offset
_DATA = Buffer.data.offset
_POINTER = ctypes.sizeof(Pointer)
_at: Any = Pointer.from_address


@functools.cache
def why_not() -> str | None:
    """Return why programs cannot call Python here, or None if they can."""
    if os.environ.get(VARIABLE) == '0':
        return f'{VARIABLE}=0'
    if tf.config.get_visible_devices('GPU'):
        return 'there is a GPU'
    api = _api()
    if api is None:
        return 'this TensorFlow has no XLA_FFI_GetApi'
    major, minor = api.version.major, api.version.minor
    if major != MAJOR or minor < MINOR or api.size < ctypes.sizeof(Api):
        return f'its interface is {major}.{minor}, not {MAJOR}.{MINOR}'
    return None


def register(
    name: str, function: Callable[[int, int], None], keep: Callable[[BaseException], None]
) -> None:
    """Let programs call a function by a name until the process ends.

    Args:
        name: Name that has not been registered before.
        function: Called with the addresses of two arrays of pointers, to the buffers of the
            arguments and of the results, see `addresses`. An exception ends the program.
        keep: Called with the exception, of which the program receives only a text.
    """
    api = _api()
    assert api is not None
    calls = _answer_calls(function, keep, api)
    next(calls)
    handler, text = Handler(calls.send), name.encode()
    # XLA has both until the process ends, which is longer than modules live.
    kept = ctypes.py_object((handler, text))
    ctypes.pythonapi.Py_IncRef(kept)
    stages = Stages(None, None, None, ctypes.cast(handler, Pointer))
    registration = Registration(
        Registration.traits.offset + Registration.traits.size,
        None,
        Span(text, len(text)),
        Span(PLATFORM, len(PLATFORM)),
        stages,
        0,
    )
    error = Handler(api.register)(ctypes.addressof(registration))
    assert not error, f'The name {name} has been registered before.'


def _answer_calls(
    function: Callable[[int, int], None], keep: Callable[[BaseException], None], api: Any
) -> Generator[int | None, int, None]:
    """Receive the frames of calls, and yield an error or None for each.

    A generator instead of a function because of signals. Signal handlers may raise as soon as
    Python runs, which is before the first line of a function, where nothing can catch the
    exception; C would then take an arbitrary register for the address of an error. A generator
    resumes within its try block. It never ends: it is never closed, so that GeneratorExit is an
    error like others, and errors are handled within the try block as well.
    """
    make_error = Handler(api.error_create)
    result, error = None, None
    while True:
        try:
            while True:
                if error is not None:
                    failed, error = error, None
                    result = _fail(failed, keep, make_error)
                    del failed  # Its frames hold the environments.
                frame = yield result
                result = None
                extension = _at(frame + _EXTENSION).value
                if extension:
                    _describe(MetadataExtension.from_address(extension), api)
                    continue
                keep_thread()
                function(_at(frame + _ARGUMENTS).value, _at(frame + _RESULTS).value)
        except BaseException as raised:
            error = raised


def _fail(error: BaseException, keep: Callable[[BaseException], None], make_error: Any) -> int:
    """Keep an exception, and return the address of an XLA error for it."""
    keep(error)
    message = errors.describe(error).encode()
    failure = Failure(ctypes.sizeof(Failure), None, message, INTERNAL)
    return make_error(ctypes.addressof(failure))


def addresses(buffers: int, count: int) -> list[int]:
    """Return the addresses of the data of buffers."""
    return [_at(_at(buffers + _POINTER * number).value + _DATA).value for number in range(count)]


def _describe(extension: ctypes.Structure, api: ctypes.Structure) -> None:
    """Report the version of the interface that a handler was made for."""
    metadata = extension.metadata[0]
    metadata.version.major = api.version.major
    metadata.version.minor = api.version.minor
    metadata.traits = 0


@functools.cache
def _api() -> ctypes.Structure | None:
    """Return the function table of XLA, or None if it is not available."""
    place = pathlib.Path(tf.__file__).parent
    for name in LIBRARIES:
        with contextlib.suppress(OSError, AttributeError):
            get = ctypes.CDLL(str(place / name)).XLA_FFI_GetApi
            get.restype = ctypes.POINTER(Api)
            return get()[0]
    return None
