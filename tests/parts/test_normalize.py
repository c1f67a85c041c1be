"""Normalizers against NumPy on all that they have seen."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest

from agents.parts import normalize
from agents.parts.record import Predictions, Recorder
from agents.tools.graph.backend import compiled, tf
from agents.tools.transition import Transition


def rollouts(*shape, count=3, offset=5.0, scale=3.0, seed=0):
    rng = np.random.default_rng(seed)
    return [
        (offset * i + scale * rng.normal(size=shape)).astype(np.float32)
        for i in range(1, count + 1)
    ]


@pytest.mark.parametrize('shape', [(), (3,), (2, 3)])
def test_statistics_are_those_of_all_values(shape):
    parts = rollouts(7, 4, *shape)
    normalizer = normalize.StreamingNormalize(shape)
    for part in parts:
        normalizer.update(tf.constant(part))
    pooled = np.concatenate(parts).reshape(-1, *shape)
    assert normalizer.count == len(pooled)
    np.testing.assert_allclose(normalizer.mean, pooled.mean(0), rtol=1e-5)
    np.testing.assert_allclose(normalizer.std, pooled.std(0), rtol=1e-5)


def one_program(normalizer, shape):
    """Record rows one by one, add and normalize them, all in one program."""
    count, time, agents, size = shape
    space = gym.spaces.Box(-np.inf, np.inf, (size,), np.float32)
    recorder = Recorder(space, gym.spaces.Discrete(2), time, agents, ())
    zeros, never = tf.zeros(agents), tf.zeros(agents, bool)

    def append(rows, step):
        after = Transition(zeros, never, never, rows[step], never)
        predictions = Predictions(tf.zeros((agents, 2)), zeros, zeros)
        recorder.append(rows[step], tf.zeros(agents, tf.int32), after, predictions)
        return (step + 1,)

    def rollout_and_update(rollouts, number, _):
        rows = rollouts[number]
        tf.while_loop(lambda step: step < time, partial(append, rows), [tf.constant(0)])
        normalizer.update(recorder.take(()).observ)
        return number + 1, normalizer.transform(rows)

    @compiled
    def run(rollouts):
        return tf.while_loop(
            lambda number, _: number < count,
            partial(rollout_and_update, rollouts),
            [tf.constant(0), rollouts[0]],
        )[1]

    return run


def one_after_the_other(wrap):
    """Add one rollout after the other, and normalize the last."""

    def prepare(normalizer, shape):
        update, transform = [wrap(f) for f in (normalizer.update, normalizer.transform)]

        def run(rollouts):
            for rows in rollouts:
                update(rows)
            return transform(rollouts[-1])

        return run

    return prepare


WAYS = {
    'eager': one_after_the_other(lambda f: f),
    'graph': one_after_the_other(tf.function),
    'compiled': one_after_the_other(compiled),
    'one program': one_program,
}
each_way = pytest.mark.parametrize('way', WAYS.values(), ids=WAYS)


def each_anew(way, cases, **options):
    """Normalize arrays of one shape in one program, from the beginning each.

    Yields:
        Name of the case, the array, and the normalizer with its last result.
    """
    shape = next(iter(cases.values())).shape
    normalizer = normalize.StreamingNormalize(shape[-1:], **options)
    initial = [variable.numpy() for variable in normalizer.variables]
    program = way(normalizer, shape)
    for name, rows in cases.items():
        for variable, value in zip(normalizer.variables, initial, strict=True):
            variable.assign(value)
        yield name, rows, (normalizer, program(tf.constant(rows)))


def expect_float64(normalizer, result, rows):
    """Compare statistics and the last rows, normalized, to those of NumPy."""
    exact = rows.astype(np.float64)
    pooled = exact.reshape(-1, exact.shape[-1])
    mean, std = pooled.mean(0), pooled.std(0)
    assert (np.abs(normalizer.mean - mean) < 1e-6 * std).all()
    np.testing.assert_allclose(normalizer.std, std, rtol=1e-6)
    np.testing.assert_allclose(result, (exact[-1] - mean) / std, atol=1e-5)


@each_way
@pytest.mark.parametrize('lead', [(2, 1), (8, 3), (128, 1024)])
def test_far_from_zero_it_is_as_in_float64(subtests, way, lead):
    numbers = np.random.default_rng(0).normal(size=(2, *lead, 3))
    cases = {x: np.float32(x + numbers) for x in (0, 3e4, -1e6)}
    for offset, rows, found in each_anew(way, cases, clip=None):
        with subtests.test(offset=offset):
            expect_float64(*found, rows)


@each_way
def test_offset_that_drifts_is_followed_over_many_rollouts(subtests, way):
    numbers = np.random.default_rng(0).normal(size=(100, 4, 2, 3))
    wave = np.sin(np.linspace(0, np.pi, 100))[:, None, None, None]
    cases = {x: np.float32(1e6 + x * wave + numbers) for x in (0, 10, 1e6)}
    for drift, rows, found in each_anew(way, cases, clip=None):
        with subtests.test(drift=drift):
            expect_float64(*found, rows)


@each_way
@pytest.mark.parametrize('lead', [(1, 1), (128, 1024)])
def test_what_never_changes_becomes_zero(subtests, way, lead):
    cases = {x: np.full((3, *lead, 2), x, np.float32) for x in (0.1, 1e6 + 0.3)}
    for constant, _, (_, result) in each_anew(way, cases):
        with subtests.test(constant=constant):
            assert np.abs(result).max() < 1e-5


@pytest.fixture
def trained():
    def make(**options):
        normalizer = normalize.StreamingNormalize((2,), **options)
        # Means of 2 and 20, deviations of 1 and 10.
        normalizer.update(tf.constant([[1.0, 10.0], [3.0, 30.0]]))
        return normalizer

    return make


@pytest.mark.parametrize(
    ('center', 'scale', 'expected'),
    [(True, True, [2, -2]), (True, False, [2, -20]), (False, True, [4, 0]), (False, False, [4, 0])],
)
def test_centers_and_scales(trained, center, scale, expected):
    normalizer = trained(center=center, scale=scale, clip=None)
    result = normalizer.transform(tf.constant([4.0, 0.0]))
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_clips_the_result(trained):
    result = trained(clip=1.5).transform(tf.constant([[4.0, 0.0], [2.5, 20]]))
    np.testing.assert_allclose(result, [[1.5, -1.5], [0.5, 0]], rtol=1e-5)


def test_before_any_values_it_only_clips():
    normalizer = normalize.StreamingNormalize((2,), clip=10.0)
    result = normalizer.transform(tf.constant([3.0, -20.0]))
    np.testing.assert_array_equal(result, [3, -10])
    np.testing.assert_array_equal(normalizer.std, [1, 1])


def test_transforming_changes_no_statistics(trained):
    normalizer = trained()
    before = [v.numpy() for v in normalizer.variables]
    normalizer.transform(tf.constant([100.0, 100.0]))
    for variable, value in zip(normalizer.variables, before, strict=True):
        np.testing.assert_array_equal(variable, value)


def test_summary_has_mean_and_deviation(trained):
    summary = trained().summary()
    np.testing.assert_allclose(summary['mean'], [2, 20])
    np.testing.assert_allclose(summary['std'], [1, 10], rtol=1e-5)


SPACE = gym.spaces.Dict(
    state=gym.spaces.Box(-np.inf, np.inf, (2,), np.float32),
    image=gym.spaces.Box(0, 255, (2, 2), np.uint8),
    inner=gym.spaces.Tuple([gym.spaces.Discrete(3), gym.spaces.Box(-1, 1, (), np.float32)]),
)


def observations(*lead, seed=0):
    rng = np.random.default_rng(seed)
    state = 3 + 2 * rng.normal(size=(*lead, 2))
    image = rng.integers(0, 256, (*lead, 2, 2), np.uint8)
    choice, number = rng.integers(0, 3, lead), rng.normal(size=lead)
    return {
        'state': tf.constant(state, tf.float32),
        'image': tf.constant(image),
        'inner': (tf.constant(choice), tf.constant(number, tf.float32)),
    }


def test_only_floats_of_an_observation_are_normalized():
    normalizer = normalize.NormalizeObserv(SPACE, True, clip=100.0)
    observ = observations(20, 5)
    normalizer.update(observ)
    result = normalizer.transform(observ)
    for new, old in ((result['state'], observ['state']), (result['inner'][1], observ['inner'][1])):
        old = old.numpy()
        expected = (old - old.mean((0, 1))) / old.std((0, 1))
        np.testing.assert_allclose(new, expected, rtol=1e-4, atol=1e-5)
    assert result['image'].dtype == tf.uint8
    np.testing.assert_array_equal(result['image'], observ['image'])
    np.testing.assert_array_equal(result['inner'][0], observ['inner'][0])


def test_observations_are_clipped():
    normalizer = normalize.NormalizeObserv(SPACE, True, clip=0.1)
    observ = observations(20, 5)
    normalizer.update(observ)
    assert abs(normalizer.transform(observ)['state'].numpy()).max() < 0.1001


def test_order_of_keys_does_not_matter():
    normalizer = normalize.NormalizeObserv(SPACE, True, clip=10.0)
    observ = observations(6)
    normalizer.update(dict(reversed(observ.items())))
    result = normalizer.transform(dict(reversed(observ.items())))
    mean = observ['state'].numpy().mean(0)
    expected = (observ['state'] - mean) / observ['state'].numpy().std(0)
    np.testing.assert_allclose(result['state'], expected, rtol=1e-3, atol=1e-5)


def test_disabled_observations_pass_through():
    normalizer = normalize.NormalizeObserv(SPACE, False, clip=0.1)
    observ = observations(6)
    normalizer.update(observ)
    result = normalizer.transform(observ)
    np.testing.assert_array_equal(result['state'], observ['state'])
    assert not normalizer.variables


def test_rewards_are_scaled_by_the_deviation_of_their_discounted_sum():
    normalizer = normalize.NormalizeReward(2, True, discount=0.9, clip=10.0)
    rng = np.random.default_rng(0)
    past, sums = np.zeros(2), []
    for _ in range(3):
        reward = rng.normal(1.0, 2.0, size=(5, 2)).astype(np.float32)
        begins = rng.random((5, 2)) < 0.3
        for now, first in zip(reward, begins, strict=True):
            past = now + 0.9 * np.where(first, 0, past)
            sums.append(past)
        normalizer.update(tf.constant(reward), tf.constant(begins))
        result = normalizer.transform(tf.constant(reward))
        np.testing.assert_allclose(result, reward / np.std(sums), rtol=1e-4)


@pytest.mark.parametrize('shape', [(2, 1), (128, 1024)])
def test_rewards_far_from_zero_are_scaled_as_in_float64(shape):
    normalizer = normalize.NormalizeReward(shape[1], True, 0.0, clip=1e9)
    rng = np.random.default_rng(0)
    sums = []
    for _ in range(2):
        reward = (1e6 + rng.normal(size=shape)).astype(np.float32)
        compiled(normalizer.update)(tf.constant(reward), tf.zeros(shape, tf.bool))
        sums.append(reward.astype(np.float64))
        result = normalizer.transform(tf.constant(reward))
        np.testing.assert_allclose(result, reward / np.std(sums), rtol=1e-6)


def test_rewards_of_lost_steps_do_not_count():
    rng = np.random.default_rng(0)
    reward = rng.normal(3.0, 2.0, size=(2, 6, 3)).astype(np.float32)
    lost = rng.random((2, 6, 3)) < 0.3
    lost[1, 2:4] = True
    begins = tf.ones((6, 3), bool)
    normalizer = normalize.NormalizeReward(3, True, discount=0.9, clip=10.0)
    for rewards, mask in zip(reward, lost, strict=True):
        normalizer.update(tf.constant(rewards), begins, True, mask)
    # The next rollout has nothing but such steps.
    nothing = tf.ones((6, 3), bool)
    normalizer.update(tf.constant(reward[0]), begins, True, nothing)
    result = normalizer.transform(tf.constant(reward[0]))
    expected = reward[0] / reward[~lost].std()
    np.testing.assert_allclose(result, expected, rtol=1e-4)


def test_rewards_are_clipped():
    normalizer = normalize.NormalizeReward(1, True, discount=0.0, clip=2.0)
    # A deviation of 1.
    normalizer.update(tf.constant([[1.0], [-1.0]]), tf.zeros((2, 1), bool))
    result = normalizer.transform(tf.constant([[5.0], [-5.0], [1.0]]))
    np.testing.assert_allclose(result, [[2], [-2], [1]], rtol=1e-5)


def test_disabled_rewards_pass_through():
    normalizer = normalize.NormalizeReward(1, False, discount=0.9, clip=2.0)
    reward = tf.constant([[5.0], [-5.0]])
    normalizer.update(reward, tf.zeros((2, 1), bool))
    np.testing.assert_array_equal(normalizer.transform(reward), reward)
