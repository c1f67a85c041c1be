"""What ranks make of steps of their own, by numbers that can be checked."""

import numpy as np
import pytest

from agents.parts.optimizer import Adam
from agents.tools import nested
from agents.tools.graph.backend import tf
from agents.tools.graph.communicator import Communicator
from agents.tools.graph.flat import Weights


class BesideZeros(Communicator):
    """One of two ranks, the other of which has zeros everywhere."""

    size = 2

    def mean(self, nest):
        return nested.map(lambda x: x / 2, nest)


@pytest.fixture
def define():
    """A function that makes Adam of one weight beside a rank of zeros."""

    def make(by_epoch):
        weight = tf.Variable([8.0])
        optimizer = Adam(Weights([weight]), 0.5, ranks=BesideZeros(), by_epoch=by_epoch)
        return weight, optimizer

    return make


def slope(weight, factor=1.0):
    return lambda rows: {'loss': factor * tf.reduce_mean(rows) * weight[0]}


def test_gradients_are_averaged_in_each_step(define):
    weight, optimizer = define(by_epoch=False)
    found = optimizer.minimize(slope(weight), tf.constant([2.0, 4.0]))
    # The mean of 3 and 0; Adam's first step is its rate, whatever the slope.
    assert found['gradient_norm'] == 1.5
    np.testing.assert_allclose(weight, [7.5], rtol=1e-5)
    means = {'loss': tf.constant(3.0)}
    assert optimizer.end_epoch(means) is means
    np.testing.assert_allclose(weight, [7.5], rtol=1e-5)


def test_weights_are_averaged_after_an_epoch(define):
    weight, optimizer = define(by_epoch=True)
    found = optimizer.minimize(slope(weight), tf.constant([2.0, 4.0]))
    assert found['gradient_norm'] == 3
    np.testing.assert_allclose(weight, [7.5], rtol=1e-5)
    means = optimizer.end_epoch({'loss': tf.constant(3.0)})
    assert means['loss'] == 1.5
    np.testing.assert_allclose(weight, [3.75], rtol=1e-5)
    # So are the mean of gradients, 0.1 × 3, and that of their squares.
    numbers = [float(np.sum(v)) for v in optimizer.variables]
    np.testing.assert_allclose(sorted(numbers), [0, 0, 0.0045, 0.15, 0.5], rtol=1e-4, atol=1e-6)


def test_useless_gradients_of_one_count_for_all(define):
    weight, optimizer = define(by_epoch=True)
    for _ in range(20):
        optimizer.minimize(slope(weight, np.nan), tf.constant([1.0]))
    # All of them, lest some give up and others do not.
    optimizer.end_epoch({})
    assert optimizer.skipped == 20
    assert '20 gradients in a row' in str(optimizer.failure())
