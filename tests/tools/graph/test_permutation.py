"""Orders found without sorting."""

import functools
import math

import numpy as np
import pytest

from agents.tools.graph import random
from agents.tools.graph.backend import compiled, tf

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


# Each limit is exceeded by chance in one of 10¹⁰ cases, and there are less than
# 10⁴, so that of a million right implementations less than one would fail.
RARE = math.log(1e10)
# Those that are ranked and those that are not, with digits alike and unlike.
FEW, MANY = [2, 3, 8, 17, 64, 128], [129, 136, 157, 257, 512]


@functools.cache
def orders(size, count=20_000):
    """Orders by as many keys, `[key, place]`."""

    @compiled
    def draw():
        return tf.map_fn(
            lambda counter: random.permutation(key(counter), size),
            tf.range(count),
        )

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


@pytest.mark.parametrize('size', [2, 3, 4, 5, 6])
def test_every_order_is_as_likely(size):
    digits = orders(size) * size ** np.arange(size)
    _, cells = np.unique(digits.sum(1), return_inverse=True)
    expect_uniform(cells, math.factorial(size))


@pytest.mark.parametrize('size', [*FEW, *MANY])
def test_every_number_is_as_likely_in_every_place(size):
    for numbers in orders(size).T:
        expect_uniform(numbers, size)


@pytest.mark.parametrize('size', [*FEW, *MANY])
def test_either_of_two_numbers_is_as_likely_to_be_first(size):
    drawn = orders(size)[: 1_000_000 // size]
    before = sum(row[:, None] < row[None, :] for row in drawn)
    share = before[np.triu_indices(size, 1)] / len(drawn)
    # Hoeffding's inequality, for all pairs.
    surprise = math.log(2 * len(share)) + RARE
    assert np.abs(share - 0.5).max() <= math.sqrt(surprise / 2 / len(drawn))


@pytest.mark.parametrize('size', [2, 3, 8, 17, 64])
@pytest.mark.parametrize('distance', [1, 4, 8])
def test_two_numbers_are_as_likely_in_any_two_places(size, distance):
    drawn, other = orders(size), min(distance, size - 1)
    expect_uniform(
        pair_cells(drawn[:, 0], drawn[:, other], size), size * (size - 1)
    )


@pytest.mark.parametrize('size', [2, 3, 8, 17, 64])
def test_every_number_is_as_likely_to_follow_another(size):
    rows = np.arange(len(orders(size)))
    place = rows % (size - 1)
    first, second = orders(size)[rows, place], orders(size)[rows, place + 1]
    expect_uniform(pair_cells(first, second, size), size * (size - 1))


@pytest.mark.parametrize('size', [*FEW[1:], *MANY])
@pytest.mark.parametrize('inverse', [False, True], ids=['numbers', 'places'])
def test_neighbours_are_as_likely_at_any_distance(size, inverse):
    # One pair of each order, as those of the same depend on each other. Where
    # a network is too simple, rows of its digits move together.
    drawn = orders(size).argsort(1) if inverse else orders(size)
    rows = np.arange(len(drawn))
    for gap in {1, random._digits(size)[1]}:
        now, then = rows % size, (rows + gap) % size
        distance = (drawn[rows, then] - drawn[rows, now]) % size
        expect_uniform(distance - 1, size - 1)
