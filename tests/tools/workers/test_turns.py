"""Two processes that take turns, awake, asleep, and on other processors."""

import mmap
import sys
import time

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest

from agents.tools.batch.batch_env import BatchEnv
from agents.tools.workers import channel, turns
from agents.tools.workers.external_process import ExternalProcess

# Workers cannot import this file, so what it defines is sent to them whole.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def both():
    memory = mmap.mmap(-1, turns.SIZE)
    return turns.Turns(memory), turns.Turns(memory)


def test_request_and_reply(both):
    parent, worker = both
    assert not worker.is_asked(0)
    assert not parent.ask(1, turns.STEP)
    assert worker.is_asked(0)
    assert (worker.asked, worker.kind) == (1, turns.STEP)
    worker.current[0] = 7
    assert not parent.is_answered(1)
    assert not worker.answer(1)
    assert parent.is_answered(1)
    assert (parent.answered, parent.current[0]) == (1, 7)
    assert not parent.is_answered(2)


def test_who_sleeps_has_to_be_woken_up(both):
    parent, worker = both
    worker.let_worker_sleep(True)
    assert parent.ask(1, turns.RESET)
    worker.let_worker_sleep(False)
    parent.let_parent_sleep(1)
    assert worker.answer(1)
    assert not parent.ask(2, turns.STEP)  # Who asks is awake again.
    assert not worker.answer(2)


def test_who_sleeps_is_not_woken_up_by_an_earlier_reply(both):
    parent, worker = both
    parent.ask(1, turns.STEP)
    numbers = worker._numbers

    class WithoutACoreBeforeItLooks:
        def __setitem__(self, place, value):
            numbers[place] = value
            assert parent.is_answered(1)
            parent.ask(2, turns.STEP)
            parent.let_parent_sleep(2)

        def __getitem__(self, place):
            return numbers[place]

    worker._numbers = WithoutACoreBeforeItLooks()
    assert not worker.answer(1)
    worker._numbers = numbers
    assert worker.answer(2)


def test_everybody_is_woken_up_where_order_is_not_kept(both, monkeypatch):
    monkeypatch.setattr(turns, 'IN_ORDER', False)
    parent, worker = both
    assert parent.ask(1, turns.STEP)
    assert not worker.is_asked(0)
    assert worker.answer(1)
    assert not parent.is_answered(1)
    assert (worker.asked, parent.answered) == (1, 1)


class Counting(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = gym.spaces.Discrete(9)

    def __init__(self, in_order, seconds):
        turns.IN_ORDER = in_order
        self._seconds = seconds

    def reset(self, *, seed=None, options=None):
        self._count = 0
        return np.zeros(1), {}

    def step(self, action):
        time.sleep(self._seconds)
        self._count += action
        return np.float32([self._count]), 0.0, False, False, {}


@pytest.mark.parametrize('in_order', [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize('awake', [0.0, 1e-3])
@pytest.mark.parametrize('pause', [0.0, 3e-3])
@pytest.mark.parametrize('seconds', [0.0, 3e-3])
def test_steps_are_answered_whoever_sleeps(
    nothing_left, monkeypatch, in_order, awake, pause, seconds
):
    monkeypatch.setattr(turns, 'IN_ORDER', in_order)
    monkeypatch.setattr(channel, 'AWAKE_SECONDS', awake)
    # One is quick, so that it has answered long before the other does.
    processes = [
        ExternalProcess([lambda s=s: Counting(in_order, s)], first=index)
        for index, s in enumerate((0.0, seconds))
    ]
    batch = BatchEnv(processes)
    batch.reset()
    for number in range(1, 30):
        observ, *_ = batch.step(np.array([1, 2]))
        assert observ[:, 0].tolist() == [number, 2 * number]
        if number % 7 == 0:
            assert batch.call('_count') == [number, 2 * number]
        time.sleep(pause)
    batch.close()
