"""What is asked of vectors, and what is refused of them."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from agents.tools import errors
from agents.tools.batch.batch_env import BatchEnv
from agents.tools.vector.checked_vector import find_mode
from agents.tools.vector.mock_vector import FixedVector, MockVector
from agents.tools.vector.vector_slice import VectorSlice

SAME, NEXT = AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP
ENDED = {'terminated': np.array([False, True])}
BOX = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
COUNTED = gym.spaces.Discrete(3, start=4)


def batch_of(vector, **settings):
    return BatchEnv([VectorSlice(lambda: vector, **settings)])


def step(batch):
    batch.step_packed(np.zeros(len(batch), np.int32))


@pytest.mark.parametrize(
    'results, info, observs, message',
    [
        ({'observ': np.array([5, 7])}, {}, None, r'ent 4, one.*is 7, which is'),
        ({'observ': np.array([5])}, {}, None, 'Environment 4, one of'),
        ({'observ': np.zeros((2, 1))}, {}, None, 'Environment 3, one of'),
        ({'reward': np.zeros((2, 1))}, {}, None, r'3 to 4 broke.*\(2, 1\)'),
        ({'terminated': np.zeros(2)}, {}, None, 'flags of shape.*float64'),
        ({'reward': np.array([0, np.nan])}, {}, None, 'Environment 4 ret.*rew'),
        (
            {'observ': np.array([[1.0], [np.inf]]), 'first': np.zeros((2, 1))},
            {},
            BOX,
            'Environment 4 returned an observation with',
        ),
        (
            {**ENDED, 'observ': np.array([[1.0], [np.nan]]), 'first': np.zeros((2, 1))},
            {'final_obs': np.zeros((2, 1))},
            BOX,
            'Environment 4 returned an observation with',
        ),
        ({'reward': np.array(['1', '2'])}, {}, None, 'rewards of.*type <U1'),
        ({'first': np.array([4, 3])}, {}, None, 'Environment 4, one.*reset'),
        ({'first': np.array([[np.nan], [1]])}, {}, BOX, '3 returned a first'),
        ({}, [None], None, r'an info that is \[None\], no dict'),
        (ENDED, {}, None, "environment 4, but its info has no 'final_obs'"),
        (ENDED, {'final_obs': [None, None]}, None, 'Environment 4, one of'),
        (ENDED, {'final_obs': [None, 9]}, None, 'Environment 4, one of.* 9'),
        (ENDED, {'final_obs': [None]}, None, 'Environment 4, one of'),
    ],
)
def test_what_is_no_value_is_refused(results, info, observs, message):
    values = {'first': np.array([4, 6]), 'observ': np.array([5, 4]), **results}
    vector = FixedVector(values, info, observs=observs or COUNTED)
    batch = batch_of(vector, first=3)
    with pytest.raises(errors.EnvError, match=message):
        batch.reset()
        step(batch)


@pytest.mark.parametrize(
    'settings, message',
    [
        ({'observs': gym.spaces.Text(3)}, 'Text.*not supported'),
        ({'actions': gym.spaces.Dict(x=BOX)}, 'action space Dict.*not supp'),
    ],
)
def test_spaces_that_are_not_supported(settings, message):
    vector = FixedVector(**settings)
    with pytest.raises(errors.EnvError, match=message):
        VectorSlice(lambda: vector)
    assert vector.closed


def test_vector_may_keep_the_actions_it_is_given():
    class Keeping(FixedVector):
        given = ()

        def step(self, actions):
            self.given = *self.given, actions
            return super().step(actions)

    vector = Keeping(actions=BOX)
    batch = batch_of(vector)
    for value in (1, 2):
        batch.step_packed(np.full((2, 1), value, np.float32))
    assert [actions[0, 0] for actions in vector.given] == [1, 2]


def test_seeds_of_all_environments_fit_into_32_bits():
    vector = MockVector([[9]] * 2, SAME)
    batch_of(vector, seed=2**31 - 2).reset()
    assert 0 <= vector.seeds[0] <= 2**31 - 2 - len(vector.seeds)


@pytest.mark.parametrize('kind', [ArithmeticError, SystemExit, GeneratorExit])
def test_errors_of_the_vector_are_told_of(monkeypatch, kind):
    def fail():
        raise kind('It broke.')

    with pytest.raises(errors.EnvError, match='vector.*constructed:\n.*'):
        VectorSlice(fail)
    vector = MockVector([[1]], SAME)
    batch = batch_of(vector, first=2)
    for name in ('reset', 'step', 'close'):
        with monkeypatch.context() as patch:
            patch.setattr(vector, name, lambda *_, **__: fail())
            with pytest.raises(errors.EnvError, match='2 to 2 raised.*') as info:
                if name == 'step':
                    step(batch)
                else:
                    getattr(batch, name)()
        assert f'in {name}' in str(info.value) and 'It broke' in str(info.value)


@pytest.mark.parametrize('mode', AutoresetMode)
def test_modes_may_be_told_as_texts(mode):
    vector = FixedVector()
    for told in (mode, mode.value, mode.name):
        vector.metadata = {'autoreset_mode': told}
        assert find_mode(vector) == (mode, False)


def test_unknown_mode_is_refused():
    vector = FixedVector()
    vector.metadata = {'autoreset_mode': 'sometimes'}
    with pytest.raises(errors.EnvError, match="'sometimes'"):
        VectorSlice(lambda: vector)


def test_modes_are_told_apart_where_vectors_share_their_metadata(monkeypatch):
    """As those of ale-py do, which write to the metadata of all vectors."""
    shared = gym.vector.VectorEnv.metadata
    monkeypatch.setitem(shared, 'autoreset_mode', SAME)
    vector = FixedVector()
    vector.metadata = shared
    assert find_mode(vector) == (NEXT, True)
    vector.autoreset_mode = SAME
    assert find_mode(vector) == (SAME, False)


def test_attributes_and_frames_of_environments():
    class Seen(MockVector):
        render_mode = 'rgb_array'

        def render(self):
            return tuple(np.full((4, 6, 3), i, np.uint8) for i in range(2))

    batch = batch_of(Seen([[2], [3]], SAME))
    assert [frame[0, 0, 0] for frame in batch.call('render')] == [0, 1]
    assert batch.metadata == {'autoreset_mode': SAME}
    with pytest.raises(errors.EnvError, match='no single env.*close'):
        batch[1].call('close')
    with pytest.raises(errors.EnvError, match='raised an error in no_such'):
        batch[1].call('no_such')
