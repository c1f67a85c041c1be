"""Tensors are read as they were written, and malformed files are refused."""

import json
import random
import time

import numpy as np
import pytest

from agents.tools import errors
from agents.tools.graph.backend import tf
from agents.tools.runs import tensors

TENSORS = {
    'net/0-kernel': np.arange(6, dtype='f').reshape(2, 3),
    'net/1-bias': np.array([True, False]),
    'step': np.array(2**62),
    'none': np.zeros((0, 4), np.float16),
    'Ünï': np.array([[255]], np.uint8),
    'transposed': np.arange(6.0).reshape(2, 3).T,
}


def test_tensors_are_read_as_they_were_written(tmp_path):
    path = tmp_path / 'x'
    given = {**TENSORS, 'variable': tf.Variable([1, 2])}
    tensors.write(path, given)
    found = tensors.specs(path)
    assert found.keys() == given.keys()
    for name, value in tensors.read(path, found).items():
        expected = np.asarray(given[name])
        assert found[name].dtype == value.dtype == expected.dtype
        assert found[name].shape == list(expected.shape)
        np.testing.assert_array_equal(value, expected)
    assert list(tensors.read(path, ['step'])) == ['step']


@pytest.mark.parametrize('dtype', tensors.DTYPES.values())
def test_every_type_is_kept(tmp_path, dtype):
    value = tf.cast([0, 1, 1], dtype)
    tensors.write(tmp_path / 'x', {'value': value})
    assert tensors.specs(tmp_path / 'x') == {'value': (dtype, [3])}
    read = tensors.read(tmp_path / 'x', ['value'])['value']
    assert read.tobytes() == value.numpy().tobytes()


def test_other_types_are_refused(tmp_path):
    with pytest.raises(errors.UserError, match='type of text must be one of'):
        tensors.write(tmp_path / 'x', {'text': tf.constant('a')})
    assert not [*tmp_path.iterdir()]


def read(path):
    found = tensors.specs(path)
    if sum(np.prod(spec.shape, dtype=float) for spec in found.values()) > 1000:
        raise errors.ConfigError('It does not fit.')
    return tensors.read(path, found)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / 'x'
    tensors.write(path, {f'net/{i}-kernel': np.ones((2, i), 'f') for i in range(5)})
    return path


def test_random_changes_are_read_or_refused(file):
    original, chance, refused = file.read_bytes(), random.Random(0), 0
    for _ in range(2000):
        data = bytearray(original)
        for _ in range(chance.choice([1, 2, 6])):
            position = chance.randrange(300)
            data[position] = chance.choice(b'\0\x01"{}[],:0129-\x7f\x80\xff')
        file.write_bytes(data)
        try:
            read(file)
        except errors.ConfigError:
            refused += 1
    assert refused > 500


def packed(header, size=0):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, 'little') + text + bytes(size)


def entry(dtype='F32', shape=(1,), offsets=(0, 4)):
    return {'x': {'dtype': dtype, 'shape': shape, 'data_offsets': offsets}}


HOSTILE = {
    'empty': b'',
    'no header': b'\0' * 8,
    'header longer than the file': packed({})[:9],
    'header of terabytes': (2**40).to_bytes(8, 'little') + b'{}',
    'longer header than allowed': packed(b' ' * 2**20 + b'{}'),
    'deep': packed(b'{"x":' + b'[' * 500_000),
    'no text': packed(b'\xff' * 10),
    'other type': packed(entry('F8_E5M2', [4]), 4),
    'unknown type': packed(entry('OBJECT'), 4),
    'size that does not fit': packed(entry(shape=[3]), 4),
    'size that overflows': packed(entry(shape=[2**62, 2**62]), 4),
    'negative size': packed(entry(shape=[-1]), 4),
    'data before the file': packed(entry(offsets=(-4, 0)), 4),
    'data behind the file': packed(entry(offsets=(0, 4))),
    'holes': packed(entry(offsets=(4, 8)), 8),
    'more data': packed(entry(), 8),
}


@pytest.mark.parametrize('data', HOSTILE.values(), ids=HOSTILE)
def test_hostile_file(tmp_path, data):
    (tmp_path / 'x').write_bytes(data)
    started = time.monotonic()
    with pytest.raises(errors.ConfigError, match='x must (be|have)'):
        tensors.specs(tmp_path / 'x')
    assert time.monotonic() - started < 2


def test_file_that_is_cut_short(file):
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(errors.ConfigError, match='must be a file of safe'):
        read(file)


def test_huge_file_is_refused(tmp_path):
    with (tmp_path / 'x').open('wb') as file:
        file.truncate(2**40)
    with pytest.raises(errors.ConfigError, match='bytes where at most'):
        tensors.specs(tmp_path / 'x')
