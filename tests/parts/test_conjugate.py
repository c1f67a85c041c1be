"""Conjugate gradients, against direct solutions."""

import numpy as np
import pytest

from agents.parts import conjugate
from agents.tools.graph.backend import compiled, tf

wraps = pytest.mark.parametrize('wrap', [lambda f: f, compiled])


def random_matrix(size, condition):
    """A symmetric matrix whose eigenvalues are from 1 to a number."""
    rng = np.random.default_rng(0)
    turn, _ = np.linalg.qr(rng.normal(size=(size, size)))
    values = np.linspace(1, condition, size)
    return (turn * values @ turn.T).astype(np.float32)


@wraps
def test_two_steps_computed_by_hand(wrap):
    # A = diag(1, 3), b = (1, 1): the first step goes ½ along b, the second
    # arrives at (1, ⅓).
    def solve(steps):
        weigh = tf.constant([1.0, 3.0])
        function = wrap(lambda b: conjugate.solve(lambda x: weigh * x, b, steps))
        return function(tf.ones(2))

    np.testing.assert_allclose(solve(1), [0.5, 0.5], rtol=1e-6)
    np.testing.assert_allclose(solve(2), [1.0, 1 / 3], rtol=1e-6)
    np.testing.assert_allclose(solve(9), [1.0, 1 / 3], rtol=1e-6)


@wraps
@pytest.mark.parametrize('condition', [2, 50])
def test_as_a_direct_solution(wrap, condition):
    matrix = random_matrix(30, condition)
    vector = np.random.default_rng(1).normal(size=30).astype(np.float32)
    found = wrap(lambda b: conjugate.solve(lambda x: tf.linalg.matvec(matrix, x), b, 40))(
        tf.constant(vector)
    )
    expected = np.linalg.solve(matrix.astype(np.float64), vector)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@wraps
def test_nothing_is_found_for_zero(wrap):
    found = wrap(lambda b: conjugate.solve(lambda x: 2 * x, b, 5))(tf.zeros(3))
    assert found.numpy().tolist() == [0, 0, 0]
