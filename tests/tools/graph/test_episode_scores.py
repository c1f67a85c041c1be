"""Scores of episodes are those of the rewards, and so is their spread."""

import numpy as np
import pytest

from agents.tools.graph.backend import tf
from agents.tools.graph.episode_scores import EpisodeScores


def numbers(scores):
    return {name: float(value) for name, value in scores.clear().items()}


def means(scores):
    results = numbers(scores)
    return {name: results[name] for name in ('episodes', 'score', 'length')}


def submit(scores, *steps):
    for reward, done, *lost in steps:
        scores.submit(
            tf.constant(reward, tf.float32),
            tf.constant(done),
            tf.constant(lost[0] if lost else [False] * len(done)),
        )


def test_scores_of_episodes():
    #   step        1     2     3     4     5
    #   agent 0     1     2   | 3     4     5 |     3 and 12, 2 and 3 steps
    #   agent 1    10  | 20    30    40  | 50       10 and 90, 1 and 3 steps
    scores = EpisodeScores(2)
    steps = [
        ([1, 10], [False, True]),
        ([2, 20], [True, False]),
        ([3, 30], [False, False]),
        ([4, 40], [False, True]),
        ([5, 50], [True, False]),
    ]
    submit(scores, *steps)
    assert means(scores) == {
        'episodes': 4,
        'score': (3 + 12 + 10 + 90) / 4,
        'length': (2 + 3 + 1 + 3) / 4,
    }


def test_scores_of_episodes_that_run_on():
    scores = EpisodeScores(2)
    submit(scores, ([1, 10], [False, False]), ([2, 20], [False, False]))
    nothing = {'episodes': 0, 'score': 0, 'length': 0}
    assert means(scores) == nothing
    submit(scores, ([4, 40], [True, False]))  # What came before counts.
    assert means(scores) == {'episodes': 1, 'score': 7, 'length': 3}
    assert means(scores) == nothing
    submit(scores, ([8, 80], [False, True]))
    assert means(scores) == {'episodes': 1, 'score': 150, 'length': 4}


def test_scores_of_a_number_of_episodes_per_agent():
    scores = EpisodeScores(2)
    submit(scores, ([100, 100], [False, False]))
    scores.restart(episodes=2)  # Nothing of before counts.
    assert scores.counting.numpy().tolist() == [True, True]
    submit(scores, ([1, 10], [True, False]), ([2, 20], [True, False]))
    assert scores.counting.numpy().tolist() == [False, True]
    submit(scores, ([3, 30], [True, True]), ([4, 40], [True, True]))
    assert scores.counting.numpy().tolist() == [False, False]
    # 1, 2 of the one; 10 + 20 + 30, 40 of the other.
    assert means(scores) == {
        'episodes': 4,
        'score': (1 + 2 + 60 + 40) / 4,
        'length': (1 + 1 + 3 + 1) / 4,
    }


def test_scores_without_limit_after_one():
    scores = EpisodeScores(1)
    scores.restart(episodes=1)
    scores.restart()
    submit(scores, *[([1], [True])] * 3)
    assert means(scores) == {'episodes': 3, 'score': 1, 'length': 1}


def test_scores_of_episodes_whose_last_step_was_lost():
    scores = EpisodeScores(2)
    scores.restart(episodes=1)
    no, yes = [False, False], [True, False]
    submit(scores, ([1, 10], no), ([0, 20], yes, yes))
    assert means(scores)['episodes'] == 0
    assert scores.counting.numpy().tolist() == [True, True]
    submit(scores, ([3, 30], yes))  # Nothing of the lost episode counts.
    assert means(scores) == {'episodes': 1, 'score': 3, 'length': 1}
    assert scores.counting.numpy().tolist() == [False, True]


@pytest.mark.parametrize('jit_compile', [None, False, True])
def test_spread_of_scores(subtests, jit_compile):
    random = np.random.default_rng(0)
    normal = random.normal(size=(15, 9))
    done = random.random((15, 9)) < 0.3
    scores = EpisodeScores(9)

    def run(rewards):
        for reward, ended in zip(tf.unstack(rewards), done, strict=True):
            scores.submit(reward, ended, tf.zeros(9, bool))
        return scores.clear()

    if jit_compile is not None:
        run = tf.function(run, autograph=False, jit_compile=jit_compile)
    for offset in (0.0, -3.0, 1e5):
        rewards = np.float32(normal + offset)
        scores.restart()
        results = run(tf.constant(rewards))
        ends, running = [], np.zeros(9)
        for reward, ended in zip(rewards, done, strict=True):
            running += reward
            ends.extend(running[ended])
            running[ended] = 0
        assert results['episodes'] == len(ends) > 20
        expected = {
            'score': np.mean(ends),
            'score_std': np.std(ends),
            'score_min': np.min(ends),
            'score_max': np.max(ends),
        }
        for name, value in expected.items():
            with subtests.test(offset=offset, name=name):
                found = float(results[name])
                assert found == pytest.approx(value, rel=1e-5)


def test_spread_beside_large_scores():
    # In 32 bits the squares would be 1e12 give or take 65,536.
    scores = EpisodeScores(3)
    submit(scores, ([1e6 - 1, 1e6, 1e6 + 1], [True, True, True]))
    results = numbers(scores)
    assert results['score_std'] == pytest.approx((2 / 3) ** 0.5, rel=1e-3)
    assert results['score_max'] - results['score_min'] == 2


def test_equal_scores_have_no_spread():
    scores = EpisodeScores(3)
    for _ in range(7):
        submit(scores, ([0.1] * 3, [True] * 3))
    results = numbers(scores)
    assert results['score_std'] == pytest.approx(0, abs=1e-8)
    assert results['score_min'] == results['score_max'] == np.float32(0.1)


def test_no_episodes_are_zeros_and_can_be_saved():
    scores = EpisodeScores(2)
    submit(scores, ([-1, -2], [True, True]))
    scores.clear()
    assert not any(numbers(scores).values())
    for variable in scores.variables:
        assert np.isfinite(variable).all()
    # The spread begins anew.
    submit(scores, ([-5, -7], [True, True]))
    results = numbers(scores)
    assert (results['score_min'], results['score_max']) == (-7, -5)
