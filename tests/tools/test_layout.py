"""Leaves of every type come back from the matrices bit by bit."""

import numpy as np
import pytest

from agents.tools import layout, nested
from agents.tools.graph.backend import tf
from agents.tools.layout import Spec

SPECS = {
    'image': Spec((2, 2), 'uint8'),
    'flag': Spec((), 'bool'),
    'number': Spec((3,), 'int32'),
    'parts': (Spec((2, 1), 'float32'), Spec((), 'uint8')),
}

# As floats these are NaN, quiet and signalling, infinite and denormal, which
# arithmetic would change.
INTEGERS = [-1, 0x7F800001, 0x7F800000, 1, 2, -(2**31), 2**31 - 1, 0x7FC00000]


def make_values(*lead):
    """Values of SPECS with the leading dimensions `[*lead]`."""
    random = np.random.default_rng(0)

    def draw(spec):
        shape = (*lead, *spec.shape)
        if spec.dtype == 'int32':
            return np.resize(np.array(INTEGERS, np.int32), shape)
        if spec.dtype == 'float32':
            return random.normal(size=shape).astype(np.float32)
        if spec.dtype == 'bool':
            return random.random(shape) > 0.5
        return random.integers(0, 256, shape).astype(np.uint8)

    return nested.map(draw, SPECS)


def allocate(rows, count):
    return [np.zeros((count, width), kind) for kind, width in rows.groups]


def assert_equal(first, second):
    def check(a, b):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape and a.dtype == b.dtype
        assert a.tobytes() == b.tobytes()

    nested.map(check, first, second)


def test_groups_and_columns():
    # Sorted by key: flag takes column 0, image bytes 0 to 3, number 1 to 3,
    # the parts column 4 to 5 and byte 4.
    rows = layout.Layout(SPECS)
    assert rows.groups == (('float32', 6), ('uint8', 5))
    places = nested.map(lambda c: (c.group, c.start, c.stop), rows.columns)
    assert places['flag'] == (0, 0, 1)
    assert places['image'] == (1, 0, 4)
    assert places['number'] == (0, 1, 4)
    assert places['parts'] == ((0, 4, 6), (1, 4, 5))


def test_only_the_types_that_are_there_have_a_matrix():
    assert layout.Layout(Spec((2,), 'int32')).groups == (('float32', 2),)
    assert layout.Layout([Spec((2,), 'uint8')]).groups == (('uint8', 2),)


def test_unknown_type_is_refused():
    with pytest.raises(KeyError, match='float64'):
        layout.Layout(Spec((), 'float64'))


def test_views_write_to_the_matrices_and_read_back():
    rows = layout.Layout(SPECS)
    matrices = allocate(rows, 4)
    values = make_values(4)

    def write(view, value):
        view[:] = value

    nested.map(write, rows.views(matrices), values)
    copies = [matrix.copy() for matrix in matrices]
    views = rows.views(copies)
    views['flag'] = views['flag'] > 0.5
    assert_equal(views, values)


def test_views_write_nowhere_else():
    rows = layout.Layout(SPECS)
    matrices = allocate(rows, 3)
    rows.views(matrices)['number'][1] = 1
    expected = np.zeros((3, 6), np.float32)
    expected[1, 1:4] = np.array([1, 1, 1], np.int32).view(np.float32)
    assert matrices[0].tobytes() == expected.tobytes()
    assert not matrices[1].any()


@pytest.mark.parametrize('lead', [(), (4,), (2, 3)], ids=str)
@pytest.mark.parametrize('jit', [None, True], ids=['eager', 'compiled'])
def test_unpack_is_the_inverse_of_pack(lead, jit):
    rows = layout.Layout(SPECS)
    values = make_values(*lead)

    def both(values):
        matrices = rows.pack(values)
        return matrices, rows.unpack(matrices)

    if jit:
        both = tf.function(both, jit_compile=True)
    matrices, unpacked = both(nested.map(tf.constant, values))
    for matrix, (kind, width) in zip(matrices, rows.groups, strict=True):
        assert matrix.shape == (*lead, width)
        assert matrix.dtype == kind
    assert_equal(unpacked, values)


def test_views_and_pack_agree():
    rows = layout.Layout(SPECS)
    values = make_values(4)
    packed = rows.pack(nested.map(tf.constant, values))
    matrices = [matrix.numpy() for matrix in packed]
    views = rows.views(matrices)
    views['flag'] = views['flag'] > 0.5
    assert_equal(views, values)
    assert_equal(rows.unpack(nested.map(tf.constant, matrices)), values)


def test_integers_survive_moving_the_rows():
    # What the memory of a rollout and an update do with a packed row.
    rows = layout.Layout(Spec((8,), 'int32'))
    values = np.array([INTEGERS, INTEGERS[::-1]], np.int32)
    (matrix,) = rows.pack(tf.constant(values))

    @tf.function(jit_compile=True)
    def move(matrix):
        variable.scatter_update(tf.IndexedSlices(matrix[:1], [1]))
        variable.scatter_update(tf.IndexedSlices(matrix[1:], [0]))
        return rows.unpack([tf.gather(variable, [1, 0])])

    variable = tf.Variable(tf.zeros_like(matrix))
    assert_equal(move(matrix), values)


def test_empty_leaf():
    rows = layout.Layout({'a': Spec((0,), 'float32'), 'b': Spec((), 'int32')})
    views = rows.views(allocate(rows, 2))
    assert views['a'].shape == (2, 0)
    views['b'][:] = [3, 4]
    assert views['b'].tolist() == [3, 4]
