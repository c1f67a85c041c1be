"""Distributions against NumPy, exact sums and estimates from samples."""

import itertools
import math

import gymnasium as gym
import numpy as np
import pytest

from agents.parts import distributions
from agents.tools import spaces
from agents.tools.graph import random
from agents.tools.graph.backend import compiled, tf

SAMPLES = 20_000

# Shapes of values as environments have them, with the size of the output.
SPACES = {
    'Box': (gym.spaces.Box(-1, 1, (2, 3), np.float32), 12),
    'scalar Box': (gym.spaces.Box(-1, 1, (), np.float32), 2),
    'Discrete': (gym.spaces.Discrete(4), 4),
    'MultiDiscrete': (gym.spaces.MultiDiscrete([2, 3]), 5),
    'grid MultiDiscrete': (gym.spaces.MultiDiscrete([[2, 3], [4, 2]]), 11),
    'MultiBinary': (gym.spaces.MultiBinary(3), 3),
    'grid MultiBinary': (gym.spaces.MultiBinary((2, 2)), 4),
}


@pytest.fixture(params=SPACES.values(), ids=SPACES)
def space(request):
    return request.param[0]


def numbers(*shape, seed=0):
    normal = np.random.default_rng([seed, *shape]).normal(size=shape)
    return tf.constant(normal, tf.float32)


def key(counter=0):
    return random.key(0, 'test', counter)


def categorical(seed=0):
    return distributions.Categorical(numbers(2, 4, seed=seed))


def bernoulli(seed=0):
    return distributions.Bernoulli(numbers(2, 3, seed=seed))


def product(seed=0):
    logits = numbers(2, 2, seed=seed), numbers(2, 3, seed=seed)
    return distributions.Product(tuple(distributions.Categorical(x) for x in logits))


def gaussian(seed=0):
    mean, log_std = numbers(2, 3, seed=seed), numbers(2, 3, seed=seed + 10)
    return distributions.Gaussian(mean, 0.5 * log_std)


# What a value can be, for the distributions that have finitely many.
VALUES = {
    categorical: np.arange(4, dtype=np.int32),
    bernoulli: np.array([*itertools.product([0, 1], repeat=3)], np.int32),
    product: np.array([*itertools.product(range(2), range(3))], np.int32),
}

each_counted = pytest.mark.parametrize('define', VALUES)
each_kind = pytest.mark.parametrize('define', [*VALUES, gaussian])


def log_probs(distribution, values):
    """The logarithms `[value, batch]` of the probabilities of all values."""
    twice = [np.stack([value, value]) for value in values]
    return np.stack([distribution.log_prob(value) for value in twice])


def many(distribution):
    """As many samples as are needed for an estimate, `[sample, batch, ...]`."""
    parameters = tf.nest.map_structure(
        lambda x: tf.broadcast_to(x, [SAMPLES, *x.shape]), distribution
    )
    return parameters, parameters.sample(key())


@each_counted
def test_probabilities_add_up_to_one(define):
    total = np.exp(log_probs(define(), VALUES[define])).sum(0)
    np.testing.assert_allclose(total, 1, rtol=1e-5)


@each_counted
def test_entropy_and_kl_are_sums_over_all_values(define):
    mine, other = define(), define(seed=1)
    p = log_probs(mine, VALUES[define])
    q = log_probs(other, VALUES[define])
    entropy, kl = -(np.exp(p) * p).sum(0), (np.exp(p) * (p - q)).sum(0)
    np.testing.assert_allclose(mine.entropy(), entropy, rtol=1e-4)
    np.testing.assert_allclose(mine.kl(other), kl, rtol=1e-4)


@each_kind
def test_entropy_and_kl_are_means_over_samples(define):
    mine, other = define(), define(seed=1)
    everywhere, value = many(mine)
    surprise = -everywhere.log_prob(value).numpy()
    ratio = -surprise - other.log_prob(value).numpy()
    for samples, exact in ((surprise, mine.entropy()), (ratio, mine.kl(other))):
        error = samples.std(0) / np.sqrt(SAMPLES)
        assert (np.abs(samples.mean(0) - exact) < 4 * error).all()


@each_counted
def test_values_are_sampled_as_often_as_they_are_probable(define):
    distribution = define()
    _, samples = many(distribution)
    expected = np.exp(log_probs(distribution, VALUES[define]))
    for value, p in zip(VALUES[define], expected, strict=True):
        same = np.equal(samples, value)
        if same.ndim == 3:
            same = same.all(-1)
        error = np.sqrt(p * (1 - p) / SAMPLES)
        assert (np.abs(same.mean(0) - p) < 4 * error).all()


