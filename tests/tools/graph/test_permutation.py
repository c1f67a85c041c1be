"""Orders found without sorting."""

import math

import numpy as np
import pytest

from agents.tools.graph import random
from agents.tools.graph.backend import compiled, tf

# Squares, primes, powers of two and what lies beside them.
SIZES = [*range(1, 40), 64, 65, 127, 128, 1000, 1023, 1031, 4096, 10007, 131072]


def key(counter):
    return random.key(0, 'test', counter)


def test_every_number_occurs_once():
    for size in SIZES:
        order = random.permutation(key(size), size)
        assert order.dtype == tf.int32
        np.testing.assert_array_equal(np.sort(order), np.arange(size), str(size))


@pytest.mark.parametrize('size', [12, 1031])
def test_compiled_is_like_eager(size):
    order = compiled(lambda key: random.permutation(key, size))(key(0))
    np.testing.assert_array_equal(order, random.permutation(key(0), size))


def test_order_repeats_with_the_key_and_differs_without():
    orders = [random.permutation(key(i), 64).numpy() for i in (0, 0, 1)]
    np.testing.assert_array_equal(orders[0], orders[1])
    assert (orders[0] != orders[2]).any()


# Each limit is exceeded by chance in one of 10¹⁰ cases, and there are less than
# 10⁴, so that of a million right implementations less than one would fail.
RARE = math.log(1e10)
# Those that are ranked, those that are few enough to count all their orders
# and all pairs of numbers, and those that are not ranked, with digits alike
# and unlike.
RANKED = 2, 3, 4, 5, 6, 8, 17, 64, 128
MANY, MORE = (129, 512), (136, 157, 257)


def draw_orders(size, count=20_000):
    """Orders by as many keys, `[key, place]`."""

    @compiled
    def draw():
        return tf.map_fn(lambda counter: random.permutation(key(counter), size), tf.range(count))

    return draw().numpy()


def expect_uniform(cells, count):
    """Compare how often each of equally likely cells was hit, by χ².

    With d degrees of freedom it exceeds d + 2 √(d x) + 2 x with a probability
    below e⁻ˣ. Laurent and Massart 2000, Adaptive estimation of a quadratic
    functional by model selection, lemma 1.
    """
    hits = np.bincount(cells, minlength=count)
    freedom, expected = count - 1, len(cells) / count
    distance = ((hits - expected) ** 2 / expected).sum()
    assert distance <= freedom + 2 * math.sqrt(freedom * RARE) + 2 * RARE


def pair_cells(first, second, size):
    """Number the pairs of numbers that differ, of which there are s (s − 1)."""
    return first * (size - 1) + second - (second > first)


def require_orders_alike(orders, size):
    digits = orders * size ** np.arange(size)
    _, cells = np.unique(digits.sum(1), return_inverse=True)
    expect_uniform(cells, math.factorial(size))


def require_places_alike(orders, size):
    """Require that every number is as likely in every place."""
    for numbers in orders.T:
        expect_uniform(numbers, size)


def require_no_number_to_come_first(orders, size):
    """Require that either of two numbers is as likely to be the first."""
    drawn = orders[: 1_000_000 // size]
    before = sum(row[:, None] < row[None, :] for row in drawn)
    share = before[np.triu_indices(size, 1)] / len(drawn)
    # Hoeffding's inequality, for all pairs.
    surprise = math.log(2 * len(share)) + RARE
    assert np.abs(share - 0.5).max() <= math.sqrt(surprise / 2 / len(drawn))


def require_pairs_alike(orders, size):
    """Require that two numbers are as likely in any two places."""
    for distance in {min(distance, size - 1) for distance in (1, 4, 8)}:
        pairs = pair_cells(orders[:, 0], orders[:, distance], size)
        expect_uniform(pairs, size * (size - 1))


def require_successors_alike(orders, size):
    """Require that every number is as likely to follow another."""
    rows = np.arange(len(orders))
    place = rows % (size - 1)
    first, second = orders[rows, place], orders[rows, place + 1]
    expect_uniform(pair_cells(first, second, size), size * (size - 1))


def require_distances_alike(drawn, size):
    """Require that neighbours are as likely at any distance."""
    # One pair of each order, as those of the same depend on each other. Where
    # a network is too simple, rows of its digits move together.
    rows = np.arange(len(drawn))
    for gap in {1, random._digits(size)[1]}:
        now, then = rows % size, (rows + gap) % size
        distance = (drawn[rows, then] - drawn[rows, now]) % size
        expect_uniform(distance - 1, size - 1)


def require_distances_of_places_alike(orders, size):
    require_distances_alike(orders.argsort(1), size)


@pytest.mark.parametrize(
    'size', [*RANKED, *MANY, *(pytest.param(n, marks=pytest.mark.slow) for n in MORE)]
)
def test_all_orders_are_as_likely(subtests, size):
    orders = draw_orders(size)
    expected = [require_places_alike, require_no_number_to_come_first]
    if size <= 6:
        expected += [require_orders_alike]
    if size <= 64:
        expected += [require_pairs_alike, require_successors_alike]
    if size > 2:
        expected += [require_distances_alike, require_distances_of_places_alike]
    for require in expected:
        with subtests.test(require.__name__):
            require(orders, size)
