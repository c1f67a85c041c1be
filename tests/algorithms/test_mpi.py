"""Ranks of real MPI learn together, by compiled updates."""

import json
import pathlib

import numpy as np
import pytest

SCRIPT = pathlib.Path(__file__).with_name('learn_together.py')
ALGORITHMS = 'ppo', 'reinforce', 'trpo', 'acktr'


@pytest.fixture(scope='module')
def learn(run_ranks, tmp_path_factory):
    """A function that finds the weights of each rank by algorithm."""

    def run(size, names):
        directory = tmp_path_factory.mktemp('ranks')
        found = run_ranks(directory, size, SCRIPT, *names)
        return [json.loads(text) for text in found]

    return run


@pytest.fixture(scope='module')
def one(learn):
    return learn(1, ALGORITHMS)


@pytest.mark.parametrize('size, names', [(2, ALGORITHMS), (4, ['ppo'])])
def test_ranks_learn_what_one_does(learn, one, size, names):
    found = learn(size, names)
    for name in names:
        first, *others = [weights[name] for weights in found]
        # Each has decided by the same numbers, to the last bit.
        assert others == [first] * (size - 1)
        np.testing.assert_allclose(first, one[0][name], atol=1e-5, err_msg=name)
