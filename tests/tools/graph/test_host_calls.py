"""Functions of NumPy called from programs, in both ways, and from Python."""

import gc
import os
import signal
import textwrap
import threading

import numpy as np
import pytest

from agents.tools.graph import foreign, host_calls
from agents.tools.graph.backend import compiled, tf
from agents.tools.graph.host_calls import HostCall
from agents.tools.layout import Spec

NUMBERS = {
    'float32': np.float32([[1.5, -2.0, 3.25]]),
    'int32': np.int32([[7, -8, 2**31 - 1]]),
    'uint8': np.uint8([[0, 128, 255]]),
    'bool': np.array([[True, False, True]]),
}


def refuse(monkeypatch):
    monkeypatch.setattr(foreign, 'why_not', lambda: 'It is a test.')


@pytest.fixture(params=['within', 'between', 'eager'])
def make(request, monkeypatch):
    """A function that makes a function of tensors part of a graph."""
    if request.param == 'eager':
        return lambda function: function
    if request.param == 'between':
        refuse(monkeypatch)
        return lambda function: tf.function(function, autograph=False)
    assert foreign.why_not() is None
    return lambda function: compiled(function)


@pytest.mark.parametrize('kind', NUMBERS)
def test_numbers_of_every_type_come_and_go(make, kind):
    def swap(inputs, results):
        results[0][:] = inputs[0][:, ::-1]
        results[1][:] = inputs[0].shape

    numbers = NUMBERS[kind]
    call = HostCall(swap, [Spec((1, 3), kind), Spec((2,), 'int32')])
    swapped, shape = make(call)(tf.constant(numbers))
    np.testing.assert_array_equal(swapped, numbers[:, ::-1])
    assert swapped.dtype.name == kind
    assert shape.numpy().tolist() == [1, 3]


def test_arrays_without_numbers_come_and_go(make):
    def grow(inputs, results):
        results[1][:] = len(inputs[0])

    call = HostCall(grow, [Spec((0, 3), 'uint8'), Spec((2,), 'int32')])
    empty, count = make(call)(tf.zeros((1, 0), tf.uint8))
    assert empty.shape == (0, 3) and count.numpy().tolist() == [1, 1]


def test_shapes_of_results_are_static():
    call = HostCall(lambda inputs, results: None, [Spec((4, 2), 'float32')])

    @compiled
    def shapes(x):
        (result,) = call(x)
        assert result.shape == (4, 2)
        return result

    shapes(tf.zeros(3))


def test_calls_of_a_loop_follow_each_other(make):
    seen = []

    def count(inputs, results):
        seen.append(float(inputs[0]))
        results[0][()] = inputs[0] + 1

    call = HostCall(count, [Spec((), 'float32')])

    def loop(x):
        return tf.while_loop(
            lambda i, x: i < 5, lambda i, x: (i + 1, 2 * call(x)[0]), [tf.constant(0), x]
        )[1]

    # 0 → 1 → 2 → 3 → 6 → 7 → 14 → 15 → 30 → 31 → 62
    assert float(make(loop)(tf.constant(0.0))) == 62
    assert seen == [0, 2, 6, 14, 30]


def test_error_ends_the_program_at_once_and_is_kept(make):
    seen = []

    def fail(inputs, results):
        seen.append(int(inputs[0]))
        if seen[-1] == 3:
            raise ArithmeticError('It broke.')
        results[0][()] = inputs[0] + 1

    call = HostCall(fail, [Spec((), 'int32')])

    def loop():
        return tf.while_loop(lambda i: i < 9, lambda i: (call(i)[0],), [tf.constant(0)])

    with pytest.raises((tf.errors.OpError, ArithmeticError), match='It broke'):
        make(loop)()
    assert seen == [0, 1, 2, 3]
    assert isinstance(call.error, ArithmeticError)


class Speechless(Exception):
    def __str__(self):
        raise ValueError('no text')


def test_error_of_any_kind_leaves_the_call_as_it_was():
    raised = [GeneratorExit(), SystemExit('bye \udc80'), Speechless(), StopIteration(), None]

    def fail(inputs, results):
        error = raised.pop(0)
        if error is not None:
            raise error
        results[0][()] = 7

    call = HostCall(fail, [Spec((), 'int32')])
    program = compiled(lambda: call(tf.constant(0))[0])
    for kind in (GeneratorExit, SystemExit, Speechless, StopIteration):
        with pytest.raises(tf.errors.OpError, match=kind.__name__):
            program()
        assert isinstance(call.error, kind)
    assert int(program()) == 7


def test_variables_of_a_program_that_failed_can_be_used():
    def fail(inputs, results):
        raise ArithmeticError('It broke.')

    variable = tf.Variable([1.0, 2.0])
    call = HostCall(fail, [Spec((), 'float32')])

    @compiled
    def change():
        variable.assign_add([1.0, 1.0])
        (result,) = call(variable.read_value())
        variable.assign_add([result, result])

    with pytest.raises(tf.errors.OpError):
        change()
    assert np.isfinite(variable.numpy()).all()
    variable.assign([3.0, 4.0])
    assert variable.numpy().tolist() == [3, 4]


