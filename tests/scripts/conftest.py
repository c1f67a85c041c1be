"""Runs that several tests look at, each trained once in the whole suite."""

import contextlib
import json
import pathlib
from typing import NamedTuple

import pytest

import agents
from agents.scripts import configs
from agents.tools.graph.backend import tf
from agents.tools.runs import checkpoints, tensors
from agents.training import storage

# Settings of a training of a moment.
TINY = {
    'max_length': 10,
    'num_agents': 2,
    'update_every': 5,
    'steps': 40,
    'batch_size': 5,
    'update_epochs': 1,
    'eval_every': 20,
    'log_every': 1000,  # So that train and eval take turns.
    'eval_episodes': 2,
    'policy_layers': [4],
    'value_layers': [4],
}


class Trained(NamedTuple):
    """A run and what its command has printed."""

    directory: pathlib.Path
    code: int
    output: str
    problems: str


@contextlib.contextmanager
def step_by_step():
    """Run what would be compiled step by step, which saves compiling it."""
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)


@pytest.fixture(scope='session')
def train_once(once):
    """A function that trains eagerly, once in all processes of the suite.

    It returns the directory of the run, which nobody may change.
    """

    def run(name, config):
        def train(directory):
            with step_by_step():
                agents.train(config, directory, env_processes=False).run()

        return once(name, train)

    return run


@pytest.fixture(scope='session')
def debug_run(once, run_python):
    """The debug config, trained on the command line in an empty directory."""

    def train(place):
        home = place / 'home'
        home.mkdir()
        words = '-m', 'agents.scripts.train', '--config=debug'
        words = *words, '--timestamp=now'
        finished = run_python(*words, cwd=home, timeout=900)
        assert not finished.code, finished.problems
        (place / 'finished').write_text(json.dumps(finished))

    place = once('debug', train)
    directory = place / 'home' / 'logdir' / 'now-debug'
    return Trained(directory, *json.loads((place / 'finished').read_text()))


@pytest.fixture(scope='session')
def native_run(train_once):
    """A native pendulum, trained for a moment."""
    config = configs.pendulum_native().copy(
        num_agents=2, steps=64, update_every=16, eval_every=32, batch_size=32,
        max_length=20, update_epochs=1, log_every=32,
    )  # fmt: skip
    return train_once('native', config)


@pytest.fixture(scope='session')
def tiny_run(train_once):
    """A complete run of the settings of `tiny`."""
    return train_once('tiny', configs.ppo(**TINY))


@pytest.fixture
def tiny():
    """A function that makes settings for a training of a moment."""

    def make(**changes):
        return configs.ppo(**{**TINY, **changes})

    return make


@pytest.fixture
def checkpoint():
    """A function that reads all that a checkpoint of a run holds, by name."""

    def read(directory, step=None):
        step = storage.last_checkpoint(directory) if step is None else step
        path = pathlib.Path(directory) / storage.CHECKPOINTS / f'{step:012d}'
        file = path / checkpoints.TENSORS
        return tensors.read(file, tensors.specs(file))

    return read
