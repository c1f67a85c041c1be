"""Inspections in a process of their own, of environments that end it."""

import ctypes
import functools
import os
import re
import sys
import threading
import time

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest

from agents.tools import errors
from agents.tools.checking import inspection, inspection_worker

# The process cannot import this file, so what it defines is sent whole.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Harmful(gym.Env):
    """Calls a function in a method of its seventh step, or in another one."""

    observation_space = gym.spaces.Box(-1, 1, (2,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, harm=lambda: None, moment='step', pause=0.0):
        self._harm, self._moment, self._pause = harm, moment, pause
        self._steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._observe(), {}

    def step(self, action):
        time.sleep(self._pause)
        self._steps += 1
        if self._moment == 'step' and self._steps == 7:
            self._harm()
        return self._observe(), 1.0, self._steps % 5 == 0, False, {}

    def close(self):
        if self._moment == 'close':
            self._harm()

    def _observe(self):
        return self.np_random.uniform(-1, 1, 2).astype(np.float32)


def inspect(*settings, seconds=30.0, steps=20, **more):
    return inspection_worker.inspect(
        inspection.inspect, seconds, make=functools.partial(Harmful, *settings, **more), steps=steps
    )


def interrupt():
    raise KeyboardInterrupt


def wait():
    time.sleep(1000)


@pytest.mark.parametrize(
    'harm, moment, told',
    [
        (lambda: os._exit(0), 'step', 'exited with code 0 in step'),
        (lambda: ctypes.string_at(0), 'step', 'killed by SIGSEGV in step'),
        (os.fork, 'step', 'has called os.fork, and both'),
        (interrupt, 'step', 'step raised, .* KeyboardInterrupt'),
        (wait, 'step', 'step did not return within [1-9] seconds'),
        (wait, 'close', 'close did not return within [1-9] seconds'),
    ],
    ids=['exit', 'crash', 'fork', 'interrupt', 'hang', 'close'],
)
def test_whatever_ends_the_process_is_told(monkeypatch, harm, moment, told):
    monkeypatch.setattr(inspection_worker, 'GRACE_SECONDS', 0.5)
    seconds = 1.0 if harm is wait else 30.0
    report = inspect(harm, moment, seconds=seconds)
    breach = report.breaches[0]
    assert breach.kind in ('death', 'fork', 'error', 'hang')
    assert re.search(told, breach.text)
    if moment == 'step' and harm is not os.fork:
        assert (breach.episode, breach.step) == (2, 2)


def test_slow_environment_is_reported_in_part():
    report = inspect(pause=0.05, steps=1000, seconds=2.0)
    assert not report.breaches
    assert 0 < report.steps < 1000 and report.seconds < 2
    assert 0 < report.repeated < 300


def test_report_is_that_of_this_process(capfd):
    def make():
        print('\x1b[2Jloud')
        return Harmful()

    found = inspection_worker.inspect(inspection.inspect, make=make, steps=30, seed=3)
    said = capfd.readouterr()
    assert not said.out and 'loud' in said.err
    expected = inspection.inspect(make, 30, 3)
    assert found.observation_space == expected.observation_space
    assert [seen.mean for seen in found.observ] == [seen.mean for seen in expected.observ]
    for name in ('lengths', 'scores', 'steps', 'repeated', 'breaches'):
        assert getattr(found, name) == getattr(expected, name)
    assert len(found.step_seconds) == found.reward.count == 30


def test_environment_that_cannot_be_sent():
    with pytest.raises(errors.ConfigError, match='cannot be sent'):
        inspect(threading.Lock())
