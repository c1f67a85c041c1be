"""Kronecker factors against NumPy, and which layers there are some for."""

import itertools
import math

import numpy as np
import pytest

from agents.parts import distributions, kronecker, layers
from agents.tools import errors
from agents.tools.graph.backend import compiled, keras, tf


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def randomize(network, inputs):
    """Build a network, with biases that are not zero."""
    network(inputs)
    for seed, weight in enumerate(network.trainable_variables):
        weight.assign(normal(*weight.shape, seed=seed))


def measure(network, inputs, noise):
    """Blocks, factors and gradients where the last gradients are a noise."""
    blocks = kronecker.find_blocks(network)
    with tf.GradientTape(persistent=True) as tape:
        with kronecker.tapped(blocks):
            output = network(inputs)
        product = tf.reshape(output * noise, [len(inputs), -1])
        score = tf.reduce_mean(tf.reduce_sum(product, -1))
    factors = kronecker.measure(blocks, tape, score)
    slopes = [block.join(tape.gradient(score, block.variables)) for block in blocks]
    return blocks, factors, slopes


def with_one(a):
    return np.concatenate([a, np.ones((*a.shape[:-1], 1))], -1)


def naive_factors(a, g):
    """E[Σ aᵀa], E[Σ gᵀg] / places and E[Σ aᵀg], each of the rows in a loop."""
    rows, places = a.shape[:2]
    first = sum(np.outer(x, x) for row in a for x in row) / rows
    second = sum(np.outer(x, x) for row in g for x in row) / (rows * places)
    pairs = zip(a.reshape(rows * places, -1), g.reshape(rows * places, -1))
    return first, second, sum(np.outer(*pair) for pair in pairs) / rows


def assert_factors(found, slope, a, g):
    first, second, product = naive_factors(a, g)
    np.testing.assert_allclose(found[0], first, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[1], second, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(slope, product, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('bias', [True, False])
def test_product_of_factors_is_the_fisher_matrix_of_a_linear_network(bias):
    # Each row with each of four deviations, which are independent of it and
    # whose mean square is one, as that of all is.
    network = keras.Sequential([keras.layers.Dense(2, use_bias=bias)])
    observ = np.repeat(normal(5, 3), 4, 0)
    noise = np.tile(math.sqrt(2) * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]]), (5, 1))
    randomize(network, observ)
    std = 0.5
    (block,) = blocks = kronecker.find_blocks(network)
    with tf.GradientTape(persistent=True) as tape:
        with kronecker.tapped(blocks):
            mean = network(observ)
        policy = distributions.Gaussian(mean, tf.fill(mean.shape, math.log(std)))
        action = tf.stop_gradient(mean) + std * tf.constant(noise, tf.float32)
        score = tf.reduce_mean(policy.log_prob(action))
    ((first, second),) = kronecker.measure(blocks, tape, score)
    np.testing.assert_allclose(second, np.eye(2) / std**2, atol=1e-5)
    jacobian = tape.jacobian(mean, block.variables)
    jacobian = np.concatenate([np.reshape(j, [20, 2, -1]) for j in jacobian], -1)
    exact = np.einsum('rop,roq->pq', jacobian, jacobian) / 20 / std**2
    np.testing.assert_allclose(np.kron(first, second), exact, atol=1e-4)


def define_deep():
    return keras.Sequential(
        [keras.layers.Dense(4, 'tanh'), layers.Dense(3, 'sigmoid'), layers.Dense(2)]
    )


def test_factors_of_layers_behind_each_other():
    network, observ, noise = define_deep(), normal(7, 5), normal(7, 2, seed=9)
    randomize(network, observ)
    _, factors, slopes = measure(network, observ, noise)
    w1, b1, w2, b2, w3, _ = [w.numpy() for w in network.trainable_variables]
    first = np.tanh(observ @ w1 + b1)
    second = 1 / (1 + np.exp(-first @ w2 - b2))
    g3 = noise
    g2 = g3 @ w3.T * second * (1 - second)
    g1 = g2 @ w2.T * (1 - first**2)
    inputs, gradients = (observ, first, second), (g1, g2, g3)
    assert len(factors) == 3
    for found, slope, a, g in zip(factors, slopes, inputs, gradients):
        assert_factors(found, slope, with_one(a)[:, None], g[:, None])


def test_factors_of_parts_average_to_those_of_the_whole():
    network, observ, noise = define_deep(), normal(8, 5), normal(8, 2, seed=9)
    randomize(network, observ)
    _, whole, _ = measure(network, observ, noise)
    halves = [measure(network, observ[i::2], noise[i::2])[1] for i in (0, 1)]
    for one, two, both in zip(*halves, whole):
        for parts in zip(one, two, both):
            np.testing.assert_allclose((parts[0] + parts[1]) / 2, parts[2], atol=1e-5)


