"""Policies in files, beside what `LoadedPolicy` does."""

import ast
import functools
import importlib
import json
import os
import pathlib
import sys
import zipfile

import gymnasium as gym
import numpy as np
import pytest

import agents
from agents.algorithms.algorithm import Networks
from agents.exporting import export_check, formats, litert_model, onnx_model, run_policy
from agents.parts import distributions, layers, policy
from agents.policies.load import LoadedPolicy
from agents.tools import choices, errors, nested
from agents.tools.batch import observations
from agents.tools.graph.backend import keras, tf
from agents.training import networks

Spaces = gym.spaces
STEPS = 300
PACKAGES = {'onnx': ('tf2onnx', 'onnxruntime')}

# The image, and much else. Numbers far from zero have a mean that 32 bits do
# not hold; of the bounds of actions, the nearest such numbers are outside.
CAMERA = Spaces.Dict(
    {
        'camera': Spaces.Box(0, 255, (3, 36, 36), np.uint8),
        'small image': Spaces.Box(0, 9, (8, 8, 1), np.uint8),
        'few bytes': Spaces.Box(0, np.uint8([1, 4, 255]), dtype=np.uint8),
        'gear': Spaces.Discrete(3, start=-1),
        'position': Spaces.Box(1e6, 1e6 + 10, (2,), np.float64),
        'pair': Spaces.Tuple((Spaces.MultiBinary(2), Spaces.MultiDiscrete([2, 3]))),
    }
)
STEERING = Spaces.Box(np.array([-2, 0.1]), np.array([2, 0.7]), dtype=np.float64)

# An observation that an environment tells a mask beside, and one with a mask.
CHOICES = Spaces.MultiDiscrete([4, 3], start=[1, 0])
LOCKS = choices.observed_space(Spaces.Discrete(4, start=2), CHOICES)
MASKED = Spaces.Dict({'action_mask': Spaces.MultiBinary(3), 'x': Spaces.Box(-1, 1, (2,))})
NUMBERS = Spaces.Box(-np.inf, np.inf, (3,))


def own(observ_space, action_space, config):
    """A network with a layer that NumPy's runner does not know."""
    size = distributions.output_size(action_space)
    return Networks(
        keras.Sequential(
            [
                layers.Flatten(observ_space),
                keras.layers.LayerNormalization(),
                keras.layers.Dense(size, 'gelu'),
            ]
        ),
        keras.Sequential([layers.Flatten(observ_space), keras.layers.Dense(1)]),
    )


POLICIES = {
    'box': (NUMBERS, Spaces.Box(-2, 2, (2, 2)), {}),
    'unbounded': (NUMBERS, Spaces.Box(-np.inf, 2, (1,)), {'activation': 'elu'}),
    'discrete': (NUMBERS, Spaces.Discrete(5), {'activation': 'silu'}),
    'binary': (NUMBERS, Spaces.MultiBinary(3), {'normalize_observ': False}),
    'recurrent': (NUMBERS, STEERING, {'network': 'recurrent'}),
    'camera': (
        CAMERA,
        STEERING,
        {'activation': 'relu', 'convolutions': [[4, 5, 3], [4, 2, 1]], 'image_units': 8},
    ),
    'masked': (LOCKS, CHOICES, {'network': 'recurrent'}),
    'masked dict': (MASKED, Spaces.Discrete(3, start=-1), {}),
    'own': (NUMBERS, Spaces.Discrete(4), {'network': own}),
}
MOST = 'discrete', 'recurrent', 'camera', 'masked', 'own'
FEW_STEPS = 'unbounded', 'binary', 'masked dict', 'own'


