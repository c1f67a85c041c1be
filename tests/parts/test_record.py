"""What goes into the record of a rollout comes out of it."""

import gymnasium as gym
import numpy as np
import pytest

from agents.parts.record import Predictions, Recorder
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
    """Observations, actions, transitions and predictions of random steps."""
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
    sizes = (9,), (), ()
    predictions = Predictions(*[rng.normal(size=(*lead, *n)).astype('f4') for n in sizes])
    return observations(rng), action, transition, predictions


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
    observ, action, transition, predictions = steps
    assert_same(found.observ, observ)
    assert_same(found.predictions, predictions)
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
@pytest.mark.parametrize(
    ('where', 'text'),
    [
        ('reward', 'Environment 1 returned the reward nan'),
        ('observ', 'Environment 1 returned the observation'),
        ('value', 'must be finite, got nan for an observation of environment 1'),
        ('next_value', 'must be finite, got nan for the last observation of environment 1'),
        # A policy may exclude actions by itself.
        ('output', 'None'),
        ('nothing', 'None'),
    ],
)
def test_numbers_that_are_not_finite_are_found(observs, where, text):
    observ, action, transition, predictions = rollout()
    observ = observ if observs is OBSERVS else observ['state']
    leaves = {**transition._asdict(), **predictions._asdict(), 'observ': _floats(observ)}
    if where != 'nothing':
        leaves[where][2, 1] = np.nan
    recorder = define(observs)
    record(recorder.append, (observ, action, transition, predictions))
    assert recorder.is_finite() == (text == 'None')
    assert text in str(recorder.failure())


def _floats(observ):
    return observ['state'] if isinstance(observ, dict) else observ


def test_actions_that_are_none_cannot_be_learnt_from():
    steps = rollout()
    steps[1][1, 2] = -1
    recorder = define()
    record(recorder.append, steps)
    assert not recorder.is_finite()
    assert 'for environment 2 must be finite' in str(recorder.failure())
