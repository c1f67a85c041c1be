"""Tensors as one vector and back."""

import numpy as np
import pytest

from agents.parts import flat
from agents.tools.graph.backend import tf

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
