"""The environment in the documentation does what is said there."""

import pathlib
import re

import numpy as np
import pytest

from agents.config import lookup
from agents.tools.graph import random
from agents.tools.graph.backend import compiled, tf
from agents.training import env_setup

PAGE = pathlib.Path(__file__).parents[2] / 'docs' / 'environments.md'


@pytest.fixture(scope='module')
def code():
    return re.findall(r'```python\n(.*?)```', PAGE.read_text(), re.DOTALL)


@pytest.fixture
def config(code, tmp_path):
    example, render = code
    before, end, after = example.partition('        return state\n')
    path = tmp_path / 'hover.py'
    path.write_text(f'{before}{end}\n{render}{after}')
    return lookup.find_config(f'{path}:hover')()


def test_it_has_thirty_lines(code):
    lines = [line for line in code[0].splitlines() if line]
    assert len(lines) <= 30


def test_the_config_leads_to_the_class(config):
    assert env_setup.is_native(config)
    assert type(env_setup.native(config)).__name__ == 'Hover'


def test_it_steps_as_one_program(config):
    env = env_setup.native(config)

    @compiled
    def step(state, action):
        return env.step(state, action, random.key(0, 'step', 0))

    state = env.reset(random.key(0, 'reset', 0), 5)
    after, reward, terminated = step(state, tf.zeros((5, 1)))
    assert after.shape == (5, 2)
    assert (reward.numpy() <= 1).all()
    assert not terminated.numpy().any()
    after, reward, terminated = step(state + [4.0, 0.0], tf.zeros((5, 1)))
    assert (reward.numpy() == -10).all()
    assert terminated.numpy().all()


def test_frames(config):
    env = env_setup.native(config)
    frames = [env.render(np.float32([height, 0])) for height in (-2, 0, 2)]
    rows = [np.flatnonzero(frame[:, 80, 0] == 0).mean() for frame in frames]
    assert rows == [219.5, 119.5, 19.5]