def test_gaussian_samples_have_its_mean_and_deviation():
    distribution = gaussian()
    _, samples = many(distribution)
    std = np.exp(distribution.log_std)
    error = std / np.sqrt(SAMPLES)
    moments = samples.numpy().mean(0), samples.numpy().std(0)
    assert (np.abs(moments[0] - distribution.mean) < 4 * error).all()
    assert (np.abs(moments[1] - std) < 4 * error).all()
    correlation = np.corrcoef(samples.numpy().reshape(SAMPLES, -1).T)
    assert (np.abs(correlation - np.eye(6)) < 4 / np.sqrt(SAMPLES)).all()


def test_gaussian_by_formula():
    distribution, other = gaussian(), gaussian(seed=1)
    mean, std = distribution.mean.numpy(), np.exp(distribution.log_std)
    others_mean, others_std = other.mean.numpy(), np.exp(other.log_std)
    value = numbers(2, 3, seed=5).numpy()
    density = np.exp(-((value - mean) ** 2) / (2 * std**2))
    density /= std * math.sqrt(2 * math.pi)
    np.testing.assert_allclose(distribution.log_prob(value), np.log(density).sum(-1), rtol=1e-4)
    squares = std**2 + (mean - others_mean) ** 2
    kl = np.log(others_std / std) + squares / (2 * others_std**2) - 0.5
    np.testing.assert_allclose(distribution.kl(other), kl.sum(-1), rtol=1e-4)


def test_gaussian_computed_by_hand():
    # ln (1 / √2π) − ½ · 2² for the distance of one deviation of ½ twice.
    distribution = distributions.Gaussian(tf.constant([[1.0]]), tf.math.log([[0.5]]))
    expected = -0.5 * math.log(2 * math.pi) - math.log(0.5) - 2
    result = distribution.log_prob(tf.constant([[2.0]]))
    np.testing.assert_allclose(result, [expected], rtol=1e-6)
    # A deviation of 1 has the entropy ½ ln 2πe = 1.4189385.
    entropy = 1.4189385 + math.log(0.5)
    np.testing.assert_allclose(distribution.entropy(), [entropy], rtol=1e-6)


def test_counted_computed_by_hand():
    # Probabilities of ¼ and ¾, and twice those of ½.
    logits = tf.math.log([[0.25, 0.75]])
    choice = distributions.Categorical(logits)
    log_prob = choice.log_prob(tf.constant([1]))
    np.testing.assert_allclose(log_prob, [math.log(0.75)], rtol=1e-6)
    entropy = 0.25 * math.log(4) + 0.75 * math.log(4 / 3)
    np.testing.assert_allclose(choice.entropy(), [entropy], rtol=1e-6)
    coins = distributions.Bernoulli(tf.zeros((1, 2)))
    np.testing.assert_allclose(coins.entropy(), [2 * math.log(2)], rtol=1e-6)


def test_one_logarithm_of_deviations_serves_a_batch():
    mean, log_std = numbers(5, 3), tf.constant([0.1, 0.2, 0.3])
    distribution = distributions.Gaussian(mean, log_std)
    entropy = (0.6 + 3 * 1.4189385) * np.ones(5)
    np.testing.assert_allclose(distribution.entropy(), entropy, rtol=1e-6)
    assert distribution.sample(key()).shape == (5, 3)


@each_kind
def test_divergence_from_itself_is_exactly_zero(define):
    kl = define().kl(define())
    assert (kl.numpy() == 0).all()


@each_kind
def test_divergence_is_positive(define):
    assert (define().kl(define(seed=1)).numpy() > 0).all()


@each_kind
def test_mode_is_more_probable_than_samples(define):
    everywhere, samples = many(define())
    best = everywhere.log_prob(everywhere.mode).numpy()
    assert (best >= everywhere.log_prob(samples).numpy() - 1e-6).all()


@each_kind
def test_samples_repeat_with_the_key_and_differ_without(define):
    distribution, _ = many(define())
    sample = distribution.sample(key(1)).numpy()
    assert (sample == distribution.sample(key(1)).numpy()).all()
    for other in (key(2), random.key(0, 'other', 1), random.key(1, 'test', 1)):
        assert (sample != distribution.sample(other).numpy()).any()


