"""A batch of native environments against the same batch outside."""

import functools
import sys
import threading
import time

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest

from agents.tools import errors
from agents.tools.batch.batch_env import BatchEnv
from agents.tools.batch.env_slice import EnvSlice
from agents.tools.batch.mock_environment import MockEnvironment
from agents.tools.graph.backend import tf
from agents.tools.graph.in_graph_batch_env import InGraphBatchEnv
from agents.tools.workers.external_process import ExternalProcess

# Workers cannot import this file, so what it defines is sent to them whole.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

FIELDS = 'reward', 'terminated', 'truncated', 'next_observ'
UNIT = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)


class Recording(gym.Env):
    """Keeps the actions and observes samples of any space."""

    def __init__(self, observ_space=UNIT, action_space=UNIT, act=bool):
        self.observation_space = observ_space
        self.action_space = action_space
        self.act = act
        self.actions = []
        self.observs = []
        self.label = 'recorder'
        observ_space.seed(0)

    def reset(self, *, seed=None, options=None):
        return self.observ(), {}

    def step(self, action):
        self.act()
        self.actions.append(action)
        return self.observ(), 1.5, False, len(self.actions) % 3 == 0, {}

    def observ(self):
        self.observs.append(self.observation_space.sample())
        return self.observs[-1]


def make(*envs):
    return InGraphBatchEnv(BatchEnv(list(envs)))


def mocks():
    return BatchEnv([EnvSlice([MockEnvironment] * 3, [5, 6, 7])])


def test_step_is_that_of_the_batch():
    inside, outside = InGraphBatchEnv(mocks()), mocks()
    inside.reset()
    np.testing.assert_array_equal(inside.observ, outside.reset())
    assert inside.begins.numpy().all()
    simulate = tf.function(inside.simulate)
    rng = np.random.default_rng(0)
    ends = 0
    for _ in range(12):
        action = rng.uniform(-1, 1, (3, 2)).astype(np.float32)
        simulate(tf.constant(action))
        observ, *outcome = outside.step(action)
        np.testing.assert_array_equal(inside.observ, observ)
        for name, expected in zip(FIELDS, outcome, strict=True):
            value = getattr(inside.transition, name)
            np.testing.assert_array_equal(value, expected)
            assert value.dtype == expected.dtype
        done = outcome[1] | outcome[2]
        for value in (inside.done, inside.begins, inside.transition.done):
            np.testing.assert_array_equal(value, done)
        np.testing.assert_array_equal(inside.reward, outcome[0])
        ends += done.sum()
    assert ends > 3  # So that the two observations did differ.


def test_steps_within_a_loop_of_the_graph():
    inside, outside = InGraphBatchEnv(mocks()), mocks()
    inside.reset()
    outside.reset()
    action = np.full((3, 2), 0.5, np.float32)

    @tf.function
    def run():
        for _ in tf.range(7):
            inside.simulate(tf.constant(action))
        return inside.observ

    observ = run()
    for _ in range(7):
        expected, *_ = outside.step(action)
    np.testing.assert_array_equal(observ, expected)


def test_shapes_are_static():
    batch_env = InGraphBatchEnv(mocks())
    assert len(batch_env) == 3

    @tf.function
    def shapes():
        batch_env.reset()
        batch_env.simulate(tf.zeros((3, 2)))
        transition = batch_env.transition
        assert batch_env.observ.shape == (3, 3)
        assert transition.next_observ.shape == (3, 3)
        assert transition.reward.shape == transition.done.shape == (3,)

    shapes()


@pytest.mark.parametrize(
    'low, high, chosen, given',
    [
        # From -1 to 1 to the bounds, and never beyond them.
        ([0, -10], [10, 30], [-1, -1], [0, -10]),
        ([0, -10], [10, 30], [0, 0.5], [5, 20]),
        ([0, -10], [10, 30], [7, -7], [10, -10]),
        # Where some bound is infinite, actions are only clipped.
        ([0, -np.inf], [10, 30], [-4, -40], [0, -40]),
        ([0, -np.inf], [10, 30], [7, 40], [7, 30]),
        ([-np.inf] * 2, [np.inf] * 2, [-400, 0.5], [-400, 0.5]),
    ],
)
def test_actions_are_scaled_to_the_bounds(low, high, chosen, given):
    space = gym.spaces.Box(np.float32(low), np.float32(high))
    env = Recording(action_space=space)
    batch_env = make(env)
    batch_env.reset()
    batch_env.simulate(tf.constant([chosen], tf.float32))
    assert env.actions[0].tolist() == given


def test_scaled_actions_are_within_bounds_despite_rounding():
    rng = np.random.default_rng(0)
    low = rng.normal(size=1000).astype(np.float32)
    high = (low + rng.uniform(0.1, 3, 1000)).astype(np.float32)
    assert (low + (high - low) > high).any()
    env = Recording(action_space=gym.spaces.Box(low, high))
    batch_env = make(env)
    batch_env.reset()
    for action in (1.0, -1.0, 0.3):
        batch_env.simulate(tf.fill([1, 1000], action))
    assert all(action in env.action_space for action in env.actions)


def test_actions_have_the_type_of_their_space():
    env = Recording(action_space=gym.spaces.Box(-2.0, 2.0, (3,), np.float64))
    batch_env = make(env)
    batch_env.reset()
    batch_env.simulate(tf.constant([[1.0, 0.5, -3.0]]))
    assert env.actions[0].dtype == np.float64
    assert env.actions[0].tolist() == [2, 1, -2]


