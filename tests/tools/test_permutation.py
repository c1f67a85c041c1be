"""Orders found without sorting."""

import numpy as np
import pytest

from agents.tools import random
from agents.tools.backend import compiled, tf

# Squares, primes, powers of two and what lies beside them.
SIZES = [*range(1, 40), 64, 65, 127, 128, 1000, 1023, 1031, 4096, 10007, 131072]


def key(counter):
    return random.key(0, 'test', counter)


@pytest.mark.parametrize('size', SIZES)
def test_every_number_occurs_once(size):
    order = random.permutation(key(size), size)
    assert order.dtype == tf.int32
    np.testing.assert_array_equal(np.sort(order), np.arange(size))


@pytest.mark.parametrize('size', [12, 1031])
def test_compiled_is_like_eager(size):
    order = compiled(lambda key: random.permutation(key, size))(key(0))
    np.testing.assert_array_equal(order, random.permutation(key(0), size))


def test_order_repeats_with_the_key_and_differs_without():
    orders = [random.permutation(key(i), 64).numpy() for i in (0, 0, 1)]
    np.testing.assert_array_equal(orders[0], orders[1])
    assert (orders[0] != orders[2]).any()


def orders(size, count=2000):
    """Orders by as many keys, `[key, place]`."""

    @compiled
    def draw():
        return tf.map_fn(
            lambda counter: random.permutation(key(counter), size),
            tf.range(count),
        )

    return draw().numpy()


@pytest.mark.parametrize('size', [5, 16, 17])
def test_every_number_is_as_likely_in_every_place(size):
    drawn = orders(size)
    counts = (drawn[..., None] == np.arange(size)).sum(0)
    expected = len(drawn) / size
    error = np.sqrt(expected * (1 - 1 / size))
    assert (np.abs(counts - expected) < 5 * error).all()


@pytest.mark.parametrize('size', [3, 5, 7, 16, 17])
def test_neighbours_do_not_stay_together(size):
    # Next to each other, going round, in one of size − 1 cases. Fewer rounds
    # than would make all orders alike favour some, so within a factor of two.
    drawn = orders(size)
    together = (np.roll(drawn, -1, 1) - drawn) % size == 1
    assert 0.5 < together.mean() * (size - 1) < 2
