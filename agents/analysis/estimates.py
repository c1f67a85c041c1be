"""Estimates over several runs, with confidence intervals.

After Agarwal et al. 2021, Deep Reinforcement Learning at the Edge of the Statistical Precipice:
interquartile mean over runs and tasks, and a stratified bootstrap, which keeps the number of runs
of each task.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

# Share of the values that an interquartile mean leaves out at either end.
CUT = 0.25

# Share of the draws of a bootstrap that its interval holds.
CONFIDENCE = 0.95

# How many numbers a bootstrap draws at once.
AT_ONCE = 2**22


def mean(strata: Sequence[np.ndarray]) -> np.ndarray:
    """Mean over tasks of the means over their runs.

    Args:
        strata: Scores of each task, `[..., runs]`.

    Returns:
        `[...]`.
    """
    return np.mean([each.mean(-1) for each in strata], axis=0)


def interquartile_mean(strata: Sequence[np.ndarray]) -> np.ndarray:
    """Mean of the middle half of the scores of all runs and tasks.

    Of n scores, the lowest and highest int(n / 4) are left out, as `scipy.stats.trim_mean` does for
    rliable.
    """
    scores = np.sort(np.concatenate(strata, axis=-1), axis=-1)
    count = scores.shape[-1]
    cut = int(CUT * count)
    return scores[..., cut : count - cut].mean(-1)


def median(strata: Sequence[np.ndarray]) -> np.ndarray:
    """Median of the scores of all runs and tasks.

    rliable takes the median over tasks of their means instead.
    """
    return np.median(np.concatenate(strata, axis=-1), axis=-1)


Statistic = Callable[[Sequence[np.ndarray]], np.ndarray]

STATISTICS: Mapping[str, Statistic] = {'mean': mean, 'iqm': interquartile_mean, 'median': median}


def interval(
    strata: Sequence[np.ndarray],
    statistic: Statistic,
    confidence: float = CONFIDENCE,
    draws: int = 2000,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Confidence interval of a statistic by a stratified percentile bootstrap.

    Draws as many runs of each task as there are with replacement, the same for all points, and
    computes the statistic. The interval lies between percentiles of many draws.

    Args:
        strata: Scores of each task, `[points, runs]`.
        statistic: Function of the scores.
        confidence: Fraction of the draws within the interval.
        draws: Number of draws.
        seed: Seed of the draws.

    Returns:
        Lower and upper ends, `[points]`.
    """
    randoms = np.random.default_rng(seed).spawn(len(strata))
    runs = sum(each.shape[-1] for each in strata)
    size = max(1, AT_ONCE // runs)
    drawn = [
        _draw(strata, statistic, min(size, draws - first), randoms)
        for first in range(0, draws, size)
    ]
    tails = [50 * (1 - confidence), 50 * (1 + confidence)]
    low, high = np.percentile(np.concatenate(drawn, -1), tails, axis=-1)
    return low, high


def _draw(
    strata: Sequence[np.ndarray],
    statistic: Statistic,
    draws: int,
    randoms: Sequence[np.random.Generator],
) -> np.ndarray:
    """Compute a statistic of runs drawn with replacement, `[points, draws]`.

    Args:
        strata: Scores of each task, `[points, runs]`.
        statistic: Function of the scores.
        draws: Number of draws.
        randoms: Random generator of each task.
    """
    chosen = [
        random.integers(each.shape[-1], size=(draws, each.shape[-1]))
        for each, random in zip(strata, randoms, strict=True)
    ]
    size = max(1, AT_ONCE // sum(indices.size for indices in chosen))
    return np.concatenate(
        [
            statistic(
                [
                    each[first : first + size][:, indices]
                    for each, indices in zip(strata, chosen, strict=True)
                ]
            )
            for first in range(0, len(strata[0]), size)
        ]
    )
