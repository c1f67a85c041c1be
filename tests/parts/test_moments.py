"""Means and variances against those of NumPy in float64."""

import itertools

import numpy as np
import pytest

from agents.parts.moments import mean_and_variance
from agents.tools.graph.backend import compiled, tf

WAYS = {'eager': lambda f: f, 'graph': tf.function, 'compiled': compiled}
LEADS = (1, 1), (2, 1), (7, 5), (128, 1024)


@pytest.mark.parametrize('way', WAYS.values(), ids=WAYS)
@pytest.mark.parametrize('shape', [(), (3,)], ids=['number', 'vector'])
def test_far_from_zero_they_are_right(subtests, way, shape):
    find = way(lambda x: mean_and_variance(x, shape))
    rng = np.random.default_rng(0)
    for lead, offset in itertools.product(LEADS, (0, 3e4, -1e6)):
        values = np.float32(offset + rng.normal(size=(*lead, *shape)))
        mean, variance = find(tf.constant(values))
        exact = values.reshape(-1, *shape).astype(np.float64)
        with subtests.test(lead=lead, offset=offset):
            np.testing.assert_allclose(mean, exact.mean(0), rtol=1e-13, atol=1e-13)
            np.testing.assert_allclose(variance, exact.var(0), rtol=1e-9)
