"""Natural gradient steps: their direction, their length, and failures."""

import math

import numpy as np
import pytest

from agents.parts import kronecker, layers
from agents.parts.gradients import MAX_SKIPPED
from agents.parts.natural import Kronecker
from agents.tools import nested
from agents.tools.graph import weights
from agents.tools.graph.backend import compiled, keras, tf

DAMPING = 0.01


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def linear(inputs=3, outputs=2, kind=layers.Dense):
    network = keras.Sequential([kind(outputs)])
    network.build((1, inputs))
    for seed, weight in enumerate(network.trainable_variables):
        weight.assign(normal(*weight.shape, seed=seed))
    return network


def make_rows(count=8, seed=0):
    """Inputs and targets, and a noise with what might have been put out."""
    return {
        'x': normal(count, 3, seed=seed),
        'y': normal(count, 2, seed=seed + 1),
        'noise': normal(count, 2, seed=seed + 2),
    }


def define(network, **changes):
    settings = {
        'learning_rate': 0.1,
        'max_kl': 1e6,
        'damping': DAMPING,
        'decay': 0.9,
        'inverse_every': 1,
        'cold_steps': 0,
    }
    return Kronecker(network, **{**settings, **changes})


def squares(network):
    """½ E[(y − f(x))²], for normal distributions of deviation one."""

    def loss(rows):
        output = network(rows['x'])
        error = tf.reduce_sum((rows['y'] - output) ** 2, -1)
        score = tf.reduce_sum(rows['noise'] * output, -1)
        return {'loss': 0.5 * tf.reduce_mean(error), 'score': tf.reduce_mean(score)}

    return loss


def minimize(optimizer, network, rows, *args):
    rows = nested.map(tf.convert_to_tensor, rows)
    return optimizer.minimize(squares(network), rows, *args)


def step(optimizer, network, rows, *args):
    """Take a step; returns what was subtracted from the weights."""
    before = read(network)
    minimize(optimizer, network, rows, *args)
    return before - read(network)


def read(network):
    """The weights of a linear network, those of the bias in the last row."""
    kernel, bias = [w.numpy() for w in network.trainable_variables]
    return np.concatenate([kernel, bias[None]], 0)


def extend(rows):
    return np.pad(rows['x'], [(0, 0), (0, 1)], constant_values=1)


def slope(network, rows):
    """The gradient for a linear network."""
    a = extend(rows)
    return a.T @ (a @ read(network) - rows['y']) / len(a)


def factors(rows):
    a, g = extend(rows), rows['noise']
    return a.T @ a / len(a), g.T @ g / len(g)


def inverses(rows, damping=DAMPING):
    first, second = factors(rows)
    pi = math.sqrt(np.trace(first) / len(first) * len(second) / np.trace(second))
    first = first + pi * math.sqrt(damping) * np.eye(len(first))
    second = second + math.sqrt(damping) / pi * np.eye(len(second))
    return np.linalg.inv(first), np.linalg.inv(second)


def natural(network, rows):
    first, second = inverses(rows)
    return first @ slope(network, rows) @ second


@pytest.mark.parametrize('kind', [layers.Dense, keras.layers.Dense])
def test_step_is_along_the_natural_gradient(kind):
    network, rows = linear(kind=kind), make_rows()
    expected = 0.1 * natural(network, rows)
    change = step(define(network), network, rows)
    np.testing.assert_allclose(change, expected, rtol=1e-3, atol=1e-5)


