"""Vectors of environments, whatever way their episodes begin."""

import functools

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from agents.tools import errors, nested
from agents.tools.batch.batch_env import BatchEnv
from agents.tools.batch.env_slice import EnvSlice
from agents.tools.batch.infos import LOST
from agents.tools.vector.mock_vector import FixedVector, MockVector
from agents.tools.vector.vector_slice import VectorSlice

SAME, NEXT, DISABLED = (AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED)
WITHIN_THE_STEP = [(SAME, False), (SAME, True), (DISABLED, False)]
FIELDS = 'reward', 'terminated', 'truncated', 'lost', 'begins'

NESTS = {
    'box': lambda part: part,
    'dict': lambda part: {'b': part, 'a': {'deep': part}},
    'tuple': lambda part: (part, part),
}


def batch_of(vector, **settings):
    return BatchEnv([VectorSlice(lambda: vector, **settings)])


def step(batch, actions=None):
    """Step a batch; returns its reply by name."""
    actions = np.zeros(len(batch), np.int32) if actions is None else actions
    return batch._unpack(batch.step_packed(actions))


def table(batch, steps):
    """What the first environment replies, line by line."""
    batch.reset()
    lines = []
    for _ in range(steps):
        reply = step(batch)
        observ, next_observ = (nested.flatten(reply[name]) for name in ('observ', 'next_observ'))
        for leaves in (observ, next_observ):
            assert all((leaf == leaves[0]).all() for leaf in leaves)
        numbers = [int(reply[name][0]) for name in FIELDS]
        rows = next_observ[0][0], observ[0][0]
        lines.append((*numbers, *[row.tolist() for row in rows]))
    return lines


# Episodes of 2, 1 and 1 steps, beside others of 3: each line is the reward,
# whether it was terminated, truncated, lost, what begins, the true successor
# and what to act on next.
WITHIN = [
    (11, 0, 0, 0, 0, [1, 1], [1, 1]),
    (12, 1, 0, 0, 1, [1, 2], [2, 0]),
    (21, 0, 1, 0, 1, [2, 1], [3, 0]),
    (31, 1, 0, 0, 1, [3, 1], [4, 0]),
    (41, 0, 0, 0, 0, [4, 1], [4, 1]),
]
AFTER = [
    (11, 0, 0, 0, 0, [1, 1], [1, 1]),
    (12, 1, 0, 0, 1, [1, 2], [1, 2]),
    (0, 0, 1, 1, 1, [1, 2], [2, 0]),
    (21, 0, 1, 0, 1, [2, 1], [2, 1]),
    (0, 0, 1, 1, 1, [2, 1], [3, 0]),
    (31, 1, 0, 0, 1, [3, 1], [3, 1]),
    (0, 0, 1, 1, 1, [3, 1], [4, 0]),
    (41, 0, 0, 0, 0, [4, 1], [4, 1]),
]
LENGTHS = [2, 1, 1], [3]


@pytest.mark.parametrize('nest', NESTS.values(), ids=NESTS)
@pytest.mark.parametrize('mode, batched', WITHIN_THE_STEP)
def test_episodes_that_begin_within_the_step(mode, batched, nest):
    vector = MockVector(LENGTHS, mode, nest, batched)
    assert table(batch_of(vector), 5) == WITHIN
    assert all((actions == 2).all() for actions in vector.actions)


@pytest.mark.parametrize('nest', NESTS.values(), ids=NESTS)
def test_step_that_begins_an_episode_is_lost(nest):
    vector = MockVector(LENGTHS, NEXT, nest)
    assert table(batch_of(vector), 8) == AFTER


def test_no_step_is_lost_where_all_episodes_end_at_once():
    vector = MockVector([LENGTHS[0]] * 2, NEXT)
    assert table(batch_of(vector), 5) == WITHIN
    # One ends while the other begins, later again both at once.
    vector = MockVector([[1, 1], [2, 1, 3]], NEXT)
    batch = batch_of(vector)
    batch.reset()
    lost = [step(batch)['lost'].tolist() for _ in range(5)]
    assert lost == [[0, 0], [1, 0], [0, 1], [1, 0], [0, 1]]


def test_all_modes_play_the_same_episodes():
    """But for the lost steps, which have neither score nor length."""
    found = []
    for mode in (SAME, DISABLED, NEXT):
        batch = batch_of(MockVector([[3, 1], [1], [2, 5]], mode))
        batch.reset()
        scores, episodes = np.zeros(3), [[], [], []]
        while min(map(len, episodes)) < 6:
            reply = step(batch)
            scores += reply['reward']
            done = reply['terminated'] | reply['truncated']
            for index in np.flatnonzero(done):
                if not reply['lost'][index]:
                    episodes[index].append(scores[index])
                scores[index] = 0.0
        found.append([each[:6] for each in episodes])
    assert found[0] == found[1] == found[2]
    # 11 + 12 + 13, then 21, then 31 + 32 + 33 and so on.
    assert found[0][0][:3] == [36, 21, 96]


