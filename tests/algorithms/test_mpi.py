"""Ranks of real MPI learn together, by compiled updates."""

import json
import pathlib

import numpy as np
import pytest

SCRIPT = pathlib.Path(__file__).with_name('learn_together.py')

# What is averaged, others of `test_ranks.py` average in threads.
NAMES = [
    'ppo/average',
    'gail/average',
    'ppo/average_epochs',
    *[f'{x}/gather' for x in ('ppo', 'reinforce', 'trpo', 'acktr', 'gail')],
]


@pytest.fixture(scope='module')
def learn(run_ranks, tmp_path_factory):
    """A function that finds the weights of each rank by name."""

    def run(size, names):
        directory = tmp_path_factory.mktemp('ranks')
        found = run_ranks(directory, size, SCRIPT, *names)
        return [json.loads(text) for text in found]

    return run


@pytest.fixture(scope='module')
def one(learn):
    return learn(1, [name for name in NAMES if 'epochs' not in name])


@pytest.fixture(scope='module')
def two(learn):
    return learn(2, NAMES)


@pytest.mark.parametrize('name', [n for n in NAMES if 'epochs' not in n])
def test_two_ranks_learn_what_one_does(one, two, name):
    check(two, one, name)


def test_four_ranks_learn_what_one_does(learn, one):
    check(learn(4, ['ppo/gather']), one, 'ppo/gather')


def test_ranks_that_average_once_an_epoch_are_alike(one, two):
    first, second = [found['ppo/average_epochs'] for found in two]
    assert first == second
    # They have taken other steps than one with the rows of both.
    alone = one[0]['ppo/average']
    assert not np.allclose(first['policy'], alone['policy'], atol=1e-5)
    np.testing.assert_allclose(first['policy'], alone['policy'], atol=0.1)


def check(found, one, name):
    first, *others = [weights[name] for weights in found]
    # Each has decided by the same numbers, to the last bit.
    assert all(other['policy'] == first['policy'] for other in others)
    values = [] if name.endswith('gather') else first['value']
    assert all(other['value'] == values for other in others)
    for part in ('policy', 'value'):
        np.testing.assert_allclose(
            first[part], one[0][name][part], atol=1e-5, err_msg=name
        )