@pytest.mark.parametrize(
    'space, chosen, given',
    [
        (gym.spaces.Discrete(3, start=5), 0, 5),
        (gym.spaces.Discrete(3, start=5), 2, 7),
        (gym.spaces.Discrete(3, start=-1), 1, 0),
        (gym.spaces.MultiDiscrete([2, 3]), [1, 2], [1, 2]),
        (gym.spaces.MultiDiscrete([2, 3], start=[4, -1]), [1, 2], [5, 1]),
        (gym.spaces.MultiBinary(3), [1, 0, 1], [1, 0, 1]),
    ],
)
def test_counted_actions_start_from_zero(space, chosen, given):
    env = Recording(action_space=space)
    batch_env = make(env)
    batch_env.reset()
    batch_env.simulate(tf.constant([chosen]))
    assert np.asarray(env.actions[0]).tolist() == given
    assert env.actions[0] in space


def test_nested_observations_arrive_whole():
    space = gym.spaces.Dict(
        image=gym.spaces.Box(0, 255, (4, 5, 3), np.uint8),
        parts=gym.spaces.Tuple([gym.spaces.Box(-1.0, 1.0, (), np.float64), gym.spaces.Discrete(4)]),
        switches=gym.spaces.MultiBinary(3),
        clock=gym.spaces.Box(-(2**31), 2**31 - 1, (1,), np.int32),
    )
    env = Recording(observ_space=space)
    batch_env = make(env)
    batch_env.reset()
    for _ in range(2):
        batch_env.simulate(tf.zeros((1, 2)))
    expected, observ = env.observs[-1], batch_env.observ
    for nest in (observ, batch_env.transition.next_observ):
        assert nest['image'].dtype == tf.uint8
        assert nest['clock'].dtype == tf.int32
        np.testing.assert_array_equal(nest['image'][0], expected['image'])
        np.testing.assert_array_equal(nest['clock'][0], expected['clock'])
        np.testing.assert_array_equal(nest['switches'][0], expected['switches'])
        number, choice = nest['parts']
        assert number[0] == expected['parts'][0].astype(np.float32)
        assert choice[0] == expected['parts'][1]
    assert len(batch_env.variables) == 2  # Floats and bytes.


def test_counted_observations_start_from_zero():
    env = Recording(observ_space=gym.spaces.Discrete(4, start=9))
    batch_env = make(env)
    batch_env.reset()
    assert batch_env.observ.dtype == tf.int32
    assert batch_env.observ.numpy().tolist() == [env.observs[0] - 9]


def test_reset_by_mask_leaves_the_others_alone():
    envs = [Recording() for _ in range(3)]
    batch_env = make(*envs)
    batch_env.reset()
    batch_env.simulate(tf.zeros((3, 2)))
    before = batch_env.observ.numpy()
    tf.function(batch_env.reset)(tf.constant([True, False, True]))
    after = batch_env.observ.numpy()
    assert [len(env.observs) for env in envs] == [3, 2, 3]
    assert (after[1] == before[1]).all() and (after[0] != before[0]).any()
    assert after[2].tolist() == envs[2].observs[-1].tolist()
    assert batch_env.begins.numpy().tolist() == [True, False, True]
    assert batch_env.reward.numpy().tolist() == [0, 1.5, 0]


def test_attributes_are_those_of_the_first_environment():
    batch_env = make(Recording(), Recording())
    assert batch_env.label == 'recorder'
    with pytest.raises(AttributeError, match='width'):
        batch_env.width  # noqa: B018
    with pytest.raises(AttributeError, match='InGraphBatchEnv has no'):
        batch_env._width  # noqa: B018


def test_time_is_that_of_the_environments():
    batch_env = make(Recording(act=functools.partial(time.sleep, 0.01)))
    batch_env.reset()
    before = batch_env.seconds
    batch_env.simulate(tf.zeros((1, 2)))
    assert batch_env.seconds >= before + 0.01


def raise_plain():
    raise ValueError('a plain mistake')


def test_failure_is_the_error_of_the_environment(nothing_left):
    process = ExternalProcess(functools.partial(Recording, act=raise_plain))
    batch_env = make(process)
    batch_env.reset()
    assert batch_env.failure() is None
    with pytest.raises(tf.errors.OpError):
        tf.function(batch_env.simulate)(tf.zeros((1, 2)))
    failure = batch_env.failure()
    assert isinstance(failure, errors.EnvError)
    assert 'Environment 0 raised an error in step' in str(failure)
    assert 'ValueError: a plain mistake' in str(failure)


@pytest.mark.parametrize('high', [1.0, np.inf])
def test_action_that_is_not_a_number_reaches_no_environment(high):
    envs = [Recording(action_space=gym.spaces.Box(-1, high, (2,)))] * 2
    batch_env = make(*envs)
    batch_env.reset()
    prepare = tf.function(batch_env.prepare, jit_compile=True)
    prepared = prepare(tf.constant([[0.0, 0.0], [np.nan, 0.0]]))
    with pytest.raises(tf.errors.OpError):
        tf.function(batch_env.step)(prepared)
    assert isinstance(batch_env.failure(), errors.EnvError)
    assert 'for environment 1' in str(batch_env.failure())
    assert not envs[0].actions


def test_cancel_calls_off_a_step_that_sleeps(nothing_left, tmp_path):
    begun = tmp_path / 'begun'

    def act():
        begun.touch()
        time.sleep(1000)

    def cancel_once_begun():
        while not begun.exists():
            time.sleep(1e-3)
        batch_env.cancel()

    process = ExternalProcess(functools.partial(Recording, act=act))
    batch_env = InGraphBatchEnv(BatchEnv([process], timeout=20.0))
    batch_env.reset()
    threading.Thread(target=cancel_once_begun, daemon=True).start()
    with pytest.raises(tf.errors.OpError):
        tf.function(batch_env.simulate)(tf.zeros((1, 2)))
    assert isinstance(batch_env.failure(), errors.Cancelled)
    batch_env.close()
