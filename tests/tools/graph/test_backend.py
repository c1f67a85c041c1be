"""How TensorFlow is set up, and two functions at the same time."""

import json
import os
import subprocess
import sys
import threading
import time

import pytest

from agents.tools.graph import backend
from agents.tools.graph.backend import tf

SETTINGS = (
    'TF_NUM_INTEROP_THREADS', 'TF_OVERRIDE_GLOBAL_THREADPOOL',
    'TF_CPP_MIN_LOG_LEVEL', 'TF_NUM_INTRAOP_THREADS', 'KERAS_BACKEND',
    'XLA_FLAGS',
)  # fmt: skip


def run(program, **settings):
    """Run a program in a Python of its own, with these settings only."""
    environ = {k: v for k, v in os.environ.items() if k not in SETTINGS}
    return subprocess.run(
        [sys.executable, '-c', program],
        env={**environ, **settings},
        capture_output=True,
        text=True,
        check=True,
    )


TELL_SETTINGS = f"""
import json, os
from agents.tools.graph import backend
backend.use_threads(2)
backend.tf.constant(1) + 1
threads = backend.tf.config.threading
settings = {{name: os.environ.get(name) for name in {SETTINGS}}}
settings['intra'] = threads.get_intra_op_parallelism_threads()
settings['second'] = backend.SECOND_DEVICE
settings['matplotlib'] = 'matplotlib' in __import__('sys').modules
print(json.dumps(settings))
"""


def test_settings_by_default():
    found = json.loads(run(TELL_SETTINGS).stdout)
    assert found['TF_NUM_INTEROP_THREADS'] == '1'
    assert found['KERAS_BACKEND'] == 'tensorflow'
    assert found['XLA_FLAGS'] == '--xla_cpu_prefer_vector_width=512'
    assert found['intra'] == 2
    assert found['second'] == 'CPU:1'
    assert not found['matplotlib']


def test_settings_of_the_user_are_kept():
    settings = {
        'TF_NUM_INTEROP_THREADS': '3',
        'TF_OVERRIDE_GLOBAL_THREADPOOL': '0',
        'TF_CPP_MIN_LOG_LEVEL': '2',
        'TF_NUM_INTRAOP_THREADS': '4',
        'KERAS_BACKEND': 'tensorflow',
        'XLA_FLAGS': '--xla_cpu_prefer_vector_width=256',
    }
    found = json.loads(run(TELL_SETTINGS, **settings).stdout)
    assert {name: found[name] for name in settings} == settings
    assert found['intra'] == 0  # Left alone.


def test_flags_are_added_to_those_of_the_user(monkeypatch):
    monkeypatch.setenv('SOME_FLAGS', '--mine=1 --both=2')
    backend._add_flags('SOME_FLAGS', '--both=3 --other=4')
    assert os.environ['SOME_FLAGS'] == '--mine=1 --both=2 --other=4'


def test_import_prints_nothing():
    result = run('import agents.tools.graph.backend')
    assert (result.stdout, result.stderr) == ('', '')


def test_import_hides_only_noise(capfd):
    noise = 'W0000 00:00:00.000000  1 file.cc:1] mind the gap\n'
    with backend._quiet():
        os.write(2, noise.encode())
        os.write(2, b'the matter\n')
    os.write(2, noise.encode())
    assert capfd.readouterr().err == 'the matter\n' + noise


def test_import_error_is_not_swallowed(capfd):
    with pytest.raises(ImportError, match='none'), backend._quiet():
        raise ImportError('none')
    os.write(2, b'visible')
    assert capfd.readouterr().err == 'visible'


def test_package_alone_does_not_import_tensorflow():
    program = """
import sys
import agents, agents.tools, agents.lazy
from agents import tools
tools.nested, tools.AttrDict, tools.wrappers, tools.BatchEnv
tools.ExternalProcess, tools.EnvError, tools.MockEnvironment
print('numpy' in sys.modules)
print('tensorflow' in sys.modules, 'keras' in sys.modules)
"""
    assert run(program).stdout == 'True\nFalse False\n'


# None where TensorFlow was in use before it could be set up.
DEVICES = [None, backend.SECOND_DEVICE] if backend.SECOND_DEVICE else [None]
each_device = pytest.mark.parametrize('device', DEVICES)
on_two_devices = pytest.mark.skipif(
    backend.SECOND_DEVICE is None, reason='TensorFlow was in use before.'
)


@each_device
def test_together_returns_in_order(device):
    assert backend.together(lambda: 'first', lambda: 'second', device) == (
        'first',
        'second',
    )


@on_two_devices
def test_together_runs_both_at_the_same_time():
    barrier = threading.Barrier(2, timeout=20)

    def meet():
        barrier.wait()  # Raises unless the other one comes.
        return tf.constant(1.0).device

    first, second = backend.together(meet, meet, backend.SECOND_DEVICE)
    assert first.endswith('CPU:0')
    assert second.endswith('CPU:1')


def test_together_without_a_device_is_one_after_the_other():
    order = []

    def call():
        order.append(threading.current_thread())
        return len(order), tf.constant(1.0).device[-5:]

    both = backend.together(call, call, None)
    assert both == ((1, 'CPU:0'), (2, 'CPU:0'))
    assert order == [threading.current_thread()] * 2


@each_device
def test_together_in_a_graph_is_one_after_the_other(device):
    order = tf.Variable(tf.zeros([], tf.int32))

    @tf.function
    def both():
        return backend.together(
            lambda: order.assign_add(1).read_value(),
            lambda: order.assign(order * 10).read_value(),
            device,
        )

    assert [int(value) for value in both()] == [1, 10]


@each_device
@pytest.mark.parametrize('place', [0, 1])
def test_together_raises_what_either_raises(device, place):
    def fail():
        raise ValueError('not today')

    functions = [lambda: 1, lambda: 2]
    functions[place] = fail
    with pytest.raises(ValueError, match='not today'):
        backend.together(*functions, device)


@on_two_devices
def test_together_waits_for_the_second_if_the_first_raises():
    raised, ended = threading.Event(), []

    def fail():
        raised.set()
        raise ValueError('not today')

    def take_longer():
        raised.wait(20)
        time.sleep(0.1)
        ended.append(True)

    with pytest.raises(ValueError, match='not today'):
        backend.together(fail, take_longer, backend.SECOND_DEVICE)
    assert ended


@on_two_devices
def test_together_tells_of_both_errors():
    def fail(text):
        raise ValueError(text)

    with pytest.raises(ValueError, match='not today') as caught:
        backend.together(
            lambda: fail('not today'),
            lambda: fail('nor ever'),
            backend.SECOND_DEVICE,
        )
    assert str(caught.value.__cause__) == 'nor ever'


def test_compiled_functions_are_compiled():
    @backend.compiled
    def double(x):
        return x + x

    assert double(tf.constant(2.0)) == 4.0
    assert 'HloModule' in double.experimental_get_compiler_ir(tf.constant(2.0))(
        stage='hlo'
    )
