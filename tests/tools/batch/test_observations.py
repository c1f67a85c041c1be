"""Observations are checked before they are written, and never broadcast."""

import gymnasium as gym
import numpy as np
import pytest

from agents.tools.batch import observations

spaces = gym.spaces
BOX = spaces.Box(-1, 1, (4,))
BYTES = spaces.Box(0, 255, (2,), np.uint8)
INTEGERS = spaces.Box(-(2**40), 2**40, (2,), np.int64)
NEST = spaces.Dict(image=BYTES, pose=spaces.Tuple([BOX, spaces.Discrete(3, start=-1)]))


def writer(space, rows=3):
    arrays = observations.zeros(space, rows)
    return observations.Writer(space, arrays), arrays


def written(space, value):
    """What becomes of a value in the second of three rows."""
    write, arrays = writer(space)
    write.write(1, value)
    assert not arrays[0].any() and not arrays[2].any()
    return arrays[1]


def test_zeros():
    arrays = observations.zeros(NEST, 5)
    assert arrays['image'].shape == (5, 2)
    assert arrays['image'].dtype == np.uint8
    assert arrays['pose'][0].dtype == np.float32
    assert arrays['pose'][1].shape == (5,)
    assert arrays['pose'][1].dtype == np.int32


@pytest.mark.parametrize(
    'space, value, expected',
    [
        (BOX, np.array([1, -1, 0.5, 0]), [1, -1, 0.5, 0]),
        (BOX, np.arange(4, dtype=np.int64), [0, 1, 2, 3]),
        (BOX, [0.25, 0, 0, True], [0.25, 0, 0, 1]),
        (spaces.Box(-1, 1, ()), 0.5, 0.5),
        (spaces.Box(-1, 1, ()), np.float64(0.5), 0.5),
        (BYTES, np.array([0, 255], np.uint8), [0, 255]),
        (BYTES, np.array([0, 255]), [0, 255]),
        (INTEGERS, np.array([-(2**31), 2**31 - 1]), [-(2**31), 2**31 - 1]),
        (spaces.Discrete(3), 2, 2),
        (spaces.Discrete(3), np.array(2, np.uint8), 2),
        (spaces.Discrete(3, start=-1), np.int64(1), 2),
        (spaces.MultiDiscrete([2, 3], start=[5, -1]), [6, -1], [1, 0]),
        (spaces.MultiBinary(2), np.array([1, 0], np.int8), [1, 0]),
    ],
    ids=str,
)
def test_values_that_fit(space, value, expected):
    row = written(space, value)
    np.testing.assert_array_equal(row, np.array(expected, row.dtype))


@pytest.mark.parametrize(
    'space, value',
    [
        (BOX, np.zeros(1)),
        (BOX, np.zeros((2, 2))),
        (BOX, np.zeros((1, 4))),
        (BOX, np.zeros((4, 1))),
        (BOX, np.zeros(5)),
        (BOX, 0.0),
        (BOX, np.zeros(4, object)),
        (BOX, np.zeros(4, complex)),
        (BOX, np.array(['0', '0', '0', '0'])),
        (BOX, None),
        (BOX, [0.0, None, 0.0, 0.0]),
        (BOX, {'x': np.zeros(4)}),
        (BOX, (np.zeros(4), np.zeros(4))),
        (BYTES, np.zeros(2, np.float32)),
        (BYTES, np.zeros(1, np.uint8)),
        (INTEGERS, np.zeros(2)),
        (spaces.Discrete(3), 1.0),
        (spaces.Discrete(3), [1]),
        (spaces.Discrete(3), '1'),
        (spaces.Discrete(3), 2**70),
        (spaces.MultiBinary(2), [1.0, 0.0]),
    ],
    ids=repr,
)
def test_wrong_shapes_and_types(space, value):
    with pytest.raises(TypeError, match='observation should have the shape'):
        written(space, value)


def test_ragged_lists():
    with pytest.raises(ValueError):
        written(BOX, [[0.0], [0.0, 0.0], 0.0, 0.0])


