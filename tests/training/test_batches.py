"""Where the environments of a training step, which changes no weight."""

import functools
import io
import math
import time

import gymnasium as gym
import pytest

from agents.terminal import console
from agents.tools.batch.env_slice import EnvSlice
from agents.tools.graph import foreign
from agents.tools.workers.external_process import ExternalProcess
from agents.tools.workers.restarts import Restarts
from agents.tools.world import ALONE
from agents.training import env_kinds
from agents.training.env_kinds import single
from agents.training.reporter import Reporter

MICRO = 1e-6


@pytest.mark.parametrize(
    'count, workers, seconds, here',
    [
        # With 2.4 µs for each environment in either place:
        (4, 2, 4 * MICRO, True),  # 26 against 13 + 25 µs.
        (8, 2, 2 * MICRO, True),  # 35 against 18 + 25 µs.
        (8, 2, 4 * MICRO, False),  # 51 against 26 + 25 µs.
        (32, 2, 4 * MICRO, False),  # 205 against 102 + 25 µs.
        (1, 1, 28 * MICRO, True),  # 30 against 30 + 25 µs.
        (1, 1, 10_000 * MICRO, False),  # Hardly quicker, so better safe.
        (8, 2, math.inf, False),
    ],
)
def test_where_it_is_quicker(count, workers, seconds, here):
    assert single.is_quicker_here(count, workers, seconds) == here


def paced(seconds):
    """Return a constructor of an environment that takes some time to step.

    It is sent by value, so that workers need not import this module.
    """

    class Paced(gym.Wrapper):
        def step(self, action):
            until = time.perf_counter() + seconds
            while time.perf_counter() < until:
                pass
            return self.env.step(action)

    return lambda: Paced(gym.make('CartPole-v1'))


@pytest.fixture
def start(tiny):
    """A function that starts the batches of a small training."""
    started = []

    def run(env_processes=None, **settings):
        config = tiny(**settings)
        stream = io.StringIO()
        says = console.Console(stream)
        made = Reporter(says)
        found = env_kinds.of(config).start_training(
            env_kinds.Request(config, env_processes, 0, made, Restarts(), ALONE)
        )
        started.extend(found)
        return found, stream.getvalue()

    yield run
    for batch in started:
        batch.close()


def members(batch):
    return {type(member) for member in batch._batch_env._members}


@pytest.mark.parametrize(
    'env_processes, settings, kind',
    [
        (None, {}, EnvSlice),
        (None, {'env': paced(1e-3)}, ExternalProcess),
        (None, {'num_workers': 1}, ExternalProcess),
        (None, {'worker_restarts': 1}, ExternalProcess),
        (True, {}, ExternalProcess),
        (False, {'env': paced(1e-3)}, EnvSlice),
    ],
)
def test_where_they_step(start, nothing_left, env_processes, settings, kind):
    found, output = start(env_processes, **settings)
    for batch in found:
        assert members(batch) == {kind}
    told = 'stepping   in this process' in output
    assert told == (env_processes is None and kind is EnvSlice)
    for batch in found:
        batch.close()


def test_slow_calls_are_told(start, monkeypatch):
    monkeypatch.setattr(foreign, 'why_not', lambda: 'It is a test.')
    _, output = start(False)
    assert (
        'stepping   slowly, as compiled programs cannot call Python here: It is a test.\n'
    ) in output


class Awkward(gym.Wrapper):
    """Is told what to do in its methods."""

    def __init__(self, **actions):
        super().__init__(gym.make('CartPole-v1'))
        self._actions = actions

    def step(self, action):
        self._actions.get('step', bool)()
        return self.env.step(action)

    def close(self):
        self._actions.get('close', bool)()


def slow(**_):
    time.sleep(0.2)
    return gym.make('CartPole-v1')


def fail():
    raise ArithmeticError('It broke.')


@pytest.mark.parametrize(
    'constructor',
    [
        slow,
        functools.partial(Awkward, step=fail),
        functools.partial(Awkward, close=functools.partial(time.sleep, 30)),
        functools.partial(Awkward, step=functools.partial(time.sleep, 30)),
    ],
    ids=['slow to make', 'raises', 'hangs in close', 'hangs in step'],
)
def test_what_cannot_be_measured_stays_in_workers(constructor):
    started = time.perf_counter()
    found = EnvSlice([constructor]).measure()
    assert not found < 1e-3
    assert time.perf_counter() - started < 20  # It does not wait for 30.


def test_measurement_disturbs_no_environment():
    envs = EnvSlice([paced(1e-3)] * 2)
    assert 1e-3 <= envs.measure() < math.inf
    for env in envs.envs:
        assert env.unwrapped.state is None
