"""What goes into the record of a rollout comes out of it."""

import gymnasium as gym
import numpy as np
import pytest

from agents.parts.record import Foreseen, Recorder
from agents.tools import nested
from agents.tools.graph.backend import compiled, tf
from agents.tools.transition import Transition

STEPS, AGENTS = 4, 3

OBSERVS = gym.spaces.Dict(
    state=gym.spaces.Box(-np.inf, np.inf, (2,), np.float32),
    image=gym.spaces.Box(0, 255, (2, 2), np.uint8),
    rest=gym.spaces.Tuple([gym.spaces.Box(-9, 9, (), np.int64), gym.spaces.MultiBinary(3)]),
)
ACTIONS = gym.spaces.MultiDiscrete([[4, 5]])


def define(observs=OBSERVS, actions=ACTIONS, before=()):
    return Recorder(observs, actions, STEPS, AGENTS, before)


def observations(rng):
    lead = STEPS, AGENTS
    # Small integers are no normal floats, which some programs round to zero.
    integers = rng.choice([0, 1, 2, -1, 2**31 - 1, -(2**31)], lead)
    return {
        'state': rng.normal(size=(*lead, 2)).astype(np.float32),
        'image': rng.integers(0, 256, (*lead, 2, 2), np.uint8),
        'rest': (integers.astype(np.int32), rng.integers(0, 2, (*lead, 3), np.int32)),
    }


def rollout(seed=0):
    """Observations, actions and transitions of random steps."""
    rng, lead = np.random.default_rng(seed), (STEPS, AGENTS)
    flags = [rng.random(lead) < 0.3 for _ in range(3)]
    transition = Transition(
        reward=rng.normal(size=lead).astype(np.float32),
        terminated=flags[0],
        truncated=flags[1],
        next_observ=observations(rng),
        lost=flags[2],
    )
    action = rng.integers(0, 4, (*lead, 2)).astype(np.int32)
    return observations(rng), action, transition


def record(append, steps, count=STEPS):
    for time in range(count):
        append(*nested.map(lambda x, now=time: tf.constant(x[now]), steps))


def assert_same(nest, other):
    for leaf, expected in zip(nested.flatten(nest), nested.flatten(other), strict=True):
        np.testing.assert_array_equal(leaf, expected)
        assert leaf.numpy().dtype == expected.dtype


@pytest.mark.parametrize('how', [lambda f: f, compiled], ids=['eager', 'xla'])
def test_steps_come_back_as_they_were(how):
    recorder, steps = define(), rollout()
    record(how(recorder.append), steps)
    assert recorder.length == STEPS
    found = how(recorder.take)(())
    assert recorder.length == 0
    observ, action, transition = steps
    assert_same(found.observ, observ)
    assert_same(found.next_observ, transition.next_observ)
    assert_same(
        (found.action, found.reward, found.terminated, found.lost),
        (action, transition.reward, transition.terminated, transition.lost),
    )
    over = transition.terminated | transition.truncated
    assert_same(found.done, over)
    # All episodes begin with the first rollout, later ones where one ended.
    begins = np.concatenate([np.ones((1, AGENTS), bool), over[:-1]])
    assert_same(found.begins, begins)


def test_next_rollout_goes_on_where_the_last_one_ended():
    recorder = define(before=tf.fill((AGENTS, 1), 1.0))
    ends = []
    for seed in (0, 1):
        steps = rollout(seed)
        record(recorder.append, steps)
        found = recorder.take(tf.fill((AGENTS, 1), 2.0 + seed))
        ends.append(steps[2].terminated[-1] | steps[2].truncated[-1])
        # The state is that which the rollout before was concluded with.
        assert (found.state.numpy() == 1 + seed).all()
    assert_same(found.observ, steps[0])
    assert_same(found.begins[0], ends[0])
    # Looked at once more, before anything else is recorded.
    assert_same(recorder.last().begins[0], ends[0])
    assert (recorder.last().state.numpy() == 2).all()


def test_restart_forgets_what_was_recorded():
    recorder = define()
    record(recorder.append, rollout(0))
    recorder.take(())
    record(recorder.append, rollout(1), count=2)
    recorder.restart()
    assert recorder.length == 0
    record(recorder.append, rollout(2))
    found = recorder.take(())
    assert_same(found.observ, rollout(2)[0])
    assert found.begins[0].numpy().all()


@pytest.mark.parametrize('observs', [OBSERVS, OBSERVS['state']], ids=['whole numbers', 'floats'])
@pytest.mark.parametrize('where', ['reward', 'observ', 'next_observ', None])
def test_what_cannot_be_learnt_from_is_found(observs, where):
    observ, action, transition = rollout()
    if observs is not OBSERVS:
        observ = observ['state']
        transition = transition._replace(next_observ=transition.next_observ['state'])
    place = (2, 1)
    match where:
        case 'reward':
            transition.reward[place] = np.nan
        case 'observ':
            _floats(observ)[place] = np.inf
        case 'next_observ':
            _floats(transition.next_observ)[place] = np.inf
    recorder = define(observs)
    record(recorder.append, (observ, action, transition))
    assert recorder.is_sound() == (where is None)
    failure = recorder.failure()
    if where is None:
        assert failure is None
    else:
        what = 'reward nan' if where == 'reward' else 'observation'
        assert f'Environment 1 returned the {what}' in str(failure)


def _floats(observ):
    return observ['state'] if isinstance(observ, dict) else observ


def test_actions_that_are_none_cannot_be_learnt_from():
    observ, action, transition = rollout()
    action[1, 2] = -1
    recorder = define()
    record(recorder.append, (observ, action, transition))
    assert not recorder.is_sound()
    assert 'for environment 2 is none' in str(recorder.failure())


@pytest.mark.parametrize('observs', [OBSERVS, OBSERVS['state']], ids=['whole numbers', 'floats'])
@pytest.mark.parametrize('where', ['output', 'value', 'next_value'])
def test_foreseen_returns_have_to_be_numbers_and_outputs_need_not(observs, where):
    observ, action, transition = rollout()
    observ = observ if observs is OBSERVS else observ['state']
    lead = STEPS, AGENTS
    foreseen = Foreseen(np.zeros((*lead, 9), 'f4'), *np.zeros((2, *lead), 'f4'))
    getattr(foreseen, where)[2, 1] = -np.inf
    recorder = Recorder(observs, ACTIONS, STEPS, AGENTS, (), foresees=True)
    record(recorder.append, (observ, action, transition, foreseen))
    # A policy may rule out choices by itself.
    assert recorder.is_sound() == (where == 'output')
    told = str(recorder.failure())
    expected = 'None' if where == 'output' else 'of environment 1, as what the'
    assert expected in told