class Made:
    """A policy that has not learnt yet, and what it does."""

    def __init__(self, observ_space, action_space, changes, steps=STEPS):
        config = agents.configs.ppo(
            policy_layers=[8], recurrent_units=4, init_output_factor=3.0, **changes
        )
        made = networks.define(observ_space, action_space, config)
        self.space = observ_space
        spaces = observ_space, action_space
        self.policy = policy.define(made.policy, *spaces, config, encoder=made.encoder)
        self._adapt(20)
        self.loaded = LoadedPolicy(self.policy, observ_space)
        self.moments = [*export_check.imagine(self.loaded, steps)]
        self.actions = act(self.loaded, self.moments)

    def _adapt(self, rows):
        """Let the normalizer see some observations."""
        seen = observations.zeros(self.space, rows)
        writer = observations.Writer(self.space, seen)
        self.space.seed(0)
        for row in range(rows):
            writer.write(row, self.space.sample())
        self.policy.update_statistics(nested.map(tf.constant, seen))

    def write(self, path, kind='npz'):
        """Write it; returns what goes in and comes out."""
        with formats.replacing(path, kind) as new:
            about = {'environment': 'a test'}
            given = self.policy, self.space, about, new, kind
            described = formats.write(*given)
            formats.write_beside(path, kind, described)
        return described

    def run(self, directory):
        """Write it and open it by NumPy's runner."""
        self.write(directory / 'policy.npz')
        return run_policy.Policy(directory / 'policy.npz')

    def require_equal(self, found):
        """Require actions that are its own, and within its space."""
        for action, expected in zip(found, self.actions, strict=True):
            np.testing.assert_allclose(action, expected, rtol=1e-5, atol=1e-5)
            assert action.dtype == expected.dtype
            assert self.loaded.action_space.contains(action)
        assert len(np.unique(np.stack(found), axis=0)) > 2


@pytest.fixture(scope='module')
def find():
    """A function that finds a policy by name."""

    @functools.cache
    def find(name):
        return Made(*POLICIES[name], 50 if name in FEW_STEPS else STEPS)

    return find


def act(policy, moments):
    actions = []
    for observ, mask, begins in moments:
        if begins:
            policy.reset()
        actions.append(policy(observ, mask=mask))
    return actions


