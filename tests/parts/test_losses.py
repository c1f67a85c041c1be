"""Losses and measures of fit, computed by hand."""

import numpy as np
import pytest

from agents.parts.losses import explained_variance, value_loss
from agents.tools.graph.backend import compiled, tf


def test_value_loss_computed_by_hand():
    # Half the mean of 1², 2², 3² and 0².
    value, target = tf.constant([1.0, 2, 3, 4]), tf.constant([2.0, 4, 0, 4])
    loss = value_loss(value, target, tf.zeros(4), None)
    np.testing.assert_allclose(loss, 0.5 * (1 + 4 + 9 + 0) / 4)


@pytest.mark.parametrize(
    ('value', 'target', 'expected'),
    [
        # Moved by 0.1 of the 0.5 that are allowed: (2 − 1.1)².
        (1.1, 2.0, 0.81),
        # Moved towards the target by 0.8, which counts as 0.5: (2 − 1.5)².
        (1.8, 2.0, 0.25),
        # Moved away by 1, which counts as it is, being worse: (2 − 0)².
        (0.0, 2.0, 4.0),
        # Moved down past the target: (0.9 − 0.1)², and kept at 0.5 (0.4)².
        (0.1, 0.9, 0.64),
    ],
)
def test_clipped_value_loss_computed_by_hand(value, target, expected):
    arguments = [tf.constant([x]) for x in (value, target, 1.0)]
    loss = value_loss(*arguments, 0.5)
    np.testing.assert_allclose(loss, 0.5 * expected, rtol=1e-5)


def test_clipped_value_loss_has_no_gradient_beyond_the_range():
    value = tf.constant([1.8, 1.1])
    with tf.GradientTape() as tape:
        tape.watch(value)
        loss = value_loss(value, tf.constant([2.0, 2]), tf.ones(2), 0.5)
    # Only the second counts: the mean of ½ (2 − v)² over two.
    gradient = tape.gradient(loss, value)
    np.testing.assert_allclose(gradient, [0, -0.45], rtol=1e-5)


def test_explained_variance_computed_by_hand():
    target = tf.constant([1.0, 2, 3, 4])
    assert abs(explained_variance(target, target) - 1) < 1e-6
    # An offset does not count, but a constant explains nothing.
    assert abs(explained_variance(target + 5, target) - 1) < 1e-6
    assert abs(explained_variance(tf.fill(4, 2.5), target)) < 1e-6
    # Errors of ±1 where the variance is 1¼.
    value = target + tf.constant([1.0, -1, -1, 1])
    assert abs(explained_variance(value, target) - (1 - 1 / 1.25)) < 1e-6


@pytest.mark.parametrize('wrap', [lambda f: f, tf.function, compiled])
def test_explained_variance_far_from_zero_is_as_in_float64(wrap):
    rng = np.random.default_rng(0)
    target = (1e6 + rng.normal(size=(128, 1024))).astype(np.float32)
    value = np.float32(0.5 * (target - 1e6))
    result = wrap(explained_variance)(tf.constant(value), tf.constant(target))
    exact = target.astype(np.float64)
    expected = 1 - np.var(exact - value) / np.var(exact)
    np.testing.assert_allclose(result, expected, atol=0.01)
