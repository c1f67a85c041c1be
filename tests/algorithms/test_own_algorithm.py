"""An algorithm of a user's, that of the examples, in place of one by name."""

import pathlib
import shutil

import numpy as np
import pytest

import agents
from agents.config import lookup, store
from agents.tools import errors

EXAMPLE = pathlib.Path(__file__).parents[2] / 'examples' / 'actor_critic.py'


@pytest.fixture
def config():
    config = lookup.find_config(f'{EXAMPLE}:cartpole')()
    return config.copy(steps=10_000, eval_every=10_000)


@pytest.fixture
def run(config, once):
    """The directory of a run of it."""
    return once('own', lambda directory: agents.train(config, directory).run())


def test_it_learns(run):
    (score,) = agents.results(run).phase('eval')['score']
    assert score > 200  # Random actions score 22.


def test_it_has_a_hundred_lines():
    lines = [line for line in EXAMPLE.read_text().splitlines() if line]
    assert len(lines) <= 105


def test_policy_is_loaded_with_the_config_that_has_the_class(run, config):
    policy = agents.load(run, config)
    policy.reset()
    assert policy(np.zeros(4, np.float32)) in (0, 1)


def test_class_of_a_copied_run_is_not_looked_for(run, tmp_path):
    assert 'ActorCritic' in store.load_config(run).algorithm
    copied = shutil.copytree(run, tmp_path / 'copy')
    with pytest.raises(errors.ConfigError, match='trust=True'):
        agents.load(copied)


def test_complete_run_is_recognized(run, config):
    assert list(agents.train(config, run)) == []
