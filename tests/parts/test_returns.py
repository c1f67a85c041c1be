"""Returns and advantages against sums written out."""

import numpy as np
import pytest

from agents.parts import returns
from agents.tools.graph.backend import compiled, tf

DISCOUNT = 0.9


def random_rollout(time, agents=5, seed=0):
    """Rewards and values with episodes that end in both ways, or run on."""
    rng = np.random.default_rng([seed, time])
    numbers = [rng.normal(size=(time, agents)) for _ in range(3)]
    reward, value, next_value = [x.astype(np.float32) for x in numbers]
    done = rng.random((time, agents)) < 0.3
    terminated = done & (rng.random((time, agents)) < 0.5)
    # What follows a step is what the next one begins with.
    next_value[:-1] = np.where(done[:-1], next_value[:-1], value[1:])
    return reward, value, next_value, terminated, done


def n_step_returns(t, agent, reward, next_value, terminated, done):
    """All returns of a step: one reward and a value, two and a value, ..."""
    results, total, factor = [], 0.0, 1.0
    for later in range(t, len(reward)):
        total += factor * reward[later, agent]
        factor *= DISCOUNT
        going_on = 0.0 if terminated[later, agent] else next_value[later, agent]
        results.append(total + factor * going_on)
        if done[later, agent]:
            break
    return results


def for_each_step(function, reward, *others):
    """A function of the n-step returns of each step."""
    result = np.zeros_like(reward)
    for place in np.ndindex(reward.shape):
        result[place] = function(n_step_returns(*place, reward, *others))
    return result


def weighted(candidates, lambda_):
    """(1 − λ) Σ λⁿ⁻¹ Gⁿ, and what is left of the weight for the last."""
    weights = [(1 - lambda_) * lambda_**n for n in range(len(candidates))]
    weights[-1] = lambda_ ** (len(candidates) - 1)
    return np.dot(weights, candidates)


@pytest.mark.parametrize('time', [1, 2, 3, 7, 8, 33])
@pytest.mark.parametrize('lambda_', [0.0, 0.7, 1.0])
def test_lambda_return_is_the_weighted_mean_of_n_step_returns(time, lambda_):
    reward, value, *others = random_rollout(time)
    expected = for_each_step(lambda x: weighted(x, lambda_), reward, *others)
    arguments = (reward, value, *others, DISCOUNT, lambda_)
    result = returns.lambda_return(*arguments)
    np.testing.assert_allclose(result, expected, atol=1e-5)
    advantage = returns.lambda_advantage(*arguments)
    np.testing.assert_allclose(advantage, expected - value, atol=1e-5)


@pytest.mark.parametrize('time', [1, 2, 13])
def test_discounted_return_is_the_longest_n_step_return(time):
    reward, _, *others = random_rollout(time)
    expected = for_each_step(lambda x: x[-1], reward, *others)
    result = returns.discounted_return(reward, *others, DISCOUNT)
    np.testing.assert_allclose(result, expected, atol=1e-5)


@pytest.mark.parametrize('window', [1, 2, 4, 20])
def test_fixed_step_return_is_the_nth_or_the_longest(window):
    reward, _, *others = random_rollout(13)
    expected = for_each_step(lambda x: x[:window][-1], reward, *others)
    result = returns.fixed_step_return(reward, *others, DISCOUNT, window)
    np.testing.assert_allclose(result, expected, atol=1e-5)


def column(*numbers):
    return np.array(numbers, np.float32)[:, None]


def flags(*numbers):
    return np.array(numbers, bool)[:, None]


# One agent, three steps, γ = λ = ½, so that γλ = ¼.
REWARD, VALUE, NEXT_VALUE = column(1, 2, 3), column(1, 2, 3), column(2, 8, 4)


@pytest.mark.parametrize(
    ('terminated', 'done', 'expected'),
    [
        # δ = (1 + 1 − 1, 2 + 4 − 2, 3 + 2 − 3) = (1, 4, 2)
        # A = (1 + ¼ · 4½, 4 + ¼ · 2, 2)
        ((0, 0, 0), (0, 0, 0), (2.125, 4.5, 2)),
        # No value after the second step, δ₁ = 2 − 2, and nothing beyond.
        ((0, 1, 0), (0, 1, 0), (1, 0, 2)),
        # The value of the successor counts, but nothing beyond.
        ((0, 0, 0), (0, 1, 0), (2, 4, 2)),
        # At the end of the rollout, δ₂ = 3 − 3.
        ((0, 0, 1), (0, 0, 1), (2, 4, 0)),
    ],
    ids=['going on', 'terminated', 'truncated', 'terminated last'],
)
def test_advantages_computed_by_hand(terminated, done, expected):
    result = returns.lambda_advantage(
        REWARD, VALUE, NEXT_VALUE, flags(*terminated), flags(*done), 0.5, 0.5
    )
    np.testing.assert_allclose(result, column(*expected), rtol=1e-6)