def test_dimensions_of_a_product_are_drawn_apart():
    logits = tf.zeros((SAMPLES, 10))
    space = gym.spaces.MultiDiscrete([5, 5])
    pair = distributions.from_output(space, logits).sample(key()).numpy()
    # One in five is equal by chance, with a deviation of 0.4 / √samples.
    equal = np.mean(pair[:, 0] == pair[:, 1])
    assert abs(equal - 0.2) < 4 * 0.4 / np.sqrt(SAMPLES)


@pytest.mark.parametrize(('space', 'size'), SPACES.values(), ids=SPACES)
def test_output_size(space, size):
    assert distributions.output_size(space) == size


@pytest.mark.parametrize('batch', [(5,), (4, 5)], ids=['agent', 'time, agent'])
def test_shapes(space, batch):
    size = distributions.output_size(space)
    distribution = distributions.from_output(space, numbers(*batch, size))
    sample = distribution.sample(key())
    assert distribution.mode.shape == sample.shape
    for result in (
        distribution.log_prob(sample),
        distribution.entropy(),
        distribution.kl(distribution),
    ):
        assert result.shape == batch


def test_samples_are_values_of_the_space(space):
    size = distributions.output_size(space)
    distribution = distributions.from_output(space, numbers(50, size) / 5)
    flat = distribution.sample(key())
    sample = distributions.unflatten(space, flat).numpy()
    assert sample.shape == (50, *space.shape)
    assert sample.dtype == spaces.specs(space).dtype
    sample = np.clip(sample, -1, 1) if sample.dtype == 'float32' else sample
    for value in sample.astype(space.dtype):
        assert np.asarray(value) in space


def test_flattening_is_undone(space):
    values = np.stack([space.sample() for _ in range(6)])
    values = tf.constant(values.reshape(2, 3, *space.shape))
    flat = distributions.flatten(space, values)
    np.testing.assert_array_equal(distributions.unflatten(space, flat), values)


def test_box_output_is_means_and_then_deviations():
    space = gym.spaces.Box(-1, 1, (2,), np.float32)
    output = tf.constant([[1.0, 2.0, 3.0, 4.0]])
    distribution = distributions.from_output(space, output)
    np.testing.assert_array_equal(distribution.mean, [[1, 2]])
    np.testing.assert_array_equal(distribution.log_std, [[3, 4]])


def test_grid_of_choices_is_read_row_by_row():
    space = gym.spaces.MultiDiscrete([[2, 3], [4, 2]])
    logits = np.zeros((1, 11), np.float32)
    logits[0, [1, 2 + 2, 5 + 3, 9]] = 10
    mode = distributions.from_output(space, tf.constant(logits)).mode
    mode = distributions.unflatten(space, mode)
    np.testing.assert_array_equal(mode, [[[1, 2], [3, 0]]])


def test_output_of_another_size_is_refused():
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        distributions.from_output(gym.spaces.Discrete(4), tf.zeros((2, 3)))


def test_spaces_without_a_distribution_are_refused():
    with pytest.raises(TypeError, match='Text'):
        distributions.output_size(gym.spaces.Text(3))


