"""Products of matrices and their gradients, against NumPy."""

import numpy as np
import pytest

from agents.parts import layers
from agents.tools.graph.backend import compiled, keras, tf

ROWS = 7


@pytest.fixture(params=['eager', 'compiled'])
def run(request):
    return (lambda f: f) if request.param == 'eager' else compiled


@pytest.mark.parametrize('width', [1, 5, 20])
@pytest.mark.parametrize('columns', [1, 2, 3, 4, 16, 17])
def test_product_and_gradients(run, width, columns):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, width)).astype(np.float32)
    w = rng.normal(size=(width, columns)).astype(np.float32)
    d = rng.normal(size=(ROWS, columns)).astype(np.float32)

    @run
    def differentiate(x, w):
        with tf.GradientTape() as tape:
            tape.watch((x, w))
            value = layers.product(x, w)
            loss = tf.reduce_sum(value * d)
        return value, *tape.gradient(loss, (x, w))

    found = differentiate(tf.constant(x), tf.constant(w))
    for value, expected in zip(found, (x @ w, d @ w.T, x.T @ d), strict=True):
        np.testing.assert_allclose(value, expected, 1e-4, 1e-5)


@pytest.mark.parametrize('columns', [1, 2, 12])
def test_second_derivatives(run, columns):
    # Of Σ (X W)² / 2 by W it is Xᵀ X W; by W again, times V, it is Xᵀ X V.
    rng = np.random.default_rng(1)
    x = rng.normal(size=(ROWS, 12)).astype(np.float32)
    w, v = rng.normal(size=(2, 12, columns)).astype(np.float32)

    @run
    def differentiate(w):
        with tf.GradientTape() as outer:
            outer.watch(w)
            with tf.GradientTape() as inner:
                inner.watch(w)
                values = layers.product(tf.constant(x), w)
                loss = tf.reduce_sum(values**2) / 2
            slope = tf.reduce_sum(inner.gradient(loss, w) * v)
        return outer.gradient(slope, w)

    found = differentiate(tf.constant(w))
    np.testing.assert_allclose(found, x.T @ x @ v, 1e-4, 1e-4)


@pytest.mark.parametrize('shape', [(ROWS, 4), (2, ROWS, 4)])
def test_dense_layer_is_that_of_keras(shape):
    mine = layers.Dense(3, 'tanh')
    theirs = keras.layers.Dense(3, 'tanh')
    inputs = tf.random.normal(shape)
    mine.build(shape)
    theirs.build(shape)
    theirs.set_weights([np.ones((4, 3)), np.arange(3.0)])
    mine.set_weights(theirs.get_weights())
    np.testing.assert_allclose(mine(inputs), theirs(inputs), 1e-5)