def test_reset_begins_all_episodes_and_forgets_lost_steps():
    vector = MockVector([[1], [2]], NEXT)
    batch = batch_of(vector, seed=7)
    batch.reset()
    assert step(batch)['terminated'].tolist() == [True, False]
    assert batch.reset().tolist() == [[2, 0], [2, 0]]
    reply = step(batch)
    assert not reply['lost'].any()
    assert reply['reward'].tolist() == [21, 21]
    assert vector.seeds == [7, None]


def test_reset_in_the_middle_forgets_how_long_and_how_episodes_went():
    batch = batch_of(MockVector([[2], [9]], DISABLED), max_length=3)
    batch.reset()
    step(batch), step(batch)
    reply = batch._unpack(batch.reset_packed(np.ones(2, bool)))
    assert reply['begins'].tolist() == [1, 1]
    for name in ('reward', 'terminated', 'truncated', 'lost'):
        assert not reply[name].any()
    assert step(batch)['begins'].tolist() == [0, 0]
    batch.reset()
    assert step(batch)['begins'].tolist() == [0, 0]
    begins = [step(batch)['begins'].tolist() for _ in range(2)]
    assert begins == [[1, 0], [0, 1]]


def test_some_are_reset_where_the_vector_can():
    batch = batch_of(MockVector([[9]] * 3, DISABLED))
    batch.reset()
    step(batch)
    np.testing.assert_array_equal(batch.reset([1]), [[2, 0]])
    reply = step(batch)
    np.testing.assert_array_equal(reply['observ'], [[1, 2], [2, 1], [1, 2]])
    other = batch_of(MockVector([[9]] * 3, SAME), first=5)
    other.reset()
    with pytest.raises(errors.EnvError, match='5 to 7 begins.*by itself'):
        other.reset([1])


@pytest.mark.parametrize('limit', [1, 2])
def test_long_episodes_are_truncated_where_the_vector_can(limit):
    batch = batch_of(MockVector([[3], [1, 3]], DISABLED), max_length=limit)
    batch.reset()
    ends = []
    for _ in range(4):
        reply = step(batch)
        ends.append((reply['terminated'] * 2 + reply['truncated']).tolist())
        over = reply['terminated'] | reply['truncated']
        assert (reply['begins'] == over).all()
        assert (reply['observ'][over, 1] == 0).all()
        assert (reply['next_observ'][:, 1] > 0).all()
    assert ends == {1: [[1, 2], [1, 1], [1, 2], [1, 1]], 2: [[0, 2], [1, 0], [0, 1], [1, 2]]}[limit]


def test_episode_is_truncated_while_nothing_else_happens():
    batch = batch_of(MockVector([[9]] * 2, DISABLED), max_length=3)
    batch.reset()
    ends = [step(batch)['truncated'].all() for _ in range(6)]
    assert ends == [False, False, True] * 2


@pytest.mark.parametrize('mode', [SAME, NEXT])
def test_long_episodes_are_refused_elsewhere(mode):
    batch = batch_of(MockVector([[2], [4]], mode), max_length=3, first=4)
    batch.reset()
    step(batch), step(batch)
    with pytest.raises(errors.EnvError, match='Environment 5 goes on after 3'):
        step(batch)


def test_steps_that_are_lost_make_no_episode_longer():
    batch = batch_of(MockVector([[1, 3], [3, 2]], NEXT), max_length=3)
    batch.reset()
    ends = [step(batch)['terminated'].tolist() for _ in range(9)]
    assert sum(np.array(ends))[0] == 2


def test_vectors_may_tell_of_steps_that_are_lost():
    vector = MockVector([[1, 9], [9], [9]], NEXT)
    play, told = vector.step, np.array([False, False, True])

    def step_and_tell(actions):
        *values, info = play(actions)
        values[1][told] = 0.0
        return *values, {**info, LOST: told}

    vector.step = step_and_tell
    batch = batch_of(vector)
    batch.reset()
    assert step(batch)['lost'].tolist() == [False, False, True]
    reply = step(batch)
    # One begins an episode, and of another the vector says so.
    assert reply['lost'].tolist() == [True, False, True]
    assert reply['next_observ'].tolist() == [[1, 1], [1, 2], [1, 1]]
    assert reply['observ'].tolist() == [[2, 0], [1, 2], [1, 2]]
    told = np.zeros(2, bool)
    with pytest.raises(errors.EnvError, match=r'lost steps of shape \(2,\)'):
        vector.step = lambda actions: (*play(actions)[:4], {LOST: told})
        step(batch)


def test_actions_begin_where_the_space_does():
    vector = MockVector([[9]] * 2, SAME)
    batch = batch_of(vector)
    batch.reset()
    step(batch, np.array([0, 4]))
    np.testing.assert_array_equal(vector.actions[0], [2, 6])
    assert vector.actions[0].dtype == np.int64


