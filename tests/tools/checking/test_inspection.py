"""Inspections of real environments, and of one broken in every way."""

import random
import re
import warnings

import gymnasium as gym
import numpy as np
import pytest

from agents.tools import errors
from agents.tools.checking import inspection

spaces = gym.spaces


class Sound(gym.Env):
    """Keeps to the contract; the others each break it somewhere.

    Observes a number of random walks, for ten steps.
    """

    observation_space = spaces.Dict(walk=spaces.Box(-9, 9, (2,)), time=spaces.Discrete(11))
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        self.walk = self.np_random.normal(size=2)
        return self.observe(), {}

    def step(self, action):
        assert action in (0, 1, 2)
        self.time += 1
        self.walk += 0.1 * self.np_random.normal(size=2)
        return self.observe(), self.reward(), self.time == 10, False, {}

    def observe(self):
        return {'walk': self.walk.astype(np.float32), 'time': self.time}

    def reward(self):
        return 0.5 * self.time


def inspect(make, steps=100, **arguments):
    return inspection.inspect(make, steps, **arguments)


def only(report):
    """The only breach that there is."""
    (breach,) = report.breaches
    return breach


def test_sound_environment():
    report = inspect(Sound, 95)
    assert not report.breaches and not report.warnings
    assert report.steps == len(report.step_seconds) == 95
    assert len(report.reset_seconds) == 10
    # Half of 1 + ... + 10 in each of nine episodes.
    assert report.scores == [27.5] * 9 and report.lengths == [10] * 9
    ends = report.terminated, report.truncated, report.cut
    assert ends == (9, 0, 0)
    assert report.starts_differ and report.repeated == 95
    time, walk = report.observ
    assert (time.least, time.most, time.count) == (0, 10, 95 + 10)
    assert walk.count == 2 * time.count
    assert (report.reward.least, report.reward.most) == (0.5, 5)


@pytest.mark.parametrize('name', ['CartPole-v1', 'Pendulum-v1', 'Taxi-v4', 'Blackjack-v1'])
def test_environments_of_gymnasium_are_sound(name):
    def make():
        return gym.make(name, -1, disable_env_checker=True)

    report = inspect(make, 300, limit=150)
    assert not report.breaches
    assert report.repeated == 300
    assert report.masked == ('info' if name == 'Taxi-v4' else '')
    if name == 'Pendulum-v1':
        assert (report.cut, report.lengths) == (2, [150, 150])


def test_actions_are_those_that_a_method_allows():
    report = inspect(MaskedByMethod)
    assert not report.breaches
    assert report.masked == 'method action_masks()'


def test_same_seed_inspects_the_same():
    first, again, other = [inspect(Sound, seed=seed).observ[1].mean for seed in (1, 1, 2)]
    assert first == again != other


class WrongShape(Sound):
    def observe(self):
        walk = np.zeros(3 if self.time == 3 else 2, np.float32)
        return {**super().observe(), 'walk': walk}


class WrongKeys(Sound):
    def observe(self):
        return {'walk': self.walk, 'clock': 0}


class HasAnotherKey(Sound):
    def observe(self):
        return {**super().observe(), 'map': 0}


class WrongType(Sound):
    def observe(self):
        return {**super().observe(), 'walk': self.walk.copy()}


class AList(Sound):
    def observe(self):
        return {**super().observe(), 'walk': [0.0, 0.0]}


class BeyondCount(Sound):
    def observe(self):
        return {**super().observe(), 'time': 11 * (self.time == 4)}


class BeyondBounds(Sound):
    def observe(self):
        walk = np.float32([0, 9.5 if self.time == 2 else 0])
        return {**super().observe(), 'walk': walk}


class NotFinite(Sound):
    def observe(self):
        walk = np.float32([0, np.nan if self.time == 2 else 0])
        return {**super().observe(), 'walk': walk}


class NoReward(Sound):
    def reward(self):
        return None


class InfiniteReward(Sound):
    def reward(self):
        return float('inf') if self.time == 5 else 0


class NoFlag(Sound):
    def step(self, action):
        observ, reward, _, truncated, info = super().step(action)
        return observ, reward, int(self.time == 10), truncated, info


class ManyFlags(Sound):
    def step(self, action):
        observ, reward, *_, info = super().step(action)
        return observ, reward, False, np.repeat(self.time == 10, 2), info


class NoInfo(Sound):
    def step(self, action):
        return *super().step(action)[:4], None


class Raises(Sound):
    def step(self, action):
        if self.time == 6:
            self.look()
        return super().step(action)

    def look(self):
        raise KeyError('wall')


