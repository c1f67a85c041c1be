"""Ranks of real MPI learn together, by compiled updates."""

import json
import pathlib

import numpy as np
import pytest

SCRIPT = pathlib.Path(__file__).with_name('learn_together.py')

# `test_ranks.py` has those that average in threads, for the default tier.
OTHERS = ['gail/average', *[f'{x}/gather' for x in ('ppo', 'reinforce', 'trpo', 'acktr', 'gail')]]


@pytest.fixture
def learn(run_ranks, tmp_path):
    """A function that finds the weights of each rank by name."""

    def run(size, *names):
        directory = tmp_path / str(size)
        directory.mkdir()
        found = run_ranks(directory, size, SCRIPT, *names)
        return [json.loads(text) for text in found]

    return run


@pytest.mark.slow
@pytest.mark.parametrize(('size', 'names'), [(2, ['ppo/average', *OTHERS]), (4, ['ppo/gather'])])
def test_ranks_learn_what_one_does(learn, size, names):
    found, [one] = learn(size, *names), learn(1, *names)
    for name in names:
        check([weights[name] for weights in found], one[name], name)


@pytest.mark.slow
def test_ranks_that_average_once_an_epoch_are_alike(learn):
    found = learn(2, 'ppo/average_epochs')
    first, second = [weights['ppo/average_epochs'] for weights in found]
    assert first == second
    # They have taken other steps than one with the rows of both.
    alone = learn(1, 'ppo/average')[0]['ppo/average']
    assert not np.allclose(first['policy'], alone['policy'], atol=1e-5)
    np.testing.assert_allclose(first['policy'], alone['policy'], atol=0.1)


def check(found, one, name):
    first, *others = found
    # Each has decided by the same numbers, to the last bit.
    assert all(other['policy'] == first['policy'] for other in others)
    values = [] if name.endswith('gather') else first['value']
    assert all(other['value'] == values for other in others)
    for part in ('policy', 'value'):
        np.testing.assert_allclose(first[part], one[part], atol=1e-5, err_msg=name)