def test_interrupt_at_any_moment_is_heard(capfd):
    # A signal may arrive between the program and the first line of Python,
    # where nothing could catch the error.
    call = HostCall(
        lambda inputs, results: np.copyto(results[0], inputs[0] + 1), [Spec((), 'int32')]
    )

    @compiled
    def count(end):
        return tf.while_loop(lambda i: i < end, lambda i: (call(i)[0],), [tf.constant(0)])

    def interrupt(*_):
        raise KeyboardInterrupt

    count(tf.constant(3))  # Compiles it.
    before, heard = signal.signal(signal.SIGALRM, interrupt), 0
    try:
        for number in range(30):
            call.error = None
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.02 + number * 4.3e-5)
                message = 'KeyboardInterrupt'
                with pytest.raises(tf.errors.OpError, match=message):
                    count(tf.constant(2**30))
            except KeyboardInterrupt:
                continue  # It came before the program, on a busy machine.
            assert isinstance(call.error, KeyboardInterrupt)
            heard += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert heard
    assert capfd.readouterr().err == ''


def test_calls_from_another_thread():
    call = HostCall(
        lambda inputs, results: np.copyto(results[0], 2 * inputs[0]), [Spec((2,), 'float32')]
    )
    results = []
    double = compiled(lambda x: call(x)[0])
    thread = threading.Thread(
        target=lambda: results.append(double(tf.constant([1.0, 2.0])).numpy())
    )
    thread.start()
    thread.join()
    assert results[0].tolist() == [2, 4]


def test_names_are_given_again():
    def use():
        calls = [
            HostCall(
                lambda inputs, results, add=add: np.copyto(results[0], inputs[0] + add),
                [Spec((), 'float32')],
            )
            for add in (1, 10)
        ]
        add = compiled(lambda x: calls[1](calls[0](x)[0])[0])
        assert float(add(tf.constant(0.0))) == 11

    use()
    gc.collect()
    count = len(host_calls._Slot.slots)
    for _ in range(4):
        use()
        gc.collect()
    assert len(host_calls._Slot.slots) == count


def test_few_views_are_remembered():
    call = HostCall(
        lambda inputs, results: np.copyto(results[0], inputs[0]), [Spec((3,), 'float32')]
    )
    same = compiled(lambda x: call(x)[0])
    for number in range(3 * host_calls.MAX_VIEWS):
        kept = [tf.random.normal((3 + number,)) for _ in range(2)]
        numbers = tf.constant([1.0, 2.0, number])
        np.testing.assert_array_equal(same(numbers), numbers)
        del kept
    assert len(call._slot._views) <= host_calls.MAX_VIEWS


@pytest.mark.parametrize('setting, told', [('0', 'AGENTS_HOST_CALLS=0'), ('1', None)])
def test_setting_of_the_user(monkeypatch, setting, told):
    monkeypatch.setenv(foreign.VARIABLE, setting)
    assert foreign.why_not.__wrapped__() == told


@pytest.mark.parametrize(
    'major, minor, size, told',
    [
        (foreign.MAJOR, foreign.MINOR, 1000, None),
        (foreign.MAJOR, foreign.MINOR + 1, 1000, None),
        (foreign.MAJOR + 1, 0, 1000, 'is 1.0, not 0.2'),
        (foreign.MAJOR, foreign.MINOR - 1, 1000, 'is 0.1, not 0.2'),
        (foreign.MAJOR, foreign.MINOR, 16, 'is 0.2'),
    ],
)
def test_other_versions_are_refused(monkeypatch, major, minor, size, told):
    version = foreign.Version(0, None, major, minor)
    api = foreign.Api(size, None, version)
    monkeypatch.setattr(foreign, '_api', lambda: api)
    reason = foreign.why_not.__wrapped__()
    assert reason is None if told is None else told in reason


@pytest.mark.slow
def test_cache_of_programs_hits_at_the_next_start(tmp_path, run_python):
    program = """
    import numpy as np
    from agents.tools.graph.backend import compiled, tf
    from agents.tools.graph.host_calls import HostCall
    from agents.tools.layout import Spec
    call = HostCall(
        lambda inputs, results: np.copyto(results[0], 2 * inputs[0]),
        [Spec((2,), 'float32')])
    print(compiled(lambda x: call(x + 1)[0])(tf.constant([1.0, 2.0])).numpy())
    """
    environ = {**os.environ, 'AGENTS_CACHE': str(tmp_path / 'cache')}
    found = []
    for _ in range(2):
        result = run_python('-c', textwrap.dedent(program), env=environ)
        assert result.output == '[4. 6.]\n', result.problems
        files = [p for p in (tmp_path / 'cache').rglob('*') if p.is_file()]
        found.append({path.name: path.stat().st_mtime_ns for path in files})
    assert found[0]
    assert found[1].keys() == found[0].keys()