@pytest.mark.parametrize('kind', [keras.layers.Dense, layers.Dense])
def test_factors_of_a_dense_layer_at_several_places(kind):
    network = keras.Sequential([kind(3, 'tanh')])
    inputs, noise = normal(4, 2, 3, 5), normal(4, 2, 3, 3, seed=9)
    randomize(network, inputs)
    _, (factors,), (slope,) = measure(network, inputs, noise)
    g = noise * (1 - network(inputs).numpy() ** 2)
    a = with_one(inputs).reshape(4, 6, 6)
    assert_factors(factors, slope, a, g.reshape(4, 6, 3))


IMAGES = normal(3, 6, 5, 2)


def naive_patches(images, size, stride, same):
    """What a kernel is multiplied by, `[row, place, input]`."""
    pads, counts = [], []
    for length, width, step in zip(images.shape[1:3], size, stride):
        count = math.ceil(length / step) if same else (length - width) // step + 1
        missing = max((count - 1) * step + width - length, 0) if same else 0
        pads.append((missing // 2, missing - missing // 2))
        counts.append(count)
    images = np.pad(images, [(0, 0), *pads, (0, 0)])
    corners = itertools.product(range(counts[0]), range(counts[1]))
    patches = [
        images[:, i * stride[0] : i * stride[0] + size[0], j * stride[1] : j * stride[1] + size[1]]
        for i, j in corners
    ]
    return np.stack([p.reshape(len(images), -1) for p in patches], 1)


@pytest.mark.parametrize('bias', [True, False])
@pytest.mark.parametrize(
    'size, stride, padding',
    [
        ((2, 2), (1, 1), 'valid'),
        ((3, 2), (2, 1), 'valid'),
        ((3, 2), (1, 1), 'same'),
        ((3, 3), (2, 2), 'same'),
    ],
)
def test_factors_of_convolutions(size, stride, padding, bias):
    layer = keras.layers.Conv2D(3, size, stride, padding, activation='tanh', use_bias=bias)
    patches = naive_patches(IMAGES, size, stride, padding == 'same')
    assert_convolution(layer, patches, np.tanh, lambda x: 1 - np.tanh(x) ** 2)


def test_factors_of_our_convolutions():
    patches = naive_patches(IMAGES, (2, 2), (1, 1), False)
    layer = layers.Convolution(3, 2)
    assert_convolution(layer, patches, lambda x: x * (x > 0), lambda x: x > 0)


def assert_convolution(layer, patches, activation, slope):
    network = keras.Sequential([layer])
    randomize(network, IMAGES)
    kernel, *bias = [w.numpy() for w in network.trainable_variables]
    sums = patches @ kernel.reshape(-1, 3) + sum(bias)
    output = network(IMAGES).numpy()
    np.testing.assert_allclose(output.reshape(sums.shape), activation(sums), atol=1e-5)
    noise = normal(*output.shape, seed=9)
    _, (factors,), (product,) = measure(network, IMAGES, noise)
    a = with_one(patches) if bias else patches
    g = noise.reshape(sums.shape) * slope(sums)
    assert_factors(factors, product, a, g)


def test_splitting_is_the_inverse_of_joining():
    network = keras.Sequential(
        [keras.layers.Conv2D(3, 2), keras.layers.Flatten(), layers.GaussianHead(2, 1.0, 1.0)]
    )
    network(normal(1, 3, 3, 2))
    shapes = []
    for block in kronecker.find_blocks(network):
        parts = [normal(*v.shape, seed=i) for i, v in enumerate(block.variables)]
        matrix = block.join(parts)
        shapes.append(tuple(matrix.shape))
        assert shapes[-1] == (block.inputs, block.outputs)
        for part, again in zip(parts, block.split(matrix), strict=True):
            np.testing.assert_array_equal(part, again)
    assert sorted(shapes) == [(1, 2), (9, 3), (13, 2)]


def test_deviations_are_a_block_of_their_own():
    count, std = 40_000, 0.5
    network = keras.Sequential([layers.GaussianHead(2, 1.0, std)])
    observ = normal(count, 3)
    network(observ)
    blocks = kronecker.find_blocks(network)
    with tf.GradientTape() as tape, kronecker.tapped(blocks):
        output = network(observ)
        policy = distributions.Gaussian(*tf.split(output, 2, -1))
        mean = policy.mean + std * normal(count, 2, seed=1)
        score = tf.reduce_mean(policy.log_prob(tf.stop_gradient(mean)))
    factors = kronecker.measure(blocks, tape, score)
    found = {block.inputs: pair for block, pair in zip(blocks, factors)}
    assert sorted(found) == [1, 4]
    # E[(z² − 1)²] = 2 for ln σ, and E[(z / σ)²] = 1 / σ² for a mean.
    np.testing.assert_array_equal(found[1][0], [[1.0]])
    np.testing.assert_allclose(found[1][1], 2 * np.eye(2), atol=0.1)
    np.testing.assert_allclose(found[4][1], np.eye(2) / std**2, atol=0.1)


def test_inverses_computed_by_hand():
    # π = 2 and √λ = ½, so that 4 + 1 and 1 + ¼ are inverted.
    first, second = kronecker.invert(4 * tf.eye(3), tf.eye(2), 0.25)
    np.testing.assert_allclose(first, np.eye(3) / 5, rtol=1e-6)
    np.testing.assert_allclose(second, np.eye(2) / 1.25, rtol=1e-6)


@pytest.mark.parametrize('wrap', [lambda f: f, compiled], ids=['eager', 'xla'])
@pytest.mark.parametrize('rows', [20, 2], ids=['regular', 'singular'])
def test_inverses_against_numpy(rows, wrap):
    a, g = 100 * normal(rows, 5), 0.01 * normal(rows, 3, seed=1)
    a, g = (np.float64(x.T @ x / rows) for x in (a, g))
    # So little that 32 bits would not do.
    damping = 1e-8
    invert = wrap(lambda a, g: kronecker.invert(a, g, damping))
    found = invert(tf.constant(a, tf.float32), tf.constant(g, tf.float32))
    pi = math.sqrt(a.trace() / 5 / (g.trace() / 3))
    shares = pi * math.sqrt(damping), math.sqrt(damping) / pi
    for matrix, share, inverse in zip((a, g), shares, found):
        exact = np.linalg.inv(matrix + share * np.eye(len(matrix)))
        atol = 1e-4 * np.abs(exact).max()
        np.testing.assert_allclose(inverse, exact, rtol=1e-4, atol=atol)
        np.testing.assert_array_equal(inverse, tf.transpose(inverse))


@pytest.mark.parametrize('first, second', [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0)])
def test_factors_of_zeros_have_inverses(first, second):
    found = kronecker.invert(first * tf.eye(3), second * tf.eye(2), 0.01)
    assert all(np.isfinite(inverse).all() for inverse in found)
    # A product of them is at most 1 / λ.
    assert 0 < found[0][0, 0] * found[1][0, 0] < 100.1


class Again(keras.layers.Layer):
    """Applies a layer so many times."""

    def __init__(self, count):
        super().__init__()
        self._inner = keras.layers.Dense(3, name='odd')
        self._inner.build((1, 3))
        self._count = count

    def call(self, x):
        for _ in range(self._count):
            x = self._inner(x)
        return x


REFUSED = {
    'normalize': (keras.layers.LayerNormalization, {}, (4,)),
    'embedding': (keras.layers.Embedding, {'input_dim': 5, 'output_dim': 2}, (4,)),
    'groups': (
        keras.layers.Conv2D,
        {'filters': 4, 'kernel_size': 2, 'groups': 2},
        IMAGES.shape[1:],
    ),
    'depthwise': (keras.layers.DepthwiseConv2D, {'kernel_size': 2}, IMAGES.shape[1:]),
}


@pytest.mark.parametrize('kind, arguments, shape', REFUSED.values(), ids=REFUSED)
def test_other_layers_are_refused_by_name(kind, arguments, shape):
    network = keras.Sequential([kind(**arguments, name='odd'), layers.Dense(2)])
    network.build((1, *shape))
    with pytest.raises(errors.ConfigError, match="layer 'odd'"):
        kronecker.find_blocks(network)


def test_layers_that_are_not_trained_need_no_factors():
    network = keras.Sequential([keras.layers.LayerNormalization(trainable=False), layers.Dense(2)])
    network.build((1, 3))
    (block,) = kronecker.find_blocks(network)
    assert (block.inputs, block.outputs) == (4, 2)


def snapshot(network):
    parts = network._flatten_layers()
    return [
        (layer, 'call' in vars(layer), 'spread' in vars(layer), getattr(layer, 'activation', None))
        for layer in parts
    ]


@pytest.mark.parametrize('count', [0, 2])
def test_layers_that_are_not_applied_once_are_refused_by_name(count):
    network = keras.Sequential([Again(count), keras.layers.Dense(2)])
    network.build((1, 3))
    before = snapshot(network)
    with pytest.raises(errors.ConfigError, match=f"^The layer 'odd' is applied {count} times"):
        measure(network, normal(4, 3), normal(4, 2))
    assert snapshot(network) == before


@pytest.mark.parametrize('raises', [False, True])
def test_layers_are_afterwards_as_before(raises):
    network = keras.Sequential(
        [
            keras.layers.Conv2D(2, 2, activation='relu'),
            layers.Convolution(3, 2),
            keras.layers.Flatten(),
            keras.layers.Dense(3, keras.layers.LeakyReLU()),
            layers.GaussianHead(2, 1.0, 0.5),
        ]
    )
    images = normal(3, 4, 4, 1)
    output, before = network(images), snapshot(network)
    blocks = kronecker.find_blocks(network)
    try:
        with kronecker.tapped(blocks):
            assert snapshot(network) != before
            np.testing.assert_array_equal(network(images), output)
            if raises:
                raise ZeroDivisionError
    except ZeroDivisionError:
        assert raises
    assert snapshot(network) == before
    taken = [block.taken for block in blocks]
    np.testing.assert_array_equal(network(images), output)
    assert [block.taken for block in blocks] == taken
