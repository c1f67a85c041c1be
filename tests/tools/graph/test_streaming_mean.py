"""A mean over numbers that arrive one by one or in batches."""

import numpy as np
import pytest

from agents.tools import StreamingMean
from agents.tools.graph.backend import compiled, tf


def test_mean_of_single_values():
    mean = StreamingMean()
    assert float(mean.value) == 0 and float(mean.count) == 0
    for value in (1.0, 2.0, 6.0):
        mean.submit(tf.constant(value))
    assert float(mean.value) == 3
    assert float(mean.count) == 3


def test_batches_and_single_values_mix():
    mean = StreamingMean((2,))
    mean.submit(tf.constant([[1.0, 10.0], [2.0, 20.0]]))
    mean.submit(tf.constant([6.0, 60.0]))
    assert mean.value.numpy().tolist() == [3, 30]
    assert float(mean.count) == 3


def test_mean_of_matrices():
    values = np.random.default_rng(0).normal(size=(5, 2, 3)).astype('f')
    mean = StreamingMean((2, 3))
    mean.submit(tf.constant(values))
    np.testing.assert_allclose(mean.value, values.mean(0), 1e-5)


def test_clear_returns_the_mean_and_begins_anew():
    mean = StreamingMean()
    mean.submit(tf.constant([1.0, 3.0]))
    assert float(mean.clear()) == 2
    assert float(mean.count) == 0
    assert float(mean.clear()) == 0
    mean.submit(tf.constant(5.0))
    assert float(mean.value) == 5


def test_only_what_the_mask_marks_counts():
    mean = StreamingMean((2,))
    values = tf.constant([[1.0, 2], [np.nan, np.inf], [3, 4]])
    mean.submit(values, tf.constant([True, False, True]))
    assert mean.value.numpy().tolist() == [2, 3]
    assert float(mean.count) == 2
    mean.submit(values, tf.zeros(3, bool))
    assert float(mean.count) == 2


@pytest.mark.parametrize('dtype', ['float64', 'int32'])
def test_values_of_other_types(dtype):
    mean = StreamingMean()
    mean.submit(tf.cast([1, 4], dtype))
    assert float(mean.value) == 2.5


def test_within_a_compiled_loop():
    mean = StreamingMean()

    @compiled
    def add():
        for value in range(4):
            mean.submit(tf.constant([0.0, 1.0]) + value)
        return mean.clear()

    assert float(add()) == float(add()) == 2


def test_state_is_not_trainable():
    mean = StreamingMean()
    assert len(mean.variables) == 2
    assert not mean.trainable_variables
