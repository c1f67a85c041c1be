"""Means and variances against those of NumPy in float64."""

import numpy as np
import pytest

from agents.parts.moments import mean_and_variance
from agents.tools.graph.backend import compiled, tf

WAYS = {'eager': lambda f: f, 'graph': tf.function, 'compiled': compiled}


@pytest.mark.parametrize('way', WAYS.values(), ids=WAYS)
@pytest.mark.parametrize('offset', [0, 3e4, -1e6])
@pytest.mark.parametrize('lead', [(1, 1), (2, 1), (7, 5), (128, 1024)])
@pytest.mark.parametrize('shape', [(), (3,)], ids=['number', 'vector'])
def test_far_from_zero_they_are_right(way, offset, lead, shape):
    rng = np.random.default_rng(0)
    values = (offset + rng.normal(size=(*lead, *shape))).astype(np.float32)
    mean, variance = way(lambda x: mean_and_variance(x, shape))(
        tf.constant(values)
    )
    exact = values.reshape(-1, *shape).astype(np.float64)
    np.testing.assert_allclose(mean, exact.mean(0), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(variance, exact.var(0), rtol=1e-9)
