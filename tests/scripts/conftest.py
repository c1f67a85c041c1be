"""Commands as a user runs them, and one run that several tests look at."""

import pathlib
import subprocess
import sys
from typing import NamedTuple

import pytest

import agents
from agents.scripts import configs, utility
from agents.tools.graph.backend import tf


class Finished(NamedTuple):
    """What is left of a command."""

    directory: pathlib.Path
    code: int
    output: str
    problems: str


@pytest.fixture
def eagerly():
    """Runs what would be compiled step by step, which saves compiling it."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture(scope='session')
def debug_run(tmp_path_factory):
    """The debug config, trained on the command line in an empty directory."""
    home = tmp_path_factory.mktemp('debug')
    command = [sys.executable, '-m', 'agents.scripts.train', '--config=debug']
    result = subprocess.run(
        [*command, '--timestamp=now'],
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not result.returncode, result.stderr
    directory = home / 'logdir' / 'now-debug'
    return Finished(directory, result.returncode, result.stdout, result.stderr)


@pytest.fixture(scope='session')
def native_run(tmp_path_factory):
    """A native pendulum, trained for a moment."""
    directory = tmp_path_factory.mktemp('native')
    config = configs.pendulum_native().copy(
        num_agents=2, steps=64, update_every=16, eval_every=32, batch_size=32,
        max_length=20, update_epochs=1, log_every=32,
    )  # fmt: skip
    tf.config.run_functions_eagerly(True)
    for _ in agents.train(config, directory):
        pass
    tf.config.run_functions_eagerly(False)
    return directory


@pytest.fixture
def tiny():
    """A function that makes settings for a training of a moment."""

    def make(**changes):
        small = {
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
        return configs.ppo(**{**small, **changes})

    return make


@pytest.fixture
def checkpoint():
    """A function that reads all that a checkpoint of a run holds, by name."""

    def read(directory, step=None):
        step = utility.last_checkpoint(directory) if step is None else step
        path = pathlib.Path(directory) / utility.CHECKPOINTS / f'{step:012d}'
        reader = tf.train.load_checkpoint(str(path / 'variables'))
        names = reader.get_variable_to_shape_map()
        return {name: reader.get_tensor(name) for name in names}

    return read
