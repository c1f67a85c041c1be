"""NumPy functions as operations of a graph, compiled or not."""

import ctypes
import math
import weakref
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from agents.tools.graph import foreign
from agents.tools.graph.backend import compiled, tf
from agents.tools.graph.devices import keep_thread
from agents.tools.layout import Spec

# A function reads the first arrays and writes all of the second ones.
Function = Callable[[list[np.ndarray], list[np.ndarray]], None]

# Types of numbers in the text of a program.
TYPES = {
    'float32': 'f32',
    'float64': 'f64',
    'int8': 'i8',
    'int16': 'i16',
    'int32': 'i32',
    'int64': 'i64',
    'uint8': 'ui8',
    'uint16': 'ui16',
    'uint32': 'ui32',
    'bool': 'i1',
}

# What it is called with.
Arrays = tuple[list[np.ndarray], list[np.ndarray]]

# For how many places of its buffers views are remembered.
MAX_VIEWS = 64


class HostCall:
    """Operation that calls a function on NumPy arrays.

    A compiled program calls the function and continues, which takes some microseconds. Where that
    is not available, see `foreign.why_not`, it is an operation of an uncompiled graph with the same
    results.

    The operation has side effects: it runs each time the graph reaches it. If the function raises,
    the program ends with an error of TensorFlow, and the original is kept here.

    Programs call by a name that XLA keeps until the process ends. Names are reused once their call
    is gone, and are the same in every process, so that the compile cache recognizes programs.

    Attributes:
        error: Exception of the function, or None.

    Args:
        function: Called with arrays of the arguments and the results, views of memory that is valid
            during the call; writes the results.
        results: Shapes and types of the results.
    """

    def __init__(self, function: Function, results: Sequence[Spec]):
        self.error: BaseException | None = None
        self._function = function
        self._results = list(results)
        self._slot: _Slot | None = None

    def __call__(self, *arguments: tf.Tensor) -> list[tf.Tensor]:
        """Call the function, at once or each time the graph gets here."""
        if tf.executing_eagerly():
            inputs = [argument.numpy() for argument in arguments]
            return [tf.constant(x) for x in self._applied(*inputs)]
        if foreign.why_not() is None:
            return compiled(self._within)(*arguments)
        return self._between(*arguments)

    def _within(self, *arguments: tf.Tensor) -> list[tf.Tensor]:
        """Operation within a compiled program."""
        from tensorflow.compiler.tf2xla.ops import gen_xla_ops

        specs = [Spec(tuple(x.shape), x.dtype.name) for x in arguments]
        if self._slot is None:
            self._slot = _Slot.take(self)
        self._slot.describe(specs, self._results)
        results = gen_xla_ops.xla_call_module(
            arguments,
            version=9,
            module=_program(self._slot.name, specs, self._results),
            Sout=[list(spec.shape) for spec in self._results],
            Tout=[tf.dtypes.as_dtype(spec.dtype) for spec in self._results],
            platforms=['CPU'],
        )
        return [
            tf.ensure_shape(result, spec.shape)
            for result, spec in zip(results, self._results, strict=True)
        ]

    def _between(self, *arguments: tf.Tensor) -> list[tf.Tensor]:
        """Operation of an uncompiled graph."""
        # TensorFlow keeps what it may call until the process ends. By a weak
        # reference, it does not keep what the function needs as well.
        reference = weakref.ref(self)

        def call(*inputs: np.ndarray) -> list[np.ndarray]:
            keep_thread()
            return reference()._applied(*inputs)  # type: ignore[union-attr]

        kinds = [tf.dtypes.as_dtype(spec.dtype) for spec in self._results]
        results = tf.nest.flatten(tf.numpy_function(call, arguments, kinds))
        return [
            tf.ensure_shape(result, spec.shape)
            for result, spec in zip(results, self._results, strict=True)
        ]

    def _applied(self, *inputs: np.ndarray) -> list[np.ndarray]:
        results = [np.empty(spec.shape, spec.dtype) for spec in self._results]
        self.apply(list(inputs), results)
        return results

    def apply(self, inputs: list[np.ndarray], results: list[np.ndarray]) -> None:
        """Call the function and keep its exception."""
        try:
            self._function(inputs, results)
        except BaseException as error:
            self.error = error
            raise


class _Slot:
    """Name that programs call by, and the call that answers at present.

    Args:
        number: Number in the name.
    """

    slots: ClassVar[list['_Slot']] = []

    def __init__(self, number: int):
        self.name = f'agents_host_call_{number}'
        self._call: Callable[[], HostCall | None] = lambda: None
        self._views: dict[tuple[int, ...], Arrays] = {}
        self.describe([], [])
        foreign.register(self.name, self._handle, self._keep)

    @classmethod
    def take(cls, call: HostCall) -> '_Slot':
        """Assign the first free name to a call, for as long as the call lives."""
        for slot in cls.slots:
            if slot._call() is None:
                break
        else:
            slot = cls(len(cls.slots))
            cls.slots.append(slot)
        slot._call = weakref.ref(call)
        slot._views.clear()
        return slot

    def describe(self, inputs: list[Spec], outputs: list[Spec]) -> None:
        """Set the shapes and types of arguments and results."""
        self._specs = [*inputs, *outputs]
        self._counts = len(inputs), len(outputs)
        self._views.clear()

    def _handle(self, arguments: int, results: int) -> None:
        call = self._call()
        if call is None:
            raise RuntimeError('A program was called after its host calls.')
        places = (
            *foreign.addresses(arguments, self._counts[0]),
            *foreign.addresses(results, self._counts[1]),
        )
        arrays = self._views.get(places) or self._view(places)
        call.apply(*arrays)

    def _keep(self, error: BaseException) -> None:
        call = self._call()
        if call is not None:
            call.error = error

    def _view(self, places: tuple[int, ...]) -> Arrays:
        """Return the buffers of a call as arrays; cached by address."""
        if len(self._views) >= MAX_VIEWS:
            self._views.clear()
        arrays = [_view(place, spec) for place, spec in zip(places, self._specs, strict=True)]
        split = self._counts[0]
        self._views[places] = arrays[:split], arrays[split:]
        return self._views[places]


def _view(address: int | None, spec: Spec) -> np.ndarray:
    dtype = np.dtype(spec.dtype)
    size = math.prod(spec.shape) * dtype.itemsize
    if address is None:  # XLA gives arrays without numbers no address.
        assert not size
        return np.zeros(spec.shape, dtype)
    memory = memoryview((ctypes.c_char * size).from_address(address))
    return np.frombuffer(memory, dtype).reshape(spec.shape)


def _program(name: str, arguments: Sequence[Spec], results: Sequence[Spec]) -> str:
    """Return the text of a program that consists of the call."""
    inputs, outputs = [*map(_type, arguments)], [*map(_type, results)]
    names = [f'%a{number}' for number in range(len(inputs))]
    given = ', '.join(f'{n}: {t}' for n, t in zip(names, inputs, strict=True))
    values = [f'%r#{number}' for number in range(len(outputs))]
    return f"""module @host_call {{
  func.func public @main({given}) -> ({', '.join(outputs)}) {{
    %r:{len(outputs)} = stablehlo.custom_call @{name}({', '.join(names)}) {{
      api_version = 4 : i32, has_side_effect = true, backend_config = {{}}
    }} : ({', '.join(inputs)}) -> ({', '.join(outputs)})
    return {', '.join(values)} : {', '.join(outputs)}
  }}
}}"""


def _type(spec: Spec) -> str:
    sizes = ''.join(f'{size}x' for size in spec.shape)
    return f'tensor<{sizes}{TYPES[spec.dtype]}>'