class WritesAgain(Sound):
    def reset(self, **arguments):
        self.shown = np.zeros(2, np.float32)
        return super().reset(**arguments)

    def observe(self):
        self.shown[:] = self.walk
        return {**super().observe(), 'walk': self.shown}


class NoOptions(Sound):
    def reset(self, seed=None):
        return super().reset(seed=seed)


class NoSeed(Sound):
    def reset(self, *, options=None):
        super().reset(seed=7)
        return super().reset()


class NoMetadata(Sound):
    metadata = None


class Objects(Sound):
    def observe(self):
        return {**super().observe(), 'walk': [object(), [1, {2}]]}


class OldModes(Sound):
    metadata = {'render.modes': ['human']}  # noqa: RUF012


class RefusesNumPy(Sound):
    def step(self, action):
        assert isinstance(action, int)
        return super().step(action)


class AllowsNothing(Sound):
    def reset(self, **kwargs):
        observ, _ = super().reset(**kwargs)
        return observ, {'action_mask': np.ones(3)}

    def step(self, action):
        *others, _ = super().step(action)
        return *others, {'action_mask': [int(self.time != 8)] * 3}


class RefusesWithoutMask(AllowsNothing):
    def step(self, action):
        if self.time == 8:
            raise ValueError('impossible')
        return super().step(action)


class MaskedLate(AllowsNothing):
    def reset(self, **kwargs):
        return Sound.reset(self, **kwargs)

    def step(self, action):
        *others, info = super().step(action)
        return *others, info if self.time == 7 else {}


class MaskedAtFirst(AllowsNothing):
    def step(self, action):
        return Sound.step(self, action)


class MaskedByMethod(Sound):
    def action_masks(self):
        return [0, 0, 1]

    def step(self, action):
        assert action == 2
        return super().step(action)


class DoesNotClose(Sound):
    def close(self):
        raise OSError('busy')


# The breach: whether a training ends by it, episode, step, count, message. A
# hundred steps are ten episodes, the last of which is followed by a reset.
BREACHES = {
    WrongShape: (True, 1, 3, 10, r"observation\['walk'\] should have the shape"),
    WrongKeys: (True, 1, 0, 111, r"observation lacks the key 'time'"),
    WrongType: (False, 1, 0, 111, r"\['walk'\] should be of float32, .* float64"),
    AList: (False, 1, 0, 111, r'should be an array of float32, .* not a list'),
    BeyondCount: (True, 1, 4, 10, r'is 11, which is outside of Discrete\(11\)'),
    BeyondBounds: (False, 1, 2, 10, r'is 9.5 at \(1,\), where its space has'),
    NotFinite: (True, 1, 2, 10, 'values that are not finite'),
    NoReward: (True, 1, 1, 100, 'the reward should be a number, not a NoneType'),
    InfiniteReward: (True, 1, 5, 10, 'a reward has values that are not finite'),
    NoFlag: (True, 1, 1, 100, 'terminated should be a bool, not a int: 0'),
    ManyFlags: (True, 1, 1, 100, 'truncated should be a bool, not an array'),
    NoInfo: (False, 1, 1, 100, 'the info of step should be a dict'),
    Raises: (True, 1, 7, 5, 'step raised, given the action .: KeyError: .wall'),
    WritesAgain: (False, 1, 1, 100, r"\['walk'\]\[0\] is .* Return a copy"),
    NoOptions: (False, 1, 0, 1, "reset takes no argument 'options'"),
    NoSeed: (True, 1, 0, 1, "reset takes no argument 'seed'"),
    NoMetadata: (False, 0, 0, 1, "should have a list 'render_modes', but has n"),
    OldModes: (False, 0, 0, 1, "has 'render.modes', as before Gymnasium 0.26"),
    RefusesNumPy: (False, 0, 0, 1, r'takes the action . but not np.int64'),
    AllowsNothing: (True, 1, 8, 10, 'action_mask of the info allows no action'),
    MaskedLate: (True, 1, 7, 10, 'possible after step, but the first reset t'),
    MaskedAtFirst: (True, 1, 1, 90, 'there is nothing in it after step'),
    # What it raises at the next step may come of that.
    RefusesWithoutMask: (True, 1, 8, 1, 'action_mask of the info allows no'),
    HasAnotherKey: (True, 1, 0, 111, "has the key 'map', which is not in"),
    DoesNotClose: (True, 0, 0, 1, 'close raised: OSError: busy'),
}