def test_step_is_as_long_as_the_learning_rate_and_its_scale():
    network, rows = linear(), make_rows()
    expected = 0.25 * 0.1 * natural(network, rows)
    change = step(define(network), network, rows, 0.25)
    np.testing.assert_allclose(change, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize('max_kl', [1e-3, 1e-6])
@pytest.mark.parametrize('rate', [1.0, 1e6])
def test_divergence_of_a_step_is_bounded(max_kl, rate):
    network, rows = linear(), make_rows()
    direction = natural(network, rows)
    # With F⁻¹ for the curvature, uᵀFu = ∇ᵀF⁻¹∇.
    square = np.sum(direction * slope(network, rows))
    optimizer = define(network, max_kl=max_kl, learning_rate=rate)
    change = step(optimizer, network, rows)
    length = np.linalg.norm(change) / np.linalg.norm(direction)
    np.testing.assert_allclose(change, length * direction, rtol=1e-2, atol=1e-6)
    np.testing.assert_allclose(0.5 * length**2 * square, max_kl, rtol=1e-2)


def test_unit_factors_leave_the_gradient_as_it_is():
    network = keras.Sequential(
        [
            keras.layers.Conv2D(2, (3, 2), 2),
            layers.Convolution(3, 2),
            keras.layers.Flatten(),
            layers.Dense(4, 'tanh', use_bias=False),
            layers.GaussianHead(2, 1.0, 0.5),
        ]
    )
    network.build((1, 7, 6, 2))
    optimizer = define(network)
    gradient = normal(optimizer._weights.size)
    np.testing.assert_array_equal(optimizer._precondition(gradient), gradient)


@pytest.mark.parametrize('max_norm, kept', [(None, 1.0), (9e9, 1.0), (0.5, 0.5)])
def test_first_steps_are_along_the_clipped_gradient(max_norm, kept):
    network, rows = linear(), make_rows()
    optimizer = define(network, cold_steps=2, max_norm=max_norm, max_kl=1e-9)
    for _ in range(2):
        gradient = slope(network, rows)
        if max_norm == 0.5:
            gradient /= np.linalg.norm(gradient)
        change = step(optimizer, network, rows)
        np.testing.assert_allclose(change, 0.1 * kept * gradient, atol=1e-6)
    direction = natural(network, rows)
    change = step(optimizer, network, rows)
    ratio = change / direction
    np.testing.assert_allclose(ratio, np.full((4, 2), ratio.mean()), rtol=0.05)


def test_norm_is_that_before_clipping():
    network, rows = linear(), make_rows()
    norm = np.linalg.norm(slope(network, rows))
    optimizer = define(network, cold_steps=1, max_norm=1e-3)
    metrics = minimize(optimizer, network, rows)
    np.testing.assert_allclose(metrics['gradient_norm'], norm, rtol=1e-5)
    assert metrics.keys() == {'loss', 'gradient_norm'}


def test_momentum_takes_the_last_step_once_more():
    network, rows = linear(), make_rows()
    optimizer = define(network, cold_steps=1, momentum=0.5)
    first = step(optimizer, network, rows)
    expected = 0.5 * first + 0.1 * natural(network, rows)
    second = step(optimizer, network, rows)
    np.testing.assert_allclose(second, expected, rtol=1e-3, atol=1e-5)
    expected = 0.5 * second + 0.1 * natural(network, rows)
    third = step(optimizer, network, rows)
    np.testing.assert_allclose(third, expected, rtol=1e-3, atol=1e-5)


def test_factors_are_running_means():
    # The first four are averaged alike, then a quarter of each is taken in.
    network = linear()
    optimizer = define(network, decay=0.75, inverse_every=100)
    batches = [make_rows(seed=10 * seed) for seed in range(6)]
    expected = [0.0, 0.0]
    for count, rows in enumerate(batches, 1):
        part = max(1 / count, 0.25)
        pairs = zip(expected, factors(rows))
        expected = [(1 - part) * old + part * new for old, new in pairs]
        step(optimizer, network, rows)
        ((first, second),) = optimizer._factors
        np.testing.assert_allclose(first, expected[0], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(second, expected[1], rtol=1e-4, atol=1e-5)


def snapshot(optimizer):
    pairs = [*optimizer._factors, *optimizer._inverses]
    return np.concatenate([v.numpy().ravel() for pair in pairs for v in pair])


def test_factors_are_inverted_now_and_then():
    network = linear()
    optimizer = define(network, inverse_every=3)
    for count in range(7):
        before = optimizer._inverses[0][0].numpy()
        step(optimizer, network, make_rows(seed=10 * count))
        changed = (optimizer._inverses[0][0].numpy() != before).any()
        assert changed == (count % 3 == 0)


@pytest.mark.parametrize('number', [math.nan, math.inf, 1e30])
@pytest.mark.parametrize('where', ['x', 'y'])
@pytest.mark.parametrize('cold_steps', [0, 9])
def test_useless_gradient_changes_nothing(number, where, cold_steps):
    network, rows = linear(), make_rows()
    optimizer = define(network, cold_steps=cold_steps, momentum=0.5, inverse_every=2)
    # After which it is time to invert the factors.
    step(optimizer, network, make_rows(seed=10))
    last = step(optimizer, network, rows)
    kept = snapshot(optimizer)
    useless = {**rows, where: np.full_like(rows[where], number)}
    for count in (1, 2):
        change = step(optimizer, network, useless)
        np.testing.assert_array_equal(change, np.zeros_like(change))
        assert optimizer.skipped == count
    np.testing.assert_array_equal(snapshot(optimizer), kept)
    told = optimizer.summary('it')['steps/it']
    np.testing.assert_allclose(told, last.ravel(), atol=1e-6)
    assert optimizer._step == 2
    assert np.abs(step(optimizer, network, rows)).max() > 0
    assert optimizer.skipped == 0


def test_too_many_useless_gradients_are_told_of():
    network, rows = linear(), make_rows()
    rows['y'] *= math.nan
    optimizer = define(network)
    for _ in range(MAX_SKIPPED - 1):
        step(optimizer, network, rows)
    assert optimizer.failure() is None
    step(optimizer, network, rows)
    assert f'{MAX_SKIPPED} gradients in a row' in str(optimizer.failure())
    assert 'kernel' in str(optimizer.failure())


def test_factor_that_is_no_number_is_not_taken_in():
    network, rows = linear(), make_rows()
    optimizer = define(network)
    step(optimizer, network, rows)
    ((_, before),) = [[v.numpy() for v in p] for p in optimizer._factors]
    rows['noise'] *= math.nan
    expected = 0.1 * natural(network, make_rows())
    change = step(optimizer, network, rows)
    np.testing.assert_allclose(change, expected, rtol=1e-3, atol=1e-5)
    np.testing.assert_array_equal(optimizer._factors[0][1], before)
    assert optimizer.skipped == 0


def test_inverses_that_are_no_numbers_are_not_used(monkeypatch):
    network, rows = linear(), make_rows()
    optimizer = define(network)
    step(optimizer, network, rows)
    before = [v.numpy() for v in optimizer._inverses[0]]
    monkeypatch.setattr(kronecker, 'invert', lambda a, g, damping: (a * math.nan, g / 0.0))
    expected = 0.1 * natural(network, rows)
    change = step(optimizer, network, rows)
    np.testing.assert_allclose(change, expected, rtol=1e-3, atol=1e-5)
    for old, new in zip(before, optimizer._inverses[0], strict=True):
        np.testing.assert_array_equal(new, old)


def least_squares():
    """Inputs whose scales are far apart, and outputs that can be explained."""
    x = normal(64, 3) * np.array([1.0, 30.0, 0.05], np.float32)
    y = x / x.std(0) @ normal(3, 2, seed=7) + 1
    return {**make_rows(64), 'x': x, 'y': y}


def test_natural_gradients_converge_in_few_steps():
    network, rows = linear(), least_squares()
    optimizer = define(network, learning_rate=1.0, damping=1e-6)
    first = minimize(optimizer, network, rows)['loss']
    for _ in range(6):
        last = minimize(optimizer, network, rows)['loss']
    assert last < 1e-3 * first


def test_plain_gradients_of_the_same_problem_do_not():
    network, rows = linear(), least_squares()
    # As long as steps can be without that they diverge.
    rate = 1 / np.linalg.eigvalsh(factors(rows)[0]).max()
    optimizer = define(network, learning_rate=rate, cold_steps=100)
    minimize(optimizer, network, rows)
    second = minimize(optimizer, network, rows)['loss']
    for _ in range(50):
        last = minimize(optimizer, network, rows)['loss']
    assert 0.5 * second < last < second


def define_deep():
    network = keras.Sequential([layers.Dense(4, 'tanh'), layers.Dense(3, 'tanh'), layers.Dense(2)])
    network.build((1, 3))
    for seed, weight in enumerate(network.trainable_variables):
        weight.assign(normal(*weight.shape, seed=seed))
    return network


@pytest.mark.parametrize(
    'wrap',
    [
        pytest.param(lambda f: f, id='eager'),
        pytest.param(compiled, id='xla', marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize('part_rows', [None, 4])
def test_parts_of_rows_are_like_the_whole(wrap, part_rows):
    network, other = define_deep(), define_deep()
    one, two = define(network), define(other)
    run = wrap(lambda rows: minimize(one, network, rows, 1.0, part_rows))
    for seed in (0, 10):
        means = run(make_rows(12, seed=seed))
        expected = minimize(two, other, make_rows(12, seed=seed))
        np.testing.assert_allclose(means['loss'], expected['loss'], rtol=1e-4)
    pairs = zip(network.trainable_variables, other.trainable_variables)
    for mine, others in pairs:
        np.testing.assert_allclose(mine, others, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(snapshot(one), snapshot(two), rtol=1e-3, atol=1e-3)


def test_weights_and_last_step_are_told():
    network, rows = linear(), make_rows()
    optimizer = define(network)
    change = step(optimizer, network, rows)
    told = optimizer.summary('it')
    np.testing.assert_array_equal(told['weights/it'], read(network).ravel())
    np.testing.assert_allclose(told['steps/it'], change.ravel(), atol=1e-6)


def test_weights_are_not_the_optimizers_own():
    optimizer = define(linear())
    variables = weights.named_variables(optimizer).values()
    shapes = sorted(tuple(v.shape) for v in variables)
    # The number of steps, two of useless gradients, the last step, and twice
    # the two factors.
    assert shapes == [(), (), (), (2, 2), (2, 2), (4, 4), (4, 4), (8,)]
