"""The contract of algorithms, and how they are found."""

import pytest

from agents import algorithms
from agents.algorithms.algorithm import Algorithm
from agents.tools import errors
from agents.tools.graph.backend import tf


@pytest.mark.parametrize('name', algorithms.ALGORITHMS)
def test_algorithms_are_found_by_name(name):
    kind = algorithms.find(name)
    assert kind.__name__ == algorithms.ALGORITHMS[name]
    assert issubclass(kind, Algorithm)


def test_misspelt_algorithm_is_refused_with_the_nearest():
    with pytest.raises(errors.ConfigError, match=r"'pppo'.*'ppo'"):
        algorithms.find('pppo')


def test_only_acting_has_to_be_defined():
    algo, mask = Algorithm(), tf.zeros(3, bool)
    algo.restart()
    algo.begin_episode(mask)
    algo.experience(None, mask, None)
    algo.end_episode(mask)
    assert algo.update() == {}
    assert algo.summary() == {}
    assert algo.failure() is None
    assert algo.is_finite()
    with pytest.raises(NotImplementedError):
        algo.perform(tf.zeros(3))