@each_kind
def test_compiled_is_like_eager(define):
    def all_of_them():
        mine, other = define(), define(seed=1)
        value = mine.sample(key())
        return value, mine.log_prob(value), mine.entropy(), mine.kl(other)

    eager, result = all_of_them(), compiled(all_of_them)()
    for one, other in zip(eager, result, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


INF = math.inf
# Logits of which some are infinite, all of them so that one is certain, none.
MASKED = np.array([[0, -INF, 1, 2.5], [-INF, 3, -INF, -INF], [0.5, 2, 1, 4]])
OTHERS = np.array([[1, -INF, 0, 0.5], [-INF, 5, -INF, -INF], [-1, 0.5, 3, 2]])
COINS = np.array([[0.5, -INF, INF], [INF, 3, -INF], [-INF, -2, 1]])
OTHER_COINS = np.array([[1.5, -INF, INF], [INF, -1, -INF], [-INF, 2, 0]])
CHOICES, SIDES = [2, 1, 0], [[1, 0, 1], [1, 0, 0], [0, 1, 0]]


def masked_categorical(logits):
    return distributions.Categorical(logits)


def masked_bernoulli(logits):
    return distributions.Bernoulli(logits)


def masked_product(logits):
    return distributions.from_output(
        gym.spaces.MultiDiscrete([4, 4]), tf.concat([logits, logits[::-1]], -1)
    )


MASKS = {
    masked_categorical: (MASKED, OTHERS, CHOICES),
    masked_bernoulli: (COINS, OTHER_COINS, SIDES),
    masked_product: (MASKED, OTHERS, np.transpose([CHOICES, CHOICES[::-1]])),
}
each_mask = pytest.mark.parametrize('define', MASKS)
each_wrap = pytest.mark.parametrize(
    'wrap', [lambda f: f, tf.function, compiled], ids=['eager', 'graph', 'xla']
)


def probabilities(define, logits):
    """The probabilities by definition, `[batch, dimension, choice]`."""
    if define is masked_bernoulli:
        yes = 1 / (1 + np.exp(-logits))
        return np.stack([1 - yes, yes], -1)
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    parts = [p, p[::-1]] if define is masked_product else [p]
    return np.stack(parts, 1)


def log_prob_by_definition(define, value, logits, _):
    p = probabilities(define, logits)
    value = np.reshape(value, p.shape[:2])
    return np.log(np.take_along_axis(p, value[..., None], -1)).sum((-1, -2))


def entropy_by_definition(define, _, logits, __):
    p = probabilities(define, logits)
    return -np.sum(p * np.log(p, where=p > 0, out=0 * p), (-1, -2))


def kl_by_definition(define, _, logits, others):
    p, q = probabilities(define, logits), probabilities(define, others)
    ratio = np.divide(p, q, where=p > 0, out=np.ones_like(p))
    return np.sum(p * np.log(ratio), (-1, -2))


QUANTITIES = {
    log_prob_by_definition: lambda mine, _, value: mine.log_prob(value),
    entropy_by_definition: lambda mine, _, __: mine.entropy(),
    kl_by_definition: lambda mine, other, _: mine.kl(other),
}


def numerical_gradient(function, logits):
    """Of the sum of the results, zero for what is impossible."""
    gradient = np.zeros_like(logits)
    for place in zip(*np.isfinite(logits).nonzero(), strict=True):
        sides = []
        for step in (1e-5, -1e-5):
            moved = logits.copy()
            moved[place] += step
            sides.append(function(moved).sum())
        gradient[place] = (sides[0] - sides[1]) / 2e-5
    return gradient


@each_mask
@each_wrap
@pytest.mark.parametrize('definition', QUANTITIES)
def test_impossible_actions_count_for_nothing(define, wrap, definition):
    logits, others, value = MASKS[define]

    @wrap
    def with_gradients(*inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            pair = [define(x) for x in inputs]
            result = QUANTITIES[definition](*pair, tf.constant(value))
        return result, tape.gradient(
            result, inputs, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )

    inputs = [tf.constant(x, tf.float32) for x in (logits, others)]
    result, gradients = with_gradients(*inputs)
    expected = definition(define, value, logits, others)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    expected = (
        numerical_gradient(lambda x: definition(define, value, x, others), logits),
        numerical_gradient(lambda x: definition(define, value, logits, x), others),
    )
    for gradient, numerical in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(gradient, numerical, atol=1e-5)


@each_mask
@each_wrap
def test_impossible_actions_are_never_chosen(define, wrap):
    logits = np.repeat(MASKS[define][0], SAMPLES, 0)
    distribution = define(tf.constant(logits, tf.float32))
    p = probabilities(define, logits)
    drawn = wrap(distribution.sample)(key())
    best = wrap(lambda: distribution.mode)()
    for value in (drawn, best):
        value = np.reshape(value, p.shape[:2])[..., None]
        assert np.take_along_axis(p, value, -1).all()


@each_wrap
def test_actions_that_the_other_excludes_are_infinitely_far(wrap):
    for define, (logits, others, _) in MASKS.items():
        finite = tf.constant(np.where(np.isinf(others), 0, others), tf.float32)
        masked = tf.constant(logits, tf.float32)
        kl = wrap(lambda x, y, kind=define: kind(x).kl(kind(y)))
        assert np.isposinf(kl(finite, masked)[:2]).all()
        assert np.isfinite(kl(masked, finite)).all()


@each_wrap
def test_nothing_possible_is_not_a_number(wrap):
    nothing = distributions.Categorical(tf.fill((2, 3), -INF))
    everything = distributions.Categorical(tf.zeros((2, 3)))
    results = wrap(lambda: (nothing.log_prob([0, 1]), nothing.entropy(), nothing.kl(everything)))()
    assert np.isnan(results).all()


def test_space_without_a_distribution_is_refused():
    with pytest.raises(TypeError, match='no distribution over'):
        distributions.output_size(gym.spaces.Text(4))
