"""The losses of PPO, computed by hand."""

import numpy as np
import pytest

from agents.algorithms.ppo import losses
from agents.tools.graph.backend import tf


@pytest.mark.parametrize(
    ('ratio', 'advantage', 'expected', 'slope'),
    [
        # Within the range, as it is.
        (1.1, 2.0, -2.2, -2.0),
        (0.9, -1.0, 0.9, 1.0),
        # Better than allowed: no more than at the limit, and no gradient.
        (1.5, 2.0, -2.4, 0.0),
        (0.5, -1.0, 0.8, 0.0),
        # Worse than before counts in full.
        (0.5, 2.0, -1.0, -2.0),
        (1.5, -1.0, 1.5, 1.0),
    ],
)
def test_clipped_surrogate(ratio, advantage, expected, slope):
    ratio = tf.constant([ratio])
    with tf.GradientTape() as tape:
        tape.watch(ratio)
        loss = losses.clipped_surrogate(ratio, tf.constant([advantage]), 0.2)
    np.testing.assert_allclose(loss, expected, rtol=1e-6)
    np.testing.assert_allclose(tape.gradient(loss, ratio), [slope])


def test_kl_estimate_is_that_of_schulman():
    ratio = np.array([0.5, 1.0, 2.0])
    expected = np.mean((ratio - 1) - np.log(ratio))  # (0.193 + 0 + 0.307) / 3
    found = losses.kl_estimate(tf.constant(np.log(ratio), tf.float32))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    # By more and more actions it comes near the divergence itself.
    old, new = np.array([0.2, 0.3, 0.5]), np.array([0.3, 0.3, 0.4])
    actions = np.random.default_rng(0).choice(3, 100_000, p=old)
    log_ratio = np.log(new / old)[actions].astype(np.float32)
    divergence = np.sum(old * np.log(old / new))
    np.testing.assert_allclose(losses.kl_estimate(log_ratio), divergence, rtol=0.02)


def test_clipped_surrogate_is_a_mean():
    ratio, advantage = tf.constant([[1.0], [2.0]]), tf.constant([[3.0], [-5.0]])
    loss = losses.clipped_surrogate(ratio, advantage, 0.2)
    np.testing.assert_allclose(loss, -(3 - 10) / 2)


@pytest.mark.parametrize(
    ('kl', 'expected'),
    [
        (0.0, 0.0),
        # Twice the divergence, and nothing more up to 3 · 0.01.
        (0.02, 0.04),
        (0.03, 0.06),
        # 100 (0.05 − 0.03)² more.
        (0.05, 0.1 + 0.04),
    ],
)
def test_penalized_surrogate(kl, expected):
    ratio, advantage = tf.constant([1.5, 0.5]), tf.constant([2.0, -3.0])
    loss = losses.penalized_surrogate(
        ratio,
        advantage,
        tf.constant(kl),
        tf.constant(2.0),
        target=0.01,
        cutoff_factor=3.0,
        cutoff_coef=100.0,
    )
    np.testing.assert_allclose(loss, -(3 - 1.5) / 2 + expected, rtol=1e-5)


@pytest.mark.parametrize(
    ('penalty', 'kl', 'expected'),
    [
        # With a target of 0.1: within 0.07 to 0.13 as it is.
        (2.0, 0.10, 2.0),
        (2.0, 0.08, 2.0),
        (2.0, 0.12, 2.0),
        (2.0, 0.14, 3.0),
        (3.0, 0.06, 2.0),
        (3.0, 0.0, 2.0),
        # The limits.
        (900.0, 0.5, 1000.0),
        (1.2e-3, 0.0, 1e-3),
    ],
)
def test_adapted_penalty(penalty, kl, expected):
    result = losses.adapted_penalty(tf.constant(penalty), tf.constant(kl), 0.1)
    np.testing.assert_allclose(result, expected, rtol=1e-6)