def test_counted_observations_begin_from_zero():
    values = {
        'first': np.array([4, 6]),
        'observ': np.array([5, 4]),
        'terminated': np.array([False, True]),
    }
    info = {'final_obs': [None, np.int64(6)]}
    space = gym.spaces.Discrete(3, start=4)
    batch = batch_of(FixedVector(values, info, observs=space))
    np.testing.assert_array_equal(batch.reset(), [0, 2])
    reply = step(batch)
    np.testing.assert_array_equal(reply['observ'], [1, 0])
    np.testing.assert_array_equal(reply['next_observ'], [1, 2])


def test_mode_that_is_not_told_is_that_of_gymnasium():
    vector = MockVector(LENGTHS, NEXT)
    vector.metadata = {}
    found = VectorSlice(lambda: vector)
    assert found.assumed and table(BatchEnv([found]), 8) == AFTER


@pytest.mark.parametrize(
    'mode, lengths, message',
    [
        (SAME, [[1], [9]], "0 to 1 does not tell.*'final_obs'"),
        # The episode after the end has begun, unnoticed.
        (DISABLED, [[1], [9]], 'goes on that is over'),
    ],
)
def test_wrong_mode_is_found_out(mode, lengths, message):
    vector = MockVector(lengths, mode)
    vector.metadata = {}
    batch = batch_of(vector)
    batch.reset()
    with pytest.raises(errors.EnvError, match=message):
        step(batch), step(batch)


def test_step_after_the_end_that_ends_again_is_refused():
    """As of a vector that resets in the same step and says otherwise."""
    vector = FixedVector({'terminated': np.array([False, True])})
    vector.metadata = {'autoreset_mode': NEXT}
    batch = batch_of(vector)
    batch.reset()
    step(batch)
    with pytest.raises(errors.EnvError, match='Environment 1 returned an end'):
        step(batch)
    vector._results['terminated'] = np.ones(2, bool)
    batch = batch_of(vector)
    batch.reset()
    # Where all end, the step after it is taken at once.
    with pytest.raises(errors.EnvError, match='Environment 0 returned an end'):
        step(batch)


@pytest.mark.parametrize('is_told', [True, False])
def test_reward_in_the_step_after_the_end(is_told):
    """Gymnasium's vectors in JAX reward the action that they ignore."""
    ends = {'terminated': np.array([False, True]), 'reward': np.ones(2)}
    vector = FixedVector(ends)
    vector.metadata = {'autoreset_mode': NEXT} if is_told else {}
    batch = batch_of(vector)
    batch.reset()
    assert step(batch)['reward'].tolist() == [1, 1]
    vector._results['terminated'] = np.zeros(2, bool)
    if is_told:
        assert step(batch)['reward'].tolist() == [1, 0]
        assert step(batch)['reward'].tolist() == [1, 1]
        return
    with pytest.raises(errors.EnvError, match='Environment 1 returned a rew'):
        step(batch)


def test_last_observations_are_no_sign_where_the_mode_is_told():
    vector = FixedVector({'terminated': np.array([False, True])}, {'final_obs': np.zeros((2, 1))})
    vector.metadata = {'autoreset_mode': NEXT}
    batch = batch_of(vector)
    batch.reset()
    assert step(batch)['terminated'].tolist() == [False, True]


@pytest.mark.parametrize('mode', [SAME, DISABLED])
@pytest.mark.parametrize('name', ['CartPole-v1', 'Pendulum-v1'])
def test_vectors_of_gymnasium_are_as_single_environments(name, mode):
    """To the last bit, with the same seeds and actions."""
    constructor = functools.partial(gym.make, name, max_episode_steps=6)
    vector = gym.vector.SyncVectorEnv([constructor] * 3, autoreset_mode=mode)
    batches = [BatchEnv([EnvSlice([constructor] * 3, [5, 6, 7])]), batch_of(vector, seed=5)]
    rng = np.random.default_rng(0)
    replies = [batch.reset() for batch in batches]
    for _ in range(20):
        np.testing.assert_array_equal(*replies)
        shape = batches[0]._actions_shape
        actions = rng.integers(2, size=shape).astype(np.float32)
        steps = [batch.step(actions) for batch in batches]
        for alone, together in zip(*steps, strict=True):
            np.testing.assert_array_equal(alone, together)
        replies = [each[0] for each in steps]


def test_members_of_all_kinds_make_one_batch():
    constructor = functools.partial(gym.make, 'CartPole-v1')
    vector = gym.vector.SyncVectorEnv([constructor] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    batch = BatchEnv(
        [EnvSlice([constructor] * 2, [5, 6]), VectorSlice(lambda: vector, seed=5, first=2)]
    )
    observ = batch.reset()
    np.testing.assert_array_equal(observ[:2], observ[2:])
    assert len(batch) == 4
    assert batch[3].call('get_wrapper_attr', 'kinematics_integrator') == 'euler'
