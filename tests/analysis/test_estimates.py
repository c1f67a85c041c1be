"""Statistics of several runs, beside ones written down and naive ones."""

import numpy as np
import pytest

from agents.analysis import estimates


def naive_interval(strata, statistic, draws, seed):
    """One draw after another, as a stratified bootstrap is described."""
    randoms = np.random.default_rng(seed).spawn(len(strata))
    chosen = [
        random.integers(each.shape[1], size=(draws, each.shape[1]))
        for each, random in zip(strata, randoms, strict=True)
    ]
    found = []
    for draw in range(draws):
        drawn = [
            np.array([[row[run] for run in indices[draw]] for row in each])
            for each, indices in zip(strata, chosen, strict=True)
        ]
        found.append(statistic(drawn))
    return np.percentile(found, 2.5, axis=0), np.percentile(found, 97.5, axis=0)


@pytest.mark.parametrize(
    'scores, expected',
    [
        ([7], 7),
        ([1, 9], 5),
        ([0, 1, 5], 2),  # int(3 / 4) = 0 are left out.
        ([9, 0, 2, 4], 3),  # The 0 and the 9 are.
        ([100, 1, 2, 3, -100], 2),
        ([8, 1, 2, 3, 4, 5, 6, 7], 4.5),  # 3, 4, 5 and 6 are left.
    ],
)
def test_interquartile_mean_leaves_out_a_quarter_at_each_end(scores, expected):
    assert estimates.interquartile_mean([np.array(scores)]) == expected


def test_interquartile_mean_is_that_of_rliable():
    # scipy.stats.trim_mean(scores, proportiontocut=0.25, axis=None) of runs
    # and tasks together: -4, 1, (2, 3, 5, 6), 7, 90.
    tasks = [np.array([2.0, 90, 5, -4]), np.array([1.0, 3, 6, 7])]
    assert estimates.interquartile_mean(tasks) == 4


def test_mean_counts_tasks_alike_and_median_runs():
    tasks = [np.array([0.0, 0, 0]), np.array([4.0])]
    assert estimates.mean(tasks) == 2
    assert estimates.median(tasks) == 0
    assert estimates.median([np.array([1.0, 2, 9])]) == 2


@pytest.mark.parametrize('name', estimates.STATISTICS)
def test_interval_is_that_of_a_naive_bootstrap(name, monkeypatch):
    random = np.random.default_rng(1)
    strata = [random.normal(size=(7, 5)), random.normal(3, size=(7, 3))]
    statistic = estimates.STATISTICS[name]
    expected = naive_interval(strata, statistic, 50, 3)
    found = estimates.interval(strata, statistic, draws=50, seed=3)
    np.testing.assert_allclose(found, expected)
    monkeypatch.setattr(estimates, 'AT_ONCE', 1)  # One draw after another.
    again = estimates.interval(strata, statistic, draws=50, seed=3)
    np.testing.assert_allclose(again, expected)


def test_interval_keeps_tasks_apart():
    # Each draw has one run of each task, and so the same mean.
    strata = [np.array([[1.0, 1, 1]]), np.array([[9.0, 9]])]
    low, high = estimates.interval(strata, estimates.mean)
    assert low == high == 5


def test_interval_of_a_mean_has_the_expected_width():
    # The mean of n numbers has a standard error of their deviation / sqrt(n).
    scores = np.random.default_rng(0).normal(10, 2, size=(1, 400))
    low, high = estimates.interval([scores], estimates.mean)
    error = scores.std() / 20
    np.testing.assert_allclose(high - low, 2 * 1.96 * error, rtol=0.1)
    np.testing.assert_allclose((low + high) / 2, scores.mean(), rtol=0.01)
