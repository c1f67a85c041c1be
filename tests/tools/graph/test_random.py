"""Draws are repeated by their key; the order of rows has its own file."""

import math

import numpy as np
import pytest

from agents.tools.graph import random
from agents.tools.graph.backend import compiled, tf

COUNT = 100_000


def test_key_repeats():
    assert random.key(1, 'a', 2).numpy().tolist() == (
        random.key(tf.constant(1), 'a', tf.constant(2, tf.int64)).numpy().tolist()
    )


def test_keys_differ_by_seed_purpose_and_counter():
    keys = {
        tuple(random.key(seed, purpose, counter).numpy().tolist())
        for seed in range(-3, 20)
        for purpose in ('action', 'reset', 'shuffle', 'actions')
        for counter in range(5)
    }
    assert len(keys) == 23 * 4 * 5


@pytest.mark.parametrize('draw', [random.normal, random.uniform])
@pytest.mark.parametrize('jit', [False, True], ids=['eager', 'compiled'])
def test_draws_repeat(draw, jit):
    # Either way in itself: to make a float of random bits, TensorFlow takes
    # the lower ones and XLA the upper ones.
    def by_counter(counter):
        return draw(random.key(0, 'test', counter), (50,))

    by_counter = compiled(by_counter) if jit else by_counter
    first, again, other = map(by_counter, tf.constant([0, 0, 1]))
    np.testing.assert_array_equal(first, again)
    assert not (first.numpy() == other.numpy()).any()


def test_normal():
    # The errors of the mean and of the second moment are √(1/n) and √(2/n).
    draws = random.normal(random.key(0, 'test', 0), (COUNT // 2, 2)).numpy()
    assert draws.shape == (COUNT // 2, 2) and draws.dtype == np.float32
    assert abs(draws.mean()) < 5 / math.sqrt(COUNT)
    assert abs((draws**2).mean() - 1) < 5 * math.sqrt(2 / COUNT)


def test_uniform():
    # The variance is 1/12.
    draws = random.uniform(random.key(0, 'test', 0), (COUNT,)).numpy()
    assert draws.min() >= 0 and draws.max() < 1
    assert abs(draws.mean() - 0.5) < 5 * math.sqrt(1 / 12 / COUNT)
    assert abs(draws.var() - 1 / 12) < 0.002


def test_neighbouring_keys_are_not_related():
    keys = [
        random.key(0, 'test', 0),
        random.key(1, 'test', 0),
        random.key(0, 'test', 1),
        random.key(0, 'tests', 0),
    ]
    draws = np.stack([random.normal(key, (COUNT,)) for key in keys])
    correlation = np.corrcoef(draws) - np.eye(4)
    assert np.abs(correlation).max() < 5 / math.sqrt(COUNT)