@pytest.mark.parametrize(
    ('terminated', 'done', 'expected'),
    [
        # R₂ = 3 + ½ · 4, R₁ = 2 + ½ · 5, R₀ = 1 + ½ · 4.5
        ((0, 0, 0), (0, 0, 0), (3.25, 4.5, 5)),
        ((0, 1, 0), (0, 1, 0), (2, 2, 5)),
        # R₁ = 2 + ½ · 8
        ((0, 0, 0), (0, 1, 0), (4, 6, 5)),
    ],
    ids=['going on', 'terminated', 'truncated'],
)
def test_returns_computed_by_hand(terminated, done, expected):
    result = returns.discounted_return(REWARD, NEXT_VALUE, flags(*terminated), flags(*done), 0.5)
    np.testing.assert_allclose(result, column(*expected), rtol=1e-6)


def test_advantage_of_lambda_zero_is_that_of_one_step():
    reward, value, *others = random_rollout(9)
    result = returns.lambda_advantage(reward, value, *others, DISCOUNT, 0.0)
    one_step = returns.fixed_step_return(reward, *others, DISCOUNT, 1)
    np.testing.assert_allclose(result, one_step - value, atol=1e-6)


def test_advantage_of_lambda_one_is_that_of_the_whole_return():
    reward, value, *others = random_rollout(9)
    result = returns.lambda_advantage(reward, value, *others, DISCOUNT, 1.0)
    whole = returns.discounted_return(reward, *others, DISCOUNT)
    np.testing.assert_allclose(result, whole - value, atol=1e-5)


def test_return_without_discount_factor_is_the_reward():
    reward, value, *others = random_rollout(9)
    result = returns.lambda_return(reward, value, *others, 0.0, 0.9)
    np.testing.assert_allclose(result, reward, atol=1e-6)


def test_advantage_is_zero_where_the_values_are_right():
    # One agent that gets 1 in each step for ever is worth 1 / (1 − γ).
    reward, worth = np.ones((6, 1), np.float32), np.full((6, 1), 10, np.float32)
    never = np.zeros((6, 1), bool)
    result = returns.lambda_advantage(reward, worth, worth, never, never, 0.9, 0.95)
    np.testing.assert_allclose(result, np.zeros((6, 1)), atol=1e-5)


def test_discounted_past_continues_from_the_rollout_before():
    # ¼ of the sum is kept: 1 + ¼ · 4, a new episode, 8 + ¼ · 2.
    result = returns.discounted_past(
        column(1, 2, 8), flags(0, 1, 0), 0.25, np.array([4], np.float32)
    )
    np.testing.assert_allclose(result, column(2, 2, 8.5))


@pytest.mark.parametrize('time', [1, 2, 13])
def test_discounted_past_adds_up_forwards(time):
    reward, _, _, _, begins = random_rollout(time)
    before = reward[0] * 3
    past, expected = before, []
    for rewards, mask in zip(reward, begins, strict=True):
        past = rewards + DISCOUNT * np.where(mask, 0, past)
        expected.append(past)
    result = returns.discounted_past(reward, begins, DISCOUNT, before)
    np.testing.assert_allclose(result, expected, atol=1e-5)


def test_compiled_is_like_eager():
    arguments = [tf.constant(x) for x in random_rollout(13)]
    eager = returns.lambda_advantage(*arguments, DISCOUNT, 0.9)
    result = compiled(returns.lambda_advantage)(*arguments, DISCOUNT, 0.9)
    np.testing.assert_allclose(result, eager, atol=1e-5)


def test_normalized_has_mean_zero_and_deviation_one():
    advantage, *_ = random_rollout(50)
    result = returns.normalized(7 + 100 * advantage).numpy()
    np.testing.assert_allclose(result.mean(), 0, atol=1e-5)
    np.testing.assert_allclose(result.std(), 1, rtol=1e-5)
    expected = (advantage - advantage.mean()) / advantage.std()
    np.testing.assert_allclose(result, expected, atol=1e-4)


@pytest.mark.parametrize('wrap', [lambda f: f, tf.function, compiled])
def test_normalized_far_from_zero_is_as_in_float64(wrap):
    rng = np.random.default_rng(0)
    advantage = (1e6 + rng.normal(size=(128, 1024))).astype(np.float32)
    result = wrap(returns.normalized)(tf.constant(advantage))
    exact = advantage.astype(np.float64)
    expected = (exact - exact.mean()) / exact.std()
    np.testing.assert_allclose(result, expected, atol=1e-5)


def test_normalized_makes_nothing_of_equal_advantages():
    assert not returns.normalized(tf.fill((4, 2), 3.0)).numpy().any()


def test_shapes_that_differ_are_refused():
    reward, value, *others = random_rollout(3)
    with pytest.raises(ValueError, match='time, agent'):
        returns.lambda_advantage(reward[:, :1], value, *others, 0.9, 0.9)
    flat = [x[0] for x in (reward, value, *others)]
    with pytest.raises(ValueError, match='time, agent'):
        returns.lambda_advantage(*flat, 0.9, 0.9)