@pytest.mark.parametrize('name', [name for name in POLICIES if name != 'own'])
def test_arrays_equal_the_loaded_policy(find, tmp_path, name):
    made = find(name)
    runner = made.run(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {'policy.npz', 'run_policy.py'}
    assert runner.description['environment'] == 'a test'
    made.require_equal(act(runner, made.moments))


@pytest.mark.parametrize('name', MOST)
@pytest.mark.parametrize('kind', ['saved_model', 'onnx', 'litert'])
def test_programs_equal_the_loaded_policy(find, tmp_path, name, kind):
    for package in PACKAGES.get(kind, ()):
        pytest.importorskip(package)
    made, path = find(name), tmp_path / 'policy'
    described = made.write(path, kind)
    functions = {'saved_model': open_saved_model, 'onnx': open_onnx, 'litert': open_litert}
    program = formats.Stateful(functions[kind](path, described), described)
    made.require_equal(act(program, made.moments))


def open_saved_model(path, described):
    """By TensorFlow alone, as a user would."""
    assert json.loads((path / 'policy.json').read_text()) == described
    loaded = tf.saved_model.load(str(path))
    program = loaded.signatures['serving_default']

    def call(inputs):
        tensors = {name: tf.constant(array) for name, array in inputs.items()}
        found = program(**tensors)
        return {name: tensor.numpy() for name, tensor in found.items()}

    call.loaded = loaded  # Whose variables it needs.
    return call


def open_onnx(path, described):
    session = importlib.import_module('onnxruntime').InferenceSession(path)
    metadata = session.get_modelmeta().custom_metadata_map
    assert json.loads(metadata['policy']) == described
    names = [output.name for output in session.get_outputs()]

    def call(inputs):
        return dict(zip(names, session.run(names, inputs), strict=True))

    return call


def open_litert(path, described):
    assert json.loads(path.with_suffix('.json').read_text()) == described
    return litert_model.Session(path)


def test_names_of_what_goes_in_and_comes_out(find, tmp_path):
    found = {name: find(name).write(tmp_path / 'policy.npz') for name in ('camera', 'masked')}
    assert [each['name'] for each in found['camera']['inputs']] == [
        'observ_camera',
        'observ_few_bytes',
        'observ_gear',
        'observ_pair_0',
        'observ_pair_1',
        'observ_position',
        'observ_small_image',
    ]
    assert found['masked']['inputs'] == [
        {'name': 'observ', 'path': [], 'shape': [], 'dtype': 'int32'},
        {'name': 'mask', 'path': ['action_mask'], 'shape': [7], 'dtype': 'uint8'},
        {'name': 'state', 'shape': [4], 'dtype': 'float32'},
    ]
    assert found['masked']['outputs'] == [
        {'name': 'action', 'shape': [2], 'dtype': 'int64'},
        {'name': 'next_state', 'shape': [4], 'dtype': 'float32'},
    ]


@pytest.mark.parametrize('name', ['recurrent', 'masked', 'camera'])
def test_a_batch_is_like_single_observations(find, tmp_path, name):
    made = find(name)
    runner, moments = made.run(tmp_path), made.moments[:6]
    observ, mask = in_a_batch(moments)
    found, state = runner.step(observ, None, mask)
    single = [runner.step(each.observ, None, each.mask) for each in moments]
    actions = [action for action, _ in single]
    np.testing.assert_allclose(found, actions, rtol=1e-5)
    if name == 'recurrent':
        states = np.concatenate([state for _, state in single])
        np.testing.assert_allclose(state, states, rtol=1e-5, atol=1e-6)
        again, _ = runner.step(observ, state)
        assert not np.allclose(again, found)


def test_programs_take_batches_and_a_state(find, tmp_path):
    made = find('recurrent')
    assert made.write(tmp_path / 'policy', 'saved_model')['batch'] is None
    loaded = tf.saved_model.load(str(tmp_path / 'policy'))
    program = loaded.signatures['serving_default']
    observ, _ = in_a_batch(made.moments[:2])
    batch = LoadedPolicy(made.policy, made.space, num_agents=2)
    state = tf.zeros((2, 4))
    for _ in range(3):
        found = program(observ=tf.constant(observ), state=state)
        state = found['next_state']
        np.testing.assert_allclose(found['action'], batch(observ), 1e-5, 1e-5)


def in_a_batch(moments):
    observs = [moment.observ for moment in moments]
    observ = nested.map(lambda *leaves: np.stack(leaves), *observs)
    masks = [moment.mask for moment in moments]
    return observ, None if masks[0] is None else np.stack(masks)


def test_a_network_for_one_observation_at_a_time(find, tmp_path):
    """Its shapes have to be known, which those of any batch are not."""

    class Rows(keras.layers.Layer):
        def call(self, inputs):
            return tf.reshape(inputs, [inputs.shape[0], 3, 1])[..., 0]

    def network(observ_space, action_space, config):
        made = [keras.Sequential([Rows(), keras.layers.Dense(size)]) for size in (4, 1)]
        return Networks(*made)

    made = Made(NUMBERS, Spaces.Discrete(4), {'network': network}, 10)
    path = tmp_path / 'policy'
    described = made.write(path, 'saved_model')
    assert described['batch'] == 1
    call = open_saved_model(path, described)
    program = formats.Stateful(call, described)
    np.testing.assert_array_equal(act(program, made.moments), made.actions)


def test_runner_needs_numpy_alone(find, tmp_path, run_python):
    made = find('masked')
    made.write(tmp_path / 'policy.npz')
    observ, mask, _ = made.moments[0]
    text = f"""
import sys, run_policy
policy = run_policy.Policy('policy.npz')
print(policy({observ}, mask={mask.tolist()}).tolist())
print({{'agents', 'tensorflow', 'gymnasium'}} & {{*sys.modules}})
"""
    result = run_python('-c', text, cwd=tmp_path)
    expected = [str(made.actions[0].tolist()), 'set()']
    assert result.output.splitlines() == expected, result.problems


def test_runner_is_short():
    text = pathlib.Path(run_policy.__file__).read_text()
    docstring = ast.parse(text).body[0]
    lines = text.splitlines()[docstring.end_lineno :]
    assert len([line for line in lines if line.strip()]) <= 140


def write_arrays(path, leaf=(3,), layer='dense', save=np.savez, **arrays):
    """Write a policy of one layer by hand."""
    entry = {'path': [], 'shape': leaf, 'dtype': 'float32', 'layers': []}
    head = [{'kind': layer, 'name': 'head', 'stride': 1, 'shape': [1]}]
    network = {'leaves': [entry], 'layers': [], 'masked': False, 'head': head}
    named = {f'head/{name}': array for name, array in arrays.items()}
    save(path, policy=np.array(json.dumps({'network': network})), **named)


DENSE = {'kernel': np.ones((3, 2), 'f'), 'bias': np.ones(2, 'f')}
BIG = {'kernel': np.ones((500, 500, 1, 1), 'f'), 'bias': np.ones(1, 'f')}


@pytest.mark.parametrize(
    'changes, message',
    [
        ({'save': np.savez_compressed}, 'it is compressed'),
        ({'leaf': (10**6, 10**6)}, 'it observes an array of'),
        ({'kernel': np.ones((4, 2), 'f')}, 'matmul'),
        ({'colour': np.ones(1)}, 'cannot be applied: TypeError'),
        ({'layer': 'deep'}, "cannot be applied: KeyError: 'deep'"),
        ({'leaf': (1000, 1000, 1), 'layer': 'convolve', **BIG}, 'too large'),
        ({'layer': 'scale', 'factor': np.ones(1)}, 'unexpected keyword'),
    ],
)
def test_runner_refuses_a_damaged_policy(tmp_path, changes, message):
    path = tmp_path / 'policy.npz'
    write_arrays(path, **DENSE)
    np.testing.assert_array_equal(run_policy.Policy(path)(np.ones(3)), [4, 4])
    write_arrays(path, **{**DENSE, **changes})
    with pytest.raises(ValueError, match=message):
        run_policy.Policy(path)(np.ones(changes.get('leaf', 3)))
    write_arrays(path, **DENSE)
    with zipfile.ZipFile(path, 'a') as archive:
        header = b'\x93NUMPY\x01\x00' + (4000).to_bytes(2, 'little')
        archive.writestr('long.npy', header + b'"' * 4000)
    with pytest.raises(ValueError, match='Header info length'):
        run_policy.Policy(path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(ValueError, match='is no exported policy'):
        run_policy.Policy(path)


def test_runner_refuses_other_observations(find, tmp_path):
    locks, numbers = find('masked').run(tmp_path), find('box').run(tmp_path)
    with pytest.raises(ValueError, match='not within the space'):
        locks(1, mask=np.ones(7))
    with pytest.raises(ValueError, match='nothing is possible'):
        locks(2, mask=[0, 0, 0, 0, 1, 1, 1])
    with pytest.raises(ValueError, match=r'shape \(3,\), got \(4,\)'):
        numbers(np.zeros(4))


def test_layers_that_arrays_do_not_know_are_named(find, tmp_path):
    with pytest.raises(errors.ConfigError, match='a LayerNormalization, which'):
        find('own').write(tmp_path / 'policy.npz')
    assert not [*tmp_path.iterdir()]


def test_a_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, 'onnxruntime', None)
    with pytest.raises(errors.ConfigError, match=r'pip install "agents\[onnx\]"'):
        onnx_model.require_packages()


@pytest.mark.parametrize('module', [onnx_model, litert_model])
def test_operations_that_are_not_known_are_named(tmp_path, module):
    for package in PACKAGES['onnx'] if module is onnx_model else ():
        pytest.importorskip(package)

    class Function:
        described: dict = {}  # noqa: RUF012
        module = tf.Module()
        program = tf.function(
            lambda x: {'y': tf.math.bessel_i0(x)}, autograph=False
        ).get_concrete_function(x=tf.TensorSpec((None, 7), tf.float32, 'x'))

    with pytest.raises(errors.ConfigError, match='BesselI0'):
        module.write(Function, tmp_path / 'policy')
    assert not [*tmp_path.iterdir()]


def test_only_an_earlier_export_is_replaced(find, tmp_path):
    made, path = find('box'), tmp_path / 'policy'
    for _ in range(2):
        made.write(path, 'saved_model')
    assert [*tmp_path.iterdir()] == [path]
    with pytest.raises(OSError), formats.replacing(path, 'saved_model') as new:
        new.rmdir()
    assert [*tmp_path.iterdir()] == [path]
    (path / 'variables' / 'mine.txt').write_text('mine')
    with pytest.raises(errors.ConfigError, match=r'holds variables/mine\.txt'):
        made.write(path, 'saved_model')
    assert (path / 'variables' / 'mine.txt').read_text() == 'mine'
    (path / 'variables' / 'mine.txt').unlink()
    (path / 'saved_model.pb').unlink()
    with pytest.raises(errors.ConfigError, match=r'lacks saved_model\.pb'):
        made.write(path, 'saved_model')
    runner = tmp_path / 'run_policy.py'
    runner.write_text('print()')
    with pytest.raises(errors.ConfigError, match=r'run_policy\.py must be the runner'):
        made.write(tmp_path / 'policy.npz')
    assert runner.read_text() == 'print()'
    runner.unlink()
    os.mkfifo(runner)  # To read it would take forever.
    with pytest.raises(errors.ConfigError, match='no regular file'):
        made.write(tmp_path / 'policy.npz')
    runner.unlink()
    runner.symlink_to('/dev/zero')
    with pytest.raises(errors.ConfigError, match='symbolic link'):
        made.write(tmp_path / 'policy.npz')
    assert {*tmp_path.iterdir()} == {path, runner}