@pytest.mark.parametrize(
    'space, value, found',
    [
        (BYTES, [300, 0], '300'),
        (BYTES, [0, -1], '-1'),
        (BYTES, np.array([256, 0], np.uint64), '256'),
        (INTEGERS, [2**40, 0], '1099511627776'),
        (INTEGERS, [0, -(2**31) - 1], '-2147483649'),
        (INTEGERS, np.array([2**64 - 1, 0], np.uint64), ''),
        (INTEGERS, np.array([2**63, 0], np.uint64), ''),
        (spaces.Discrete(3), 3, '3'),
        (spaces.Discrete(3), -1, '-1'),
        (spaces.Discrete(3, start=-1), 2, '2'),
        (spaces.Discrete(3, start=-1), -2, '-2'),
        (spaces.Discrete(3, start=-1), np.uint64(2**64 - 1), ''),
        (spaces.MultiDiscrete([2, 3]), [1, 3], '3'),
        (spaces.MultiDiscrete([2, 3], start=[5, 0]), [4, 0], '4'),
        (spaces.MultiBinary(2), [2, 0], '2'),
    ],
    ids=repr,
)
def test_values_out_of_range(space, value, found):
    with pytest.raises(ValueError, match=rf'is .*{found}.*, which is') as info:
        written(space, value)
    within = space is INTEGERS and np.asarray(value).dtype != np.uint64
    assert ('beyond the range of int32' in str(info.value)) == within


def test_image_out_of_range_is_told_in_a_line():
    image = np.full((30, 20, 3), -1)
    with pytest.raises(ValueError, match='outside of') as info:
        written(spaces.Box(0, 255, image.shape, np.uint8), image)
    assert '\n' not in str(info.value)
    assert len(str(info.value)) < 700


@pytest.mark.filterwarnings('ignore:overflow')
@pytest.mark.parametrize('value', [1e300, np.inf, -np.inf, np.nan, 2e15, -2e15])
def test_floats_that_are_not_finite_or_too_large_are_found(value):
    for space, observ in (
        (BOX, np.array([0, 0, value, 0])),
        (spaces.Dict(a=BYTES, b=BOX), {'a': [0, 0], 'b': [0, 0, 0, value]}),
        (spaces.Tuple([BOX, BOX]), (np.zeros(4), np.array([value, 0, 0, 0]))),
    ):
        write, _ = writer(space)
        assert write.first_beyond() is None
        write.write(2, observ)
        expected = 2, float(np.float32(value))
        np.testing.assert_array_equal(write.first_beyond(), expected)


def test_bit_patterns_of_integers_are_finite():
    write, _ = writer(INTEGERS)
    write.write(0, np.array([0x7F800000, -1]))  # As floats infinite and NaN.
    assert write.first_beyond() is None


def test_nest():
    write, arrays = writer(NEST)
    pose = np.array([0, 0.5, 0, 1]), 1
    write.write(2, {'pose': pose, 'image': np.array([1, 2], np.uint8)})
    assert arrays['image'].tolist() == [[0, 0], [0, 0], [1, 2]]
    assert arrays['pose'][0][2].tolist() == [0, 0.5, 0, 1]
    assert arrays['pose'][1].tolist() == [0, 0, 2]


GOOD = {'image': np.zeros(2, np.uint8), 'pose': (np.zeros(4), 0)}


@pytest.mark.parametrize(
    'value, message',
    [
        ({'image': GOOD['image']}, "lacks the key 'pose'"),
        ({**GOOD, 'extra': 0}, "has the key 'extra', which is not"),
        ({'image': GOOD['image'], 'Pose': GOOD['pose']}, "lacks the key 'pose'"),
        ([GOOD['image'], GOOD['pose']], 'should be a dict'),
        (np.zeros(6), 'should be a dict'),
        ({**GOOD, 'pose': [np.zeros(4), 0]}, r"\['pose'\] should be a tuple"),
        ({**GOOD, 'pose': (np.zeros(4),)}, r"\['pose'\] should be a tuple"),
        ({**GOOD, 'pose': (np.zeros(4), 0, 0)}, 'should be a tuple'),
        ({**GOOD, 'pose': (np.zeros(3), 0)}, r"\['pose'\]\[0\] should have"),
        ({**GOOD, 'pose': (np.zeros(4), 5)}, r"\['pose'\]\[1\] is 5"),
        ({**GOOD, 'image': np.array([0, 300])}, r"\['image'\] is \[ +0 300\]"),
    ],
)
def test_nests_that_do_not_fit_name_the_part(value, message):
    write, _ = writer(NEST)
    write.write(0, GOOD)
    with pytest.raises((TypeError, ValueError), match=message):
        write.write(0, value)


def test_values_are_copied():
    observ = np.ones(4, np.float32)
    write, arrays = writer(BOX)
    write.write(0, observ)
    observ[:] = 2
    assert arrays[0].tolist() == [1, 1, 1, 1]


def test_copy_to_another():
    (mine, arrays), (others, copies) = writer(NEST), writer(NEST)
    mine.write(1, {'pose': (np.ones(4), 1), 'image': np.array([3, 4])})
    mine.copy_to(others)
    assert copies['image'].tolist() == [[0, 0], [3, 4], [0, 0]]
    assert copies['pose'][1].tolist() == [0, 2, 0]
    arrays['image'][:] = 9
    assert copies['image'].max() == 4
