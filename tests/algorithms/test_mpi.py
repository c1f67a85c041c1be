"""Ranks of real MPI learn together, by compiled updates."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

SCRIPT = pathlib.Path(__file__).with_name('learn_together.py')
MPIEXEC = pathlib.Path(sys.executable).with_name('mpiexec')
ALGORITHMS = 'ppo', 'reinforce', 'trpo', 'acktr'


def learn(names, *launcher):
    """The weights by algorithm and rank."""
    result = subprocess.run(
        [*launcher, sys.executable, SCRIPT, *names],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    lines = map(json.loads, result.stdout.splitlines())
    return {(name, rank): weights for name, rank, weights in lines}


@pytest.fixture(scope='module')
def alone():
    return learn(ALGORITHMS)


@pytest.mark.parametrize('size, names', [(2, ALGORITHMS), (4, ['ppo'])])
def test_ranks_learn_what_one_does(alone, size, names):
    found = learn(names, MPIEXEC, '-n', str(size))
    for name in names:
        for rank in range(size):
            # Each has decided by the same numbers, to the last bit.
            assert found[name, rank] == found[name, 0]
        np.testing.assert_allclose(
            found[name, 0], alone[name, 0], atol=1e-5, err_msg=name
        )
