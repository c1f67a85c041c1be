"""Files of demonstrations: what is in them, and what is refused."""

import contextlib
import io
import os
import random
import zipfile

import gymnasium as gym
import numpy as np
import pytest

from agents.tools import errors, nested, spaces
from agents.tools.runs import demonstrations
from agents.tools.runs.demonstrations import Demonstrations

OBSERVS = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
ACTIONS = gym.spaces.Box(-2, 2, (2,), np.float32)
LENGTHS = 4, 1, 7


def arrays(**changes):
    """What a file of three episodes holds, of which the second dies."""
    rng = np.random.default_rng(0)
    count = sum(LENGTHS)
    truncated = np.zeros(count, bool)
    truncated[np.cumsum(LENGTHS) - 1] = True
    terminated = np.zeros(count, bool)
    terminated[4], truncated[4] = True, False
    plain = {
        'observ': rng.normal(size=(count, 3)),
        'action': rng.uniform(-2, 2, (count, 2)),
        'reward': np.arange(count),
        'terminated': terminated,
        'truncated': truncated,
    }
    return {**plain, **changes}


def write(path, **changes):
    kept = {k: v for k, v in arrays(**changes).items() if v is not None}
    np.savez(path, **kept)
    return path


@pytest.fixture
def file(tmp_path):
    return write(tmp_path / 'demos.npz')


def read(path, observ_space=OBSERVS, action_space=ACTIONS):
    return demonstrations.read(path, observ_space, action_space)


def refused(path, message, **others):
    with pytest.raises(errors.ConfigError, match=message) as info:
        read(path, **others)
    assert str(path) in str(info.value)


def test_arrays_are_read_as_they_are(file):
    found = read(file)
    for name, value in arrays().items():
        np.testing.assert_allclose(getattr(found, name), value, rtol=1e-6)
    assert found.observ.dtype == np.float32
    assert found.lengths == [*LENGTHS]
    assert found.scores == [0 + 1 + 2 + 3, 4, 5 + 6 + 7 + 8 + 9 + 10 + 11]


def test_first_episodes(file):
    found = read(file).first(2)
    assert found.lengths == [4, 1]
    assert found.observ.shape == (5, 3)
    with pytest.raises(errors.ConfigError, match='There are 3 demonstrations'):
        read(file).first(4)


def test_steps_are_left_out_from_somewhere_in_each_episode(file):
    found = read(file)
    begun = set()
    for seed in range(20):
        kept = found.thinned(3, seed).reward
        parts = [kept[kept < 4], kept[kept == 4], kept[kept > 4]]
        assert len(parts[1]) == 1
        for part in (parts[0], parts[2]):
            assert (np.diff(part) == 3).all()
        assert parts[0][0] < 3 and 5 <= parts[2][0] < 8
        begun.add(parts[2][0])
    assert begun == {5, 6, 7}
    assert (found.thinned(1, 0).reward == found.reward).all()


def test_any_space_goes_there_and_back(tmp_path):
    observ_space = gym.spaces.Dict(
        place=gym.spaces.Discrete(3, start=5),
        image=gym.spaces.Box(0, 255, (2, 2, 1), np.uint8),
        pair=gym.spaces.Tuple([gym.spaces.MultiBinary(2), gym.spaces.Box(-1, 1, (), np.float32)]),
    )
    action_space = gym.spaces.MultiDiscrete([2, 3], start=[1, -1])
    rng = np.random.default_rng(0)
    played = Demonstrations(
        # As in the graph, where what is counted begins at zero.
        {
            'image': rng.integers(0, 255, (4, 2, 2, 1)).astype(np.uint8),
            'pair': (
                rng.integers(0, 2, (4, 2)).astype(np.int32),
                rng.normal(size=4).astype(np.float32),
            ),
            'place': np.array([0, 1, 2, 0], np.int32),
        },
        np.array([[0, 0], [1, 2], [1, 0], [0, 1]], np.int32),
        np.ones(4, np.float32),
        np.array([False, True, False, False]),
        np.array([False, False, False, True]),
    )
    path = tmp_path / 'demos.npz'
    demonstrations.write(path, played, observ_space, action_space)
    # In the file they are the environment's own.
    with np.load(path, allow_pickle=False) as stored:
        assert stored['observ/place'].tolist() == [5, 6, 7, 5]
        assert stored['action'].tolist() == [[1, -1], [2, 1], [2, -1], [1, 0]]
        assert stored['observ/pair/0'].shape == (4, 2)
    found = read(path, observ_space, action_space)
    for one, other in zip(nested.flatten(found), nested.flatten(played), strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
    assert nested.names(found.observ) == nested.names(spaces.specs(observ_space))


@pytest.mark.parametrize(
    'changes, message',
    [
        ({'observ': None}, "no array 'observ' in it, but action, reward"),
        ({'reward': np.zeros(5)}, r"'observ' has the shape \(12, 3\) where"),
        ({'observ': np.zeros((12, 4))}, r'where \(12, 3\) was expected'),
        ({'action': np.zeros(12)}, r"'action' has the shape \(12,\)"),
        ({'observ': np.full((12, 3), np.nan)}, 'not a finite number'),
        ({'observ': np.full((12, 3), 1e300)}, 'too large'),
        ({'reward': np.full(12, np.inf)}, 'not a finite number'),
        ({'action': np.full((12, 2), 2.1)}, "'action' of step 0 is .*no value"),
        ({'terminated': np.full(12, 2)}, 'no value of type bool'),
        (
            {'truncated': np.zeros(12, bool)},
            'last episode has no end: the last step has to be terminated',
        ),
        ({'observ': np.array([object()] * 12)}, 'numbers were expected'),
        ({'observ': np.array(['x'] * 12)}, 'numbers were expected'),
        ({name: value[:0] for name, value in arrays().items()}, 'no steps in it'),
    ],
)
def test_what_is_no_demonstration_is_refused(tmp_path, changes, message):
    refused(write(tmp_path / 'demos.npz', **changes), message)


def test_choices_that_there_are_not_are_refused(tmp_path):
    path = write(tmp_path / 'demos.npz', action=np.full(12, 3))
    space = gym.spaces.Discrete(3, start=1)
    assert (read(path, action_space=space).action == 2).all()
    for value in (0, 4):
        path = write(tmp_path / 'demos.npz', action=np.full(12, value))
        refused(path, f'of step 0 is {value}, which', action_space=space)
    path = write(tmp_path / 'demos.npz', action=np.full(12, 1.5))
    refused(path, 'no value of type int32', action_space=space)


def header(shape, dtype='<f4'):
    data = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        data, {'descr': dtype, 'fortran_order': False, 'shape': shape}
    )
    return data.getvalue()


