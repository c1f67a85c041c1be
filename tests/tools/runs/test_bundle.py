"""Bundles are read as TensorFlow reads them, and malformed ones refused."""

import random
import time

import numpy as np
import pytest

from agents.tools import errors
from agents.tools.graph.backend import tf
from agents.tools.runs import bundle


def write(directory, tensors):
    prefix = directory / 'variables'
    names = sorted(tensors)
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=names,
        shape_and_slices=[''] * len(names),
        tensors=[tf.constant(tensors[name]) for name in names],
    )
    return prefix


def test_reads_what_tensorflow_wrote(tmp_path):
    tensors = {
        'net/0-kernel': np.arange(6, dtype='f').reshape(2, 3),
        'net/1-bias': np.array([True, False]),
        'step': np.array(2**62),
        'none': np.zeros((0, 4), np.float16),
        'Ünï': np.array([[255]], np.uint8),
    }
    prefix = write(tmp_path, tensors)
    found = bundle.variables(prefix)
    assert set(found) == set(tensors)
    values = bundle.values(prefix, found.values())
    for (name, variable), value in zip(found.items(), values, strict=True):
        assert variable.dtype == tensors[name].dtype == value.dtype
        assert variable.shape == list(tensors[name].shape)
        np.testing.assert_array_equal(value, tensors[name])


def test_index_of_several_blocks(tmp_path):
    tensors = {f'{"long/" * 30}{i:05}': np.int32(i) for i in range(9000)}
    prefix = write(tmp_path, tensors)
    found = bundle.variables(prefix)
    reader = tf.train.load_checkpoint(str(prefix))
    assert set(found) == set(reader.get_variable_to_shape_map())
    values = bundle.values(prefix, found.values())
    assert dict(zip(found, values, strict=True)) == tensors


@pytest.fixture
def prefix(tmp_path):
    tensors = {f'net/{i}-kernel': np.ones((2, i), 'f') for i in range(5)}
    return write(tmp_path, tensors)


def read(prefix):
    found = bundle.variables(prefix)
    for variable in found.values():
        if np.prod(variable.shape) > 100:
            raise errors.ConfigError('It does not fit.')
    return list(bundle.values(prefix, found.values()))


def test_random_changes_of_the_index_are_clear_errors(prefix):
    file = prefix.with_name('variables.index')
    original, chance, refused = file.read_bytes(), random.Random(0), 0
    for _ in range(2000):
        data = bytearray(original)
        for _ in range(chance.choice([1, 2, 6])):
            position = chance.randrange(len(data))
            data[position] = chance.choice([0, 1, 2, 8, 127, 128, 255])
        file.write_bytes(data)
        try:
            read(prefix)
        except errors.ConfigError:
            refused += 1
    assert refused > 500


@pytest.mark.parametrize('kept', [0, 10, 47, 100])
def test_index_that_is_cut_short(prefix, kept):
    file = prefix.with_name('variables.index')
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(errors.ConfigError, match='index: It is malformed'):
        bundle.variables(prefix)


def test_data_that_is_cut_short(prefix):
    file = prefix.with_name('variables.data-00000-of-00001')
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(errors.ConfigError, match='It is cut off'):
        read(prefix)


def table(entries):
    """An index of one block in which each entry is as it is given."""
    block = b''.join(entries) + bytes(4)
    handle = varint(0) + varint(len(block))
    index = b'\0\0' + varint(len(handle)) + handle + bytes(4)
    body = block + bytes(5) + index + bytes(5)
    start = varint(0) * 2 + varint(len(block) + 5) + varint(len(index))
    return body + start.ljust(40, b'\0') + bytes.fromhex('57fb808b247547db')


def repeated(entries, times):
    """An index whose handles all lead to the same block."""
    block = b''.join(entries) + bytes(4)
    handle = varint(0) + varint(len(block))
    handles = b''.join(entry(b'%d' % i, handle) for i in range(times))
    index = handles + bytes(4)
    body = block + bytes(5) + index + bytes(5)
    start = varint(0) * 2 + varint(len(block) + 5) + varint(len(index))
    return body + start.ljust(40, b'\0') + bytes.fromhex('57fb808b247547db')


def varint(number):
    found = b''
    while number > 127:
        found += bytes([number & 127 | 128])
        number >>= 7
    return found + bytes([number])


def entry(name, value=b'\x08\x01', shared=0):
    lengths = shared, len(name), len(value)
    return b''.join(map(varint, lengths)) + name + value


NEGATIVE = b'\x08\x01\x12\x0d\x12\x0b\x08' + b'\xff' * 9 + b'\x01'

# Of so many dimensions that a message of them takes long to decode.
DEEP = b'\x08\x01\x12' + varint(400_000) + b'\x12\x00' * 200_000

HOSTILE = {
    'many dimensions': table([entry(b'x', DEEP)]),
    'one block for many handles': repeated([entry(b'x', DEEP)], 20_000),
    'endless number': table([b'\xff' * 500_000]),
    'names that grow': table(
        [entry(b'x' * 99, shared=99 * i) for i in range(99)]
    ),
    'many': table([entry(b'%d' % i) for i in range(30_000)]),
    'no message': table([entry(b'x', b'\xff\xff\xff')]),
    'no type': table([entry(b'x', b'\x08\x63')]),
    'no text': table([entry(b'\xff')]),
    'negative size': table([entry(b'x', NEGATIVE)]),
    'other shard': table([entry(b'x', b'\x08\x01\x18\x07')]),
}  # fmt: skip


@pytest.mark.parametrize('index', HOSTILE.values(), ids=HOSTILE)
def test_hostile_index(tmp_path, index):
    (tmp_path / 'variables.index').write_bytes(index)
    started = time.monotonic()
    with pytest.raises(errors.ConfigError, match='index: It is malformed'):
        bundle.variables(tmp_path / 'variables')
    assert time.monotonic() - started < 2


def test_index_made_by_hand_is_read(tmp_path):
    path = tmp_path / 'variables.index'
    path.write_bytes(
        table([entry(b''), entry(b'net/a'), entry(b'b', shared=4)])
    )
    found = bundle.variables(tmp_path / 'variables')
    assert set(found) == {'net/a', 'net/b'}
    assert found['net/a'] == bundle.Variable('float32', [], 0)


def test_huge_index_is_refused(tmp_path):
    with (tmp_path / 'variables.index').open('wb') as file:
        file.truncate(2**40)
    with pytest.raises(errors.ConfigError, match='bytes where at most'):
        bundle.variables(tmp_path / 'variables')
