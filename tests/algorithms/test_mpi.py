"""Ranks of real MPI learn together, by compiled updates."""

import json
import pathlib

import numpy as np
import pytest

SCRIPT = pathlib.Path(__file__).with_name('learn_together.py')
ALGORITHMS = 'ppo', 'reinforce', 'trpo', 'acktr'


@pytest.fixture(scope='module')
def learn(run_ranks):
    """A function that finds the weights, by algorithm and rank."""

    def run(size, names):
        lines = map(json.loads, run_ranks(size, SCRIPT, *names))
        return {(name, rank): weights for name, rank, weights in lines}

    return run


@pytest.fixture(scope='module')
def one(learn):
    return learn(1, ALGORITHMS)


@pytest.mark.parametrize('size, names', [(2, ALGORITHMS), (4, ['ppo'])])
def test_ranks_learn_what_one_does(learn, one, size, names):
    found = learn(size, names)
    for name in names:
        for rank in range(size):
            # Each has decided by the same numbers, to the last bit.
            assert found[name, rank] == found[name, 0]
        np.testing.assert_allclose(
            found[name, 0], one[name, 0], atol=1e-5, err_msg=name
        )
