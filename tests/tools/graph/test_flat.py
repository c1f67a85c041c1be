"""Tensors as one vector and back."""

import numpy as np
import pytest

from agents.tools.graph import flat
from agents.tools.graph.backend import keras, tf

TENSORS = [
    tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
    tf.constant(7.0),
    tf.constant([8.0, 9.0]),
]


def test_concat_lays_tensors_behind_each_other():
    np.testing.assert_array_equal(flat.concat(TENSORS), range(1, 10))


def test_split_undoes_concat():
    parts = flat.split(flat.concat(TENSORS), TENSORS)
    for part, tensor in zip(parts, TENSORS, strict=True):
        assert part.shape == tensor.shape
        np.testing.assert_array_equal(part, tensor)


def test_vector_of_another_size_is_refused():
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        flat.split(tf.zeros(8), TENSORS)


def define():
    variables = [tf.Variable(tensor) for tensor in TENSORS]
    variables[1] = keras.Variable(7.0, name='middle')
    return flat.Weights(variables), variables


def test_weights_are_read_and_changed_as_one_vector():
    weights, variables = define()
    assert weights.size == 9
    np.testing.assert_array_equal(weights.read(), range(1, 10))
    weights.subtract(tf.ones(9))
    np.testing.assert_array_equal(variables[2], [7, 8])
    weights.assign(tf.range(9, 0, -1, tf.float32))
    np.testing.assert_array_equal(variables[0], [[9, 8, 7], [6, 5, 4]])
    assert variables[1].numpy() == 3


def test_gradient_is_a_vector_that_is_zero_where_nothing_depends():
    weights, variables = define()
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(variables[0] ** 2)
    expected = [2, 4, 6, 8, 10, 12, 0, 0, 0]
    np.testing.assert_array_equal(weights.gradient(tape, value), expected)


def test_weights_are_named_by_position():
    weights, _ = define()
    assert weights.name_at(6).endswith('middle')
    assert weights.name_at(5) == weights.name_at(0) != weights.name_at(6)
    with pytest.raises(IndexError):
        weights.name_at(9)


def test_weights_belong_to_nobody_who_only_has_them():
    module = tf.Module()
    module.weights, _ = define()
    assert not module.variables