@pytest.mark.parametrize(
    'contents',
    [
        header((10**12, 3)),
        header((2, 3)) + bytes(23),
        header((-1, 3)) + bytes(24),
        header((2, 3), '|O') + bytes(48),
        b'\x93NUMPY\x09\x00',
        b'\x93NUMPY\x01\x00\xff\xff{',
        b'cos\nsystem\n(S"true"\ntR.',
        b'',
    ],
)
def test_array_that_is_hostile_is_refused(tmp_path, contents):
    path = write(tmp_path / 'demos.npz', observ=None)
    with zipfile.ZipFile(path, 'a') as archive:
        archive.writestr('observ.npy', contents)
    refused(path, 'cannot be used')


def test_header_that_takes_long_to_parse_is_refused(tmp_path):
    path = write(tmp_path / 'demos.npz', observ=None)
    text = b'"' + b'\\"' * 2_000
    size = len(text).to_bytes(4, 'little')
    with zipfile.ZipFile(path, 'a') as archive:
        archive.writestr('observ.npy', b'\x93NUMPY\x02\x00' + size + text)
    refused(path, 'Header info length')


def test_file_that_unpacks_to_more_than_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(demonstrations, 'MAX_BYTES', 100_000)
    path = tmp_path / 'demos.npz'
    np.savez_compressed(path, **arrays(observ=np.zeros((100_000, 3))))
    assert path.stat().st_size < 100_000
    refused(path, 'unpacks to more than 100,000 bytes')


@pytest.mark.parametrize('method', [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compression_that_inflates_without_limit_is_refused(tmp_path, method):
    path = tmp_path / 'demos.npz'
    with zipfile.ZipFile(path, 'w', method) as archive:
        archive.writestr('observ.npy', bytes(2**25))
    refused(path, "'observ.npy' must be stored or deflated")


def test_file_of_many_entries_is_refused(tmp_path):
    path = tmp_path / 'demos.npz'
    with zipfile.ZipFile(path, 'w') as archive:
        for number in range(demonstrations.MAX_ARRAYS + 1):
            archive.writestr(f'{number}.npy', b'')
    refused(path, 'more than 1,000 arrays')


def test_every_changed_byte_is_read_or_refused(file):
    """Changes of the archive, its directory and the headers of arrays."""
    original, chance = file.read_bytes(), random.Random(0)
    for _ in range(400):
        data = bytearray(original)
        data[chance.randrange(len(data))] = chance.randrange(256)
        file.write_bytes(data)
        with contextlib.suppress(errors.ConfigError):
            read(file)


@pytest.mark.parametrize('contents', [b'', b'PK\x03\x04', b'x' * 500])
def test_what_is_no_archive_is_refused(tmp_path, contents):
    path = tmp_path / 'demos.npz'
    path.write_bytes(contents)
    refused(path, 'cannot be used')


def test_file_cut_anywhere_is_refused(file):
    whole = file.read_bytes()
    for length in range(0, len(whole), 97):
        file.write_bytes(whole[:length])
        refused(file, 'cannot be used')


def test_what_is_no_file_is_refused_at_once(tmp_path):
    path = tmp_path / 'demos.npz'
    with pytest.raises(errors.ConfigError, match='agents record'):
        read(path)
    os.mkfifo(path)
    with pytest.raises(errors.ConfigError, match=str(path)):
        read(path)
