"""Numbers of infos in what a training reports."""

import csv
import io
import itertools
import math

import gymnasium as gym
import numpy as np
import pytest

from agents.terminal import console
from agents.tools import errors
from agents.tools.batch.infos import Means
from agents.tools.world import ALONE, World
from agents.training import info_means, plan
from agents.training.reporter import Reporter
from agents.training.session import Session


class Walk(gym.Env):
    """Episodes of four steps and of two in turns, which half of them begin."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    made = itertools.count()

    def __init__(self):
        self._episode = next(self.made)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._episode, self._time = self._episode + 1, 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self._time += 1
        short = self._episode % 2 == 0
        over = self._time == (2 if short else 4)
        info = {'time': self._time, 'parts': {'ten': 10}}
        if over:
            info['is_success'] = short
        return np.zeros(1, np.float32), 1.0, over, False, info


@pytest.fixture
def run(tiny, tmp_path, eagerly):
    """A function that trains for a moment.

    It returns the numbers of each report, the rows of the table and what was
    told.
    """

    def go(names, steps=24):
        config = tiny(
            env=Walk, log_info=names, update_every=6, batch_size=6, steps=steps, eval_every=24
        )
        stream = io.StringIO()
        terminal = console.Console(stream)
        reporter = Reporter(terminal)
        scores = [*Session(config, tmp_path, False, reporter=reporter).scores()]
        with open(tmp_path / 'progress.csv', newline='') as file:
            rows = list(csv.DictReader(file))
        told = [x for x in stream.getvalue().splitlines() if 'log_info' in x]
        return [score.report.metrics for score in scores], rows, told

    return go


def test_means_are_reported(run):
    names = ['time', 'parts/ten', 'is_success', 'is_succes']
    (training, evaluation), rows, told = run(names)
    # Of twelve steps of both, one begins with four and one with two: the times
    # of six steps are 1 2 3 4 1 2 and 1 2 1 2 3 4.
    assert training['info/time'] == pytest.approx(13 / 6)
    assert training['info/is_success'] == 0.5
    # The evaluation is of one episode of each, of two steps and of four.
    assert evaluation['info/time'] == pytest.approx((1 + 2 + 10) / 6)
    assert evaluation['info/is_success'] == 0.5
    for metrics, row in zip((training, evaluation), rows, strict=True):
        assert metrics['info/parts/ten'] == 10
        assert float(row['info/time']) == pytest.approx(13 / 6, rel=1e-5)
        assert math.isnan(metrics['info/is_succes'])
        assert row['info/is_succes'] == ''
    (line,) = told
    assert line.endswith("no info has had 'is_succes' so far; did you mean 'is_success'?")


@pytest.mark.slow
def test_names_may_be_added_when_a_run_is_resumed(run):
    metrics, rows, told = run([])
    assert not any('info' in name for part in metrics for name in part)
    assert not any('info' in name for name in rows[0]) and not told
    _, rows, told = run(['time'], steps=48)
    assert [bool(row['info/time']) for row in rows] == [False] * 2 + [True] * 2
    assert not told


class Fake:
    def __init__(self, *rows, names=()):
        self.infos = Means(['x', 'y'], 1)
        for row in rows:
            self.infos.add(np.float32([row]), np.zeros(1, bool))
        self._names = names

    def info_names(self):
        return list(self._names)


class Pair(World):
    """This rank and another, which has had 5 for x three times."""

    def gather(self, value):
        return [value, [[15.0, 0.0], [3.0, 0.0]]]


@pytest.mark.parametrize('ranks, expected', [(ALONE, 1.0), (Pair(), 4.0)], ids=['one', 'two'])
def test_means_are_those_of_all_ranks(ranks, expected):
    told = []
    envs = {'train': Fake([1, math.nan], names=['z', 'yy']), 'eval': Fake(names=['y y'])}

    def say(*words):
        told.append(words)

    means = info_means.InfoMeans(['x', 'y'], envs, say, ranks)
    numbers = means.take('train')
    assert numbers['info/x'] == expected and math.isnan(numbers['info/y'])
    assert not told
    means.take('eval')
    means.take('eval')
    (line,) = told
    assert line[1].startswith("no info has had 'y' so far; did you mean 'y")


def test_native_environments_have_none(tiny):
    with pytest.raises(errors.ConfigError, match='a native one has no info'):
        plan.require_valid(tiny(env='native:CartPole-v1', log_info=['x']))
