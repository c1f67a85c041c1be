"""Gradients of means over rows, in parts and of several ranks."""

import numpy as np
import pytest

from agents.parts import gradients
from agents.tools.graph.backend import compiled, keras, tf
from agents.tools.graph.communicator import Communicator
from agents.tools.graph.flat import Weights

EACH_WAY = pytest.mark.parametrize('how', [lambda f: f, compiled], ids=['eager', 'xla'])
ROWS = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
START = np.float32([1, -2, 0.5])


def model():
    return [tf.Variable(START[:2], name='kernel'), tf.Variable(START[2])]


def cubes(variables):
    """A loss with gradients of gradients, and statistics of the rows."""

    def loss(rows):
        kernel, bias = variables
        weights = tf.concat([kernel, bias[None]], 0)
        return {
            'loss': tf.reduce_mean(tf.reduce_sum(rows * weights**3, -1)),
            'size': float(rows.shape[0]),
            'statistics': [tf.matmul(rows, rows, True) / rows.shape[0]],
        }

    return loss


@EACH_WAY
@pytest.mark.parametrize(
    ('part_rows', 'size'), [(None, 12), (12, 12), (100, 12), (6, 6), (5, 4), (1, 1)]
)
def test_parts_have_the_gradient_and_statistics_of_the_whole(how, part_rows, size):
    variables = model()
    weights = Weights(variables)

    def compute(rows):
        return gradients.of_rows(cubes(variables), weights, rows, part_rows)

    gradient, means = how(compute)(tf.constant(ROWS))
    np.testing.assert_allclose(gradient, 3 * START**2 * ROWS.mean(0), rtol=1e-4, atol=1e-6)
    assert means['size'] == size  # The largest divisor there is.
    np.testing.assert_allclose(means['loss'], ROWS.mean(0) @ START**3, rtol=1e-4)
    np.testing.assert_allclose(
        means['statistics'][0], ROWS.T @ ROWS / len(ROWS), rtol=1e-4, atol=1e-6
    )


@EACH_WAY
@pytest.mark.parametrize('part_rows', [None, 4])
def test_gradients_of_gradients_in_parts(how, part_rows):
    variables = model()
    weights, vector = Weights(variables), tf.constant([1.0, 2, 3])

    def multiply(rows):
        """The product of the matrix of second derivatives and a vector."""
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                loss = cubes(variables)(rows)['loss']
            product = tf.reduce_sum(weights.gradient(inner, loss) * vector)
        return weights.gradient(outer, product)

    result = how(lambda rows: gradients.mean_of_parts(multiply, rows, part_rows))(tf.constant(ROWS))
    expected = 6 * START * ROWS.mean(0) * vector
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-6)


class Doubling(Communicator):
    """Pretends that another rank has three times the numbers of this one."""

    size = 2

    def mean(self, nest):
        return tf.nest.map_structure(lambda x: 2 * x, nest)


def test_all_that_comes_along_is_averaged_over_ranks():
    variables = model()
    arguments = cubes(variables), Weights(variables), tf.constant(ROWS), 4
    alone = gradients.of_rows(*arguments)
    both = gradients.of_rows(*arguments, Doubling())
    for one, other in zip(tf.nest.flatten(alone), tf.nest.flatten(both), strict=True):
        np.testing.assert_allclose(2 * one, other)


@EACH_WAY
def test_useless_gradients_are_counted_and_their_weight_is_named(how):
    weights = Weights(model())
    useless = gradients.NonFiniteGuard(weights)
    count = how(lambda g: useless.count(g, tf.norm(g)))
    for position, name in ((0, 'kernel'), (1, 'kernel'), (2, 'Variable')):
        gradient = np.ones(3, np.float32)
        gradient[position] = 1e30  # Whose square is infinite.
        assert not count(tf.constant(gradient))
        assert useless.culprit().startswith(name)
        assert useless.skipped == position + 1
    assert count(tf.ones(3))
    assert useless.skipped == 0


def test_weights_are_named_as_in_the_network():
    network = keras.Sequential([keras.layers.Dense(3, name='thought')])
    network(tf.zeros((1, 2)))
    useless = gradients.NonFiniteGuard(Weights(network.trainable_variables))
    useless.count(tf.fill([9], np.nan), tf.constant(np.nan))
    assert useless.culprit() == network.trainable_variables[0].path
