"""Masks of actions that single environments tell, or should have told."""

import gymnasium as gym
import pytest
from gymnasium.envs.toy_text.cliffwalking import CliffWalkingEnv
from gymnasium.envs.toy_text.taxi import TaxiEnv

from agents.tools import errors
from agents.tools.batch import wrappers
from agents.tools.batch.masking import Masking

MASK = {'action_mask': [1, 1, 1, 1]}


class Late(gym.Wrapper):
    """Tells a mask after some steps and resets.

    Args:
        steps: After so many steps.
        resets: After so many resets.
    """

    def __init__(self, steps=1000, resets=1000):
        super().__init__(CliffWalkingEnv())
        self._left = {'step': steps, 'reset': resets}

    def reset(self, **kwargs):
        return self._tell('reset', *self.env.reset(**kwargs))

    def step(self, action):
        return self._tell('step', *self.env.step(action))

    def _tell(self, method, *values):
        self._left[method] -= 1
        return *values[:-1], MASK if self._left[method] < 0 else {}


def test_what_is_told_by_the_first_reset_is_observed():
    masking = Masking()
    for _ in range(2):
        assert isinstance(masking(TaxiEnv()), wrappers.ObserveMask)


def test_mask_that_is_told_late_is_refused():
    by_step, by_reset = Masking()(Late(steps=0)), Masking()(Late(resets=2))
    by_step.reset()
    with pytest.raises(errors.EnvError, match='possible after step, but the fi'):
        by_step.step(0)
    by_reset.reset()
    with pytest.raises(errors.EnvError, match='possible after a later reset'):
        by_reset.reset()


def test_nothing_comes_between_steps_where_there_is_no_mask():
    env = CliffWalkingEnv()
    masked = Masking()(env)
    masked.reset()
    masked.step(0)
    assert masked.step == env.step
    pendulum = gym.make('Pendulum-v1')
    assert Masking()(pendulum) is pendulum


def test_broken_contract_is_left_to_be_told_elsewhere():
    for result in (None, (), (36, None), [36, {}]):
        env = Masking()(Late())
        env.env.reset = lambda result=result, **_: result
        assert env.reset() is result
