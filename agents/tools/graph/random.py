"""Counter-based random numbers, without hidden state.

A number depends on the seed of the run, the purpose and a counter, so that runs repeat and resume
bit for bit.
"""

import math
import zlib

from agents.tools.graph.backend import tf

# Takes neighbouring seeds far apart: an odd number, 2³² over the golden ratio.
SPREAD = 0x9E3779B1 - 2**32

# How far apart the seeds of two ranks are: further than seeds that are tried.
RANK_SEEDS = 1_000_003

# Up to so many numbers are permuted by comparing each to each, which is exact.
# Beyond, where that takes longer than is negligible, as many rounds of a
# network as are needed to find nothing that is more likely than it should be.
MOST_RANKED = 128
ROUNDS = 10


def seed_of(seed: int, rank: int = 0) -> int:
    """Return the 32-bit seed of a rank; different for each rank."""
    return (seed + rank * RANK_SEEDS) % 2**31


def key(seed: tf.Tensor | int, purpose: str, counter: tf.Tensor | int) -> tf.Tensor:
    """Return the key of a draw, for the functions below.

    Args:
        seed: Seed of the run, from a variable, so that compiled programs serve other seeds too.
        purpose: Name of what is drawn, unique in the project.
        counter: Integer that is never used twice for the purpose.
    """
    stream = zlib.crc32(purpose.encode()) & 0x7FFFFFFF
    mixed = tf.cast(seed, tf.int32) * tf.constant(SPREAD) + stream
    return tf.stack([mixed, tf.cast(counter, tf.int32)])


def normal(key: tf.Tensor, shape: tuple[int, ...]) -> tf.Tensor:
    """Sample the standard normal distribution.

    By the inverse of its distribution function, √2 erf⁻¹(2u − 1).
    """
    # The middle of one of 2²³ equal parts of (-1, 1), so never an end of it.
    centered = (_fraction(key, shape) + 0.5) * 2.0**-22 - 1.0
    return math.sqrt(2.0) * tf.math.erfinv(centered)


def uniform(key: tf.Tensor, shape: tuple[int, ...]) -> tf.Tensor:
    """Sample the uniform distribution over [0, 1)."""
    return _fraction(key, shape) * 2.0**-23


def permutation(key: tf.Tensor, size: int) -> tf.Tensor:
    """Return the numbers 0 to size - 1 in random order, without sorting."""
    if size <= MOST_RANKED:
        return _ranks(_bits(key, size))
    return _shuffled(key, size)


def _ranks(numbers: tf.Tensor) -> tf.Tensor:
    """Return the number of smaller elements for each of some distinct numbers."""
    smaller = numbers[:, None] < numbers[None, :]
    return tf.reduce_sum(tf.cast(smaller, tf.int32), 0)


def _shuffled(key: tf.Tensor, size: int) -> tf.Tensor:
    """Permutation by a Feistel network.

    Maps each index to its place independently: written as two digits (l, r), each round shifts one
    digit by a hash of the other,

        l ← l + h₁(r),  r ← r + h₂(l),  l ← l + h₃(r),  r ← r + h₄(l), ...

    modulo the base of the digit, which is invertible and thus a bijection. If the digits can
    represent more numbers than needed, results outside are mapped again until they are inside.
    Sorting random numbers takes fifty times as long (Luby and Rackoff 1988; Black and Rogaway 2002
    for cycle walking).
    """
    high, low = _digits(size)
    keys = tf.unstack(_bits(key, ROUNDS))

    def shuffle(index: tf.Tensor) -> tf.Tensor:
        left, right = index // low, index % low
        for first, second in zip(keys[::2], keys[1::2], strict=True):
            left = (left + _hash(right, first) % high) % high
            right = (right + _hash(left, second) % low) % low
        return left * low + right

    place = shuffle(tf.cast(tf.range(size), tf.uint32))
    if high * low > size:
        (place,) = tf.while_loop(
            lambda place: tf.reduce_any(place >= size),
            lambda place: (tf.where(place >= size, shuffle(place), place),),
            [place],
        )
    return tf.cast(place, tf.int32)


def _digits(size: int) -> tuple[int, int]:
    """Return two bases of similar size whose product is at least the size.

    The more they differ, the more rounds are needed.
    """
    root = math.isqrt(size - 1) + 1
    for high in range(root, root // 2, -1):
        if size % high == 0:
            return high, size // high
    return root, -(-size // root)


def _fraction(key: tf.Tensor, shape: tuple[int, ...]) -> tf.Tensor:
    """Return integers below 2²³ as floats, which represent their halves exactly."""
    bits = _bits(key, math.prod(shape))
    upper = tf.bitwise.right_shift(bits, tf.constant(9, tf.uint32))
    return tf.reshape(tf.cast(upper, tf.float32), shape)


def _bits(key: tf.Tensor, count: int) -> tf.Tensor:
    """Return random 32-bit integers, by hashing their index with both parts of a key.

    All integers of a key differ, as the hash is invertible.

    The generator of TensorFlow takes fifty times as long when compiled for the processor. Salmon et
    al. 2011, Parallel random numbers: as easy as 1, 2, 3, on counter-based generators.
    """
    first, second = tf.unstack(tf.bitcast(key, tf.uint32))
    numbers = tf.cast(tf.range(count), tf.uint32)
    # The keys of two draws may differ by one, and then have nothing in common.
    start = _hash(first, tf.constant(0x9E3779B1, tf.uint32))
    return _hash(_hash(numbers, start), second)


def _hash(value: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
    """Mix the bits of 32-bit integers with the finalizer of MurmurHash3."""
    value = (value ^ key) * tf.constant(0x9E3779B1, tf.uint32)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        value = value ^ tf.bitwise.right_shift(value, tf.constant(shift, tf.uint32))
        value = value * tf.constant(factor, tf.uint32)
    return value ^ tf.bitwise.right_shift(value, tf.constant(16, tf.uint32))
