"""What leaves a worker is data: reading it runs no code."""

import json
import pathlib
import pickle

import gymnasium as gym
import numpy as np
import pytest

from agents.tools import AttrDict, spaces
from agents.tools.workers import wire

DTYPES = [*['?', 'i1', 'i2', 'i4', 'i8', 'u1', 'u2', 'u4', 'u8'], *['f2', 'f4', 'f8', '>f4', '>i8']]


def there_and_back(value):
    return wire.loads(wire.dumps(value))


@pytest.mark.parametrize(
    'value',
    [
        None,
        True,
        -(2**80),
        0.1,
        float('inf'),
        'line\nbreak "quoted" Ünï ✓ \x00',
        [],
        (),
        {},
        [1, (2.5, [None]), {'a': ('b',)}],
        {'array': 1, 'dict': {'tuple': []}, '': 0},
    ],
    ids=repr,
)
def test_plain_values(value):
    result = there_and_back(value)
    assert result == value
    assert type(result) is type(value)


def test_not_a_number():
    assert np.isnan(there_and_back(float('nan')))


@pytest.mark.parametrize('dtype', DTYPES)
def test_arrays(dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    result = there_and_back({'x': [array, array[:, 1]]})['x']
    for mine, theirs in zip(result, [array, array[:, 1]], strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)
        assert mine.flags.writeable and mine.flags.owndata


@pytest.mark.parametrize('shape', [(), (0,), (2, 0, 3), (1, 1)], ids=str)
def test_arrays_of_odd_shapes(shape):
    result = there_and_back((np.ones(shape), np.full(2, 7)))
    assert result[0].shape == shape and isinstance(result[0], np.ndarray)
    assert result[1].tolist() == [7, 7]


def test_array_in_another_memory_order():
    array = np.asfortranarray(np.arange(6).reshape(2, 3))[:, ::-1]
    np.testing.assert_array_equal(there_and_back(array), array)


@pytest.mark.parametrize('scalar', [np.float32(0.5), np.int64(-3), np.bool_(True), np.uint8(255)])
def test_scalars_keep_their_type(scalar):
    result = there_and_back(scalar)
    assert type(result) is type(scalar)
    assert result == scalar


def test_bytes_of_arrays_may_look_like_line_breaks():
    array = np.full(5, ord('\n'), np.uint8)
    np.testing.assert_array_equal(there_and_back(array), array)


def test_spaces_of_an_environment():
    env = gym.make('CartPole-v1')
    space = gym.spaces.Dict(
        {
            'a': env.observation_space,
            'b': gym.spaces.Tuple(
                [
                    gym.spaces.Discrete(3, start=-1),
                    gym.spaces.MultiBinary(4),
                    gym.spaces.MultiDiscrete([[2, 3]], start=[[1, -1]]),
                    gym.spaces.Box(0, 255, (2, 2), np.uint8),
                    gym.spaces.Box(-1, 1, (), np.float64),
                ]
            ),
        }
    )
    result = there_and_back((space, env.action_space))
    assert result == (space, env.action_space)
    assert spaces.specs(result[0]) == spaces.specs(space)


def test_subclasses_arrive_as_the_plain_type():
    result = there_and_back(AttrDict(a=1))
    assert type(result) is dict


class Malicious:
    """Runs code when it is unpickled."""

    def __init__(self, path=None):
        self.path = path

    def __reduce__(self):
        return pathlib.Path.touch, (self.path,)


@pytest.mark.parametrize(
    'value, name',
    [
        (Malicious(), 'Malicious'),
        (print, 'builtin_function_or_method'),
        ({1, 2}, 'builtins.set'),
        (b'bytes', 'builtins.bytes'),
        (1j, 'builtins.complex'),
        ({1: 2}, 'builtins.dict'),
        ([{'a': object()}], 'builtins.object'),
        (np.array([None]), 'numpy.ndarray'),
        (np.array(['text']), 'numpy.ndarray'),
        (np.array([1j]), 'numpy.ndarray'),
        (np.array([(1, 2)], 'i4,i4'), 'numpy.ndarray'),
        (np.datetime64('2020-01-01'), 'numpy.datetime64'),
    ],
)
def test_other_objects_are_refused(value, name):
    with pytest.raises(TypeError, match=rf'{name} cannot leave its process'):
        wire.dumps(value)


@pytest.mark.parametrize('dtype', ['O', 'i4,O', 'M8[s]', 'U5', 'S5', 'V8'])
def test_odd_types_are_refused_when_read(dtype):
    header = json.dumps({'array': [dtype, [1], False]}).encode()
    with pytest.raises(ValueError, match='Not a type of plain numbers'):
        wire.loads(header + b'\n' + bytes(64))


def test_pickles_are_never_read(tmp_path):
    file = tmp_path / 'made by a pickle'
    message = pickle.dumps(Malicious(file))
    header = json.dumps({'array': ['O', [1], False]}).encode()
    for text in (message, b'"x"' + message, header + b'\n' + message):
        with pytest.raises(ValueError):
            wire.loads(text)
    assert not file.exists()
    pickle.loads(message)
    assert file.exists()


@pytest.mark.parametrize(
    'message',
    [
        b'',
        b'{',
        b'{"array": ["f8", [2], false]}\n' + bytes(8),
        b'{"array": ["f8", [1000000000000], false]}\n' + bytes(8),
        b'{"space": {"dict": {"kind": "Graph"}}}\n',
        b'{"list": [], "tuple": []}\n',
    ],
    ids=repr,
)
def test_damaged_messages_raise(message):
    with pytest.raises((ValueError, TypeError, KeyError)):
        wire.loads(message)
