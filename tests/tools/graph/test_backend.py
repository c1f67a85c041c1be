"""How TensorFlow is set up, and the process for it."""

import json
import os

import pytest

from agents.tools import nested
from agents.tools.graph import backend
from agents.tools.graph.backend import tf

SETTINGS = (
    'TF_NUM_INTEROP_THREADS', 'TF_OVERRIDE_GLOBAL_THREADPOOL',
    'TF_CPP_MIN_LOG_LEVEL', 'TF_NUM_INTRAOP_THREADS', 'KERAS_BACKEND',
    'XLA_FLAGS',
)  # fmt: skip


@pytest.fixture
def run(run_python):
    """A function that runs a program with these settings only."""

    def run(program, **settings):
        environ = {k: v for k, v in os.environ.items() if k not in SETTINGS}
        result = run_python('-c', program, env={**environ, **settings})
        assert result.code == 0, result.problems
        return result

    return run


TELL_SETTINGS = f"""
import json, os
from agents.tools.graph import backend, devices
devices.use_threads(2)
backend.tf.constant(1) + 1
threads = backend.tf.config.threading
settings = {{name: os.environ.get(name) for name in {SETTINGS}}}
settings['intra'] = threads.get_intra_op_parallelism_threads()
settings['second'] = devices.SECOND_DEVICE
print(json.dumps(settings))
"""


def test_settings_by_default(run):
    result = run(TELL_SETTINGS)
    found = json.loads(result.output)
    assert result.problems == ''
    assert found['TF_NUM_INTEROP_THREADS'] == '1'
    assert found['KERAS_BACKEND'] == 'tensorflow'
    assert found['XLA_FLAGS'] == '--xla_cpu_prefer_vector_width=512'
    assert found['intra'] == 2
    assert found['second'] == 'CPU:1'


@pytest.mark.slow
def test_settings_of_the_user_are_kept(run):
    settings = {
        'TF_NUM_INTEROP_THREADS': '3',
        'TF_OVERRIDE_GLOBAL_THREADPOOL': '0',
        'TF_CPP_MIN_LOG_LEVEL': '2',
        'TF_NUM_INTRAOP_THREADS': '4',
        'KERAS_BACKEND': 'tensorflow',
        'XLA_FLAGS': '--xla_cpu_prefer_vector_width=256',
    }
    found = json.loads(run(TELL_SETTINGS, **settings).output)
    assert {name: found[name] for name in settings} == settings
    assert found['intra'] == 0  # Left alone.


def test_flags_are_added_to_those_of_the_user(monkeypatch):
    monkeypatch.setenv('SOME_FLAGS', '--mine=1 --both=2')
    backend._add_flags('SOME_FLAGS', '--both=3 --other=4')
    assert os.environ['SOME_FLAGS'] == '--mine=1 --both=2 --other=4'


@pytest.mark.slow
@pytest.mark.parametrize('before', ['', 'import IPython.more'])
def test_packages_that_it_has_no_use_for_are_left_out(run, tmp_path, before):
    """But for those that have been imported already."""
    for name in ('matplotlib', 'jax', 'IPython'):
        (tmp_path / name).mkdir()
        (tmp_path / name / '__init__.py').touch()
    (tmp_path / 'IPython' / 'more.py').touch()
    program = f"""
import sys
{before}
from agents.tools.graph import backend
print(sorted({{'matplotlib', 'jax', 'IPython'}} & {{*sys.modules}}))
import matplotlib
"""
    result = run(program, PYTHONPATH=str(tmp_path))
    assert result.output == f'{["IPython"] if before else []}\n'


@pytest.mark.slow
def test_garbage_is_collected_once_at_the_end(run):
    program = """
import atexit, gc
atexit.register(lambda: print(gc.get_freeze_count() > 100_000))
from agents.tools.graph import backend

class Game:
    def __init__(self):
        self.unwrapped = self

    def __del__(self):
        print('closed')

Game()
"""
    assert run(program).output == 'closed\nTrue\n'


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


def test_package_alone_does_not_import_tensorflow(run):
    program = """
import sys
import agents, agents.tools, agents.lazy
from agents import tools
tools.nested, tools.AttrDict, tools.wrappers, tools.BatchEnv
tools.ExternalProcess, tools.EnvError, tools.MockEnvironment
print('numpy' in sys.modules)
print('tensorflow' in sys.modules, 'keras' in sys.modules)
"""
    assert run(program).output == 'True\nFalse False\n'


def test_compiled_functions_are_compiled():
    @backend.compiled
    def double(x):
        return x + x

    assert double(tf.constant(2.0)) == 4.0
    assert 'HloModule' in double.experimental_get_compiler_ir(tf.constant(2.0))(stage='hlo')


def test_direct_call_is_that_of_the_function():
    variable, traces = tf.Variable(1.0), []

    @tf.function
    def add(nest, twice):
        traces.append(twice)
        return 10 * nest['b'] + (2.0 if twice else 1.0) * variable, nest['a']

    nest = {'b': tf.constant(3.0), 'a': tf.constant(4.0)}
    call = backend.bind_concrete(add, nest, True)
    assert [x.numpy() for x in call(*nested.flatten(nest))] == [32.0, 4.0]
    variable.assign(5.0)
    assert [x.numpy() for x in call(*nested.flatten(nest))] == [40.0, 4.0]
    assert traces == [True]


WITH_GPU = """
import tensorflow as tf
visible = ['GPU:0']
found = tf.config.get_visible_devices
tf.config.get_visible_devices = lambda kind: (
    visible if kind == 'GPU' else found(kind))
tf.config.set_visible_devices = lambda devices, kind: (
    visible.__setitem__(slice(None), devices))
from agents.tools.graph import foreign
print(visible, foreign.why_not())
"""


@pytest.mark.slow
@pytest.mark.parametrize('setting, told', [('0', '[] None'), ('1', "['GPU:0'] there is a GPU")])
def test_gpus_are_left_alone_unless_asked_for(run, setting, told):
    assert run(WITH_GPU, AGENTS_GPU=setting).output == f'{told}\n'