@pytest.mark.parametrize('kind', BREACHES, ids=lambda kind: kind.__name__)
def test_breach_is_told_once_with_its_place_and_its_count(kind):
    ends, episode, step, count, message = BREACHES[kind]
    breach = only(inspect(kind))
    found = breach.ends, breach.episode, breach.step, breach.count
    assert found == (ends, episode, step, count)
    assert re.search(message, breach.text)


def test_error_shows_lines_of_the_environment_alone():
    report = inspect(Raises)
    step, look = only(report).frames
    assert 'test_inspection.py:' in step and 'in step: self.look()' in step
    assert look.endswith("in look: raise KeyError('wall')")
    # Five episodes raised in their seventh step, then it was given up.
    assert report.steps == 35 and report.repeated is None


class Old(gym.Env):
    """As environments were before Gymnasium 0.26."""

    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.Discrete(2)

    def reset(self):
        return np.zeros(2, np.float32)


class OldStep(Sound):
    def step(self, action):
        observ, reward, terminated, _, info = super().step(action)
        return observ, reward, terminated, info


def test_old_interface():
    *arguments, breach = inspect(Old).breaches
    assert [each.kind for each in arguments] == ['argument seed', 'argument options']
    assert 'return 2 values (observation, info), not 1' in breach.text
    report = inspect(OldStep)
    assert report.steps == 1
    assert 'not 4, as before Gymnasium 0.26' in only(report).text


class Unseeded(Sound):
    def reset(self, *, seed=None, options=None):
        return super().reset()


class Unrepeatable(Sound):
    """Random by itself where an episode is longer than four steps."""

    def reward(self):
        return random.random() if self.time == 5 else 0.0


def test_seed_that_does_not_repeat_is_told_with_the_first_difference():
    breach = only(inspect(Unseeded))
    assert breach.kind == 'seed' and not breach.ends
    assert "do not repeat: observation['walk'][0] is " in breach.text
    assert 'super().reset(seed=seed)' in breach.text
    breach = only(inspect(Unrepeatable))
    assert (breach.episode, breach.step) == (1, 5)
    assert 'repeat: reward is 0.' in breach.text
    assert 'super()' not in breach.text


def test_reset_is_compared_too():
    class DiffersLater(Sound):
        episodes = 0

        def reset(self, *, seed=None, options=None):
            self.episodes += 1
            observ, info = super().reset(seed=seed)
            if self.episodes == 2:
                observ['walk'][1] = random.random()
            return observ, info

    assert (breach := only(inspect(DiffersLater))).kind == 'seed'
    assert (breach.episode, breach.step) == (2, 0)
    # In an episode that does not end, one is asked for halfway.
    DiffersLater.step = lambda self, _: (self.observe(), 0, False, False, {})
    assert only(inspect(DiffersLater)).episode == 2


def test_starts_that_are_alike_are_told():
    class Alike(Sound):
        def reset(self, *, seed=None, options=None):
            super().reset(seed=7 if seed is None else seed)
            self.walk[:] = 0
            return self.observe(), {}

    assert not inspect(Alike).starts_differ


def test_only_one_of_it_can_be_made():
    made = []

    def make():
        if len(made) == 2:
            raise OSError('the port is taken')
        made.append(Sound())
        return made[-1]

    breach = only(inspect(make))
    assert 'another one' in breach.text and 'port is taken' in breach.text


@pytest.mark.parametrize(
    'make, message',
    [
        (lambda: None, 'should be a gymnasium.Env, not a builtins.NoneType'),
        (lambda: 1 / 0, 'cannot be made: ZeroDivisionError'),
        (gym.Env, 'has no spaces: AttributeError'),
    ],
)
def test_no_environment(make, message):
    report = inspect(make)
    assert message in only(report).text and only(report).ends
    assert report.steps == 0


def test_spaces_that_are_not_supported():
    class Text(Sound):
        observation_space = spaces.Text(5)

    assert 'is not supported' in only(inspect(Text)).text


def test_environment_refused_already_is_refused():
    def make():
        raise errors.EnvError('a vector')

    with pytest.raises(errors.EnvError, match='a vector'):
        inspect(make)


def test_warnings_are_kept_but_for_those_of_developers(recwarn):
    class Warns(Sound):
        def step(self, action):
            gym.logger.warn(f'the maze is {"old"}')
            warnings.warn('this will be gone', DeprecationWarning, stacklevel=2)
            return super().step(action)

    report = inspect(Warns)
    assert report.warnings == ['the maze is old']
    assert not recwarn.list


def test_objects_are_no_observations():
    first, *others = inspect(Objects).breaches
    assert (first.kind, first.count) == ('observation', 111)
    assert [each.kind for each in others] == ['seed']  # None equals another.
