"""Batches of environments within one process and over several."""

import functools
import random
import sys
import textwrap
import time

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest

from agents.tools import errors
from agents.tools.batch.batch_env import BatchEnv
from agents.tools.batch.env_slice import EnvSlice
from agents.tools.batch.mock_counting import Acting, Counting, Replying
from agents.tools.batch.mock_environment import MockEnvironment
from agents.tools.workers import block
from agents.tools.workers.external_process import ExternalProcess

# Workers cannot import this file, so what it defines is sent to them whole.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

FIELDS = 'observ', 'reward', 'terminated', 'truncated', 'next_observ'


class Delayed(gym.Wrapper):
    """Takes its time, which depends on nothing that is seeded."""

    def step(self, action):
        time.sleep(random.SystemRandom().uniform(0, 3e-3))
        return super().step(action)


def make_delayed():
    return Delayed(MockEnvironment())


def raise_plain():
    raise ValueError('a plain mistake')


def append(path, text):
    with open(path, 'a') as file:
        file.write(text)


def trajectory(batch, steps=12):
    """What a batch returns to a fixed sequence of actions."""
    actions = np.random.default_rng(0).uniform(-1, 1, (steps, len(batch), 2))
    results = [batch.reset()]
    for action in actions:
        results += batch.step(action.astype(np.float32))
    return results


def assert_identical(mine, others):
    assert len(mine) == len(others)
    for one, other in zip(mine, others, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.fixture(scope='module')
def expected():
    """The trajectory of environments within this process, with seeds."""
    return trajectory(BatchEnv([EnvSlice([MockEnvironment] * 4, SEEDS)]))


SEEDS = [11, 22, 33, 44]


@pytest.mark.parametrize('workers', [1, 2, 4])
def test_same_seeds_give_the_same_whatever_the_workers(combine, in_workers, expected, workers):
    batch = combine(in_workers([MockEnvironment] * 4, workers, SEEDS))
    assert_identical(trajectory(batch), expected)


def test_same_seeds_give_the_same_despite_random_delays(combine, in_workers, expected):
    batch = combine(in_workers([make_delayed] * 4, 2, SEEDS))
    assert_identical(trajectory(batch), expected)


def test_same_seeds_give_the_same_when_blocking(combine, in_workers, expected):
    envs = in_workers([make_delayed] * 4, 2, SEEDS)
    assert_identical(trajectory(combine(envs, blocking=True)), expected)


def test_other_seeds_give_something_else(expected):
    others = BatchEnv([EnvSlice([MockEnvironment] * 4, [1, 2, 3, 4])])
    assert not np.array_equal(trajectory(others)[0], expected[0])


def test_kinds_of_members_can_be_mixed(combine, in_workers):
    lengths = [functools.partial(Counting, length) for length in range(2, 7)]
    envs = [
        lengths[0](),
        *in_workers(lengths[1:3], 1),
        lengths[3](),
        EnvSlice(lengths[4:], first=4),
    ]
    batch = combine(envs)
    assert len(batch) == 5
    assert batch.call('length') == [2, 3, 4, 5, 6]
    assert batch.reset().tolist() == [[1.0, 0.0]] * 5
    batch.step([0, 1, 2, 1, 0])
    assert batch.call('actions') == [[0], [1], [2], [1], [0]]


def test_environments_of_one_worker_step_in_order(combine, in_workers, tmp_path):
    path = tmp_path / 'order'
    constructors = [
        functools.partial(Acting, act=functools.partial(append, path, name)) for name in 'abc'
    ]
    batch = combine(in_workers(constructors, 1))
    batch.reset()
    batch.step([0, 0, 0])
    batch.step([0, 0, 0])
    assert path.read_text() == 'abcabc'


def meet(mine, others):
    """Return once both sides are here."""
    mine.touch()
    while not others.exists():
        time.sleep(1e-3)


def test_workers_step_at_the_same_time(combine, in_workers, tmp_path):
    one, other = tmp_path / 'one', tmp_path / 'other'
    constructors = [
        functools.partial(Acting, act=functools.partial(meet, *paths))
        for paths in ((one, other), (other, one))
    ]
    batch = combine(in_workers(constructors, 2))
    batch.reset()
    batch.step([0, 0])  # Neither could step without the other.


def test_workers_take_turns_when_blocking(combine, in_workers, tmp_path):
    path = tmp_path / 'order'

    def act(name):
        append(path, name)
        time.sleep(0.02)
        append(path, name)

    constructors = [functools.partial(Acting, act=functools.partial(act, name)) for name in 'abc']
    batch = combine(in_workers(constructors, 3), blocking=True)
    batch.reset()
    batch.step([0, 0, 0])
    assert path.read_text() == 'aabbcc'


@pytest.mark.parametrize('workers', [0, 1, 2])
def test_ended_episodes_begin_anew_in_the_same_step(combine, in_workers, workers):
    # Episode and step of two environments whose episodes take 2 and 3 steps;
    # the first terminates, the second is truncated.
    #
    #   step             1      2      3      4
    #   next_observ      1,1    1,2    2,1    2,2
    #                    1,1    1,2    1,3    2,1
    #   observ           1,1    2,0    2,1    3,0
    #                    1,1    1,2    2,0    2,1
    lengths = [functools.partial(Counting, length) for length in (2, 3)]
    batch = combine(in_workers(lengths, workers) if workers else [EnvSlice(lengths)])
    assert batch.reset().tolist() == [[1, 0], [1, 0]]
    steps = [dict(zip(FIELDS, batch.step([0, 0]))) for _ in range(4)]
    table = {name: [step[name].tolist() for step in steps] for name in FIELDS}
    no = [False, False]
    assert table == {
        'next_observ': [[[1, 1], [1, 1]], [[1, 2], [1, 2]], [[2, 1], [1, 3]], [[2, 2], [2, 1]]],
        'observ': [[[1, 1], [1, 1]], [[2, 0], [1, 2]], [[2, 1], [2, 0]], [[3, 0], [2, 1]]],
        'reward': [[10, 10], [20, 20], [10, 30], [20, 10]],
        'terminated': [no, [True, False], no, [True, False]],
        'truncated': [no, no, [False, True], no],
    }


def test_reset_of_some_leaves_the_others_alone(combine, in_workers):
    constructors = [functools.partial(Counting, length) for length in (7, 8, 9)]
    batch = combine(in_workers(constructors, 2))
    batch.reset()
    batch.step([0, 0, 0])
    assert batch.reset([2, 0]).tolist() == [[2, 0], [2, 0]]
    observ, reward, *_ = batch.step([0, 0, 0])
    assert observ.tolist() == [[2, 1], [1, 2], [2, 1]]
    assert reward.tolist() == [10, 20, 10]
    assert batch.call('episode') == [2, 1, 2]


def test_reset_of_none(combine):
    batch = combine([Counting(3)])
    assert batch.reset([]).shape == (0, 2)
    assert batch.call('episode') == [0]


def test_attributes_of_the_first_and_of_each(combine, in_workers):
    constructors = [functools.partial(Counting, length) for length in (3, 4)]
    batch = combine(in_workers(constructors, 1))
    assert batch.length == 3
    assert [env.length for env in batch] == [3, 4]
    assert batch[-1].call('get_wrapper_attr', 'length') == 4
    assert batch[1].call('length', blocking=False)() == 4
    for nothing in (lambda: batch.width, lambda: batch[1].width):
        with pytest.raises(AttributeError, match='width'):
            nothing()
    with pytest.raises(AttributeError, match='BatchEnv has no'):
        batch._width  # noqa: B018


def test_returned_arrays_do_not_change_with_later_steps(combine, in_workers):
    class Reusing(Counting):
        memory = np.zeros(2, np.float32)

        def observ(self):
            self.memory[:] = self.episode, self.time
            return self.memory

    for envs in ([Reusing(2)], in_workers([functools.partial(Reusing, 2)], 1)):
        batch = combine(envs)
        first = batch.reset()
        observ, *_, next_observ = batch.step([0])
        later_observ, *_, later_next_observ = batch.step([0])
        assert first.tolist() == [[1, 0]]
        assert observ.tolist() == next_observ.tolist() == [[1, 1]]
        assert later_observ.tolist() == [[2, 0]]
        assert later_next_observ.tolist() == [[1, 2]]


def test_actions_kept_by_an_environment_do_not_change(combine):
    space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    env = Acting(space)
    batch = combine([env])
    batch.reset()
    batch.step(np.array([[0.25]]))
    batch.step(np.array([[0.75]]))
    assert [action.tolist() for action in env.actions] == [[0.25], [0.75]]


BOX = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)


@pytest.mark.parametrize(
    'space, actions',
    [
        (BOX, [[0, 0], [0, np.nan]]),
        (BOX, [[0, 0], [-np.inf, 0]]),
        (BOX, [[0, 0], [0, 1e300]]),  # Infinite as a number of 32 bits.
        (BOX, [[0, 0]]),
        (BOX, [[0, 0, 0], [0, 0, 0]]),
        (BOX, [0, 0]),
        (gym.spaces.Discrete(3), [0, 3]),
        (gym.spaces.Discrete(3), [0, -1]),
        (gym.spaces.Discrete(3), [0, 2**40]),
        (gym.spaces.Discrete(3), [0, 0.5]),
        (gym.spaces.Discrete(3), [0, np.nan]),
        (gym.spaces.Discrete(3), [[0], [0]]),
        (gym.spaces.Discrete(3, start=5), [0, 5]),
        (gym.spaces.MultiDiscrete([2, 3]), [[1, 2], [2, 2]]),
        (gym.spaces.MultiBinary(2), [[1, 0], [0, 2]]),
    ],
)
def test_invalid_actions_reach_no_environment(combine, space, actions):
    batch = combine([EnvSlice([functools.partial(Acting, space)] * 2)])
    batch.reset()
    with pytest.raises(errors.EnvError, match=r'environment 1|shape'):
        batch.step(np.array(actions))
    assert batch.call('actions') == [[], []]
    batch.step([space.sample() * 0] * 2)  # A mistake of the caller's only.
    assert [len(actions) for actions in batch.call('actions')] == [1, 1]


def test_invalid_actions_do_not_reach_workers(combine, in_workers):
    make = functools.partial(Acting, BOX)
    batch = combine(in_workers([make, make], 2))
    batch.reset()
    with pytest.raises(errors.EnvError, match='for environment 1 is not'):
        batch.step(np.array([[0, 0], [np.nan, 0]]))
    assert batch.call('actions') == [[], []]
    batch.step(np.zeros((2, 2)))
    assert batch.call('time') == [1, 1]


def test_counted_actions_start_from_zero(combine):
    env = Acting(gym.spaces.Discrete(3, start=5))
    batch = combine([env])
    batch.reset()
    for action in range(3):
        batch.step([action])
    assert env.actions == [5, 6, 7]
    assert all(action in env.action_space for action in env.actions)


def with_observ(space):
    """A class of environments that have this space of observations."""

    def make():
        env = Counting(3)
        env.observation_space = space
        return env

    return make


@pytest.mark.parametrize('workers', [0, 1, 2, 3])
def test_unequal_spaces_are_refused(nothing_left, in_workers, workers):
    same = with_observ(gym.spaces.Box(0.0, 1.0, (2,), np.float32))
    other = with_observ(gym.spaces.Box(0.0, 1.0, (3,), np.float32))
    constructors = [same, same, other]
    with pytest.raises(errors.EnvError) as caught:
        if workers:
            BatchEnv(in_workers(constructors, workers))
        else:
            BatchEnv([make() for make in constructors])
    message = str(caught.value)
    assert 'observation_space of environment 2' in message
    assert '(2,)' in message and '(3,)' in message


def test_unequal_action_spaces_are_refused(nothing_left):
    envs = [
        ExternalProcess(functools.partial(Acting, gym.spaces.Discrete(count)))
        for count in (3, 3, 4)
    ]
    with pytest.raises(
        errors.EnvError,
        match=r'the action_space of environment 2 is Discrete\(4\) where that '
        r'of environment 0 is Discrete\(3\)',
    ):
        BatchEnv(envs)


GOOD = np.zeros(4, np.float32)


@pytest.mark.parametrize(
    'reply, told',
    [
        ((np.zeros(1), 0.0, False, False, {}), r'of shape \(1,\)'),
        ((np.zeros((2, 2)), 0.0, False, False, {}), r'of shape \(2, 2\)'),
        ((0.0, 0.0, False, False, {}), r'shape \(4,\)'),
        ((np.zeros(4, object), 0.0, False, False, {}), 'type object'),
        ((None, 0.0, False, False, {}), 'type object'),
        (({'x': GOOD}, 0.0, False, False, {}), 'type object'),
        ((GOOD, None, False, False, {}), 'reward should be a number'),
        ((GOOD, np.zeros(1), False, False, {}), 'reward should be a number'),
        ((GOOD, '1', False, False, {}), 'reward should be a number'),
        ((GOOD, 0.0, 0, False, {}), 'terminated should be a bool'),
        ((GOOD, 0.0, False, None, {}), 'truncated should be a bool'),
        ((GOOD, 0.0, False, {}), r'5 values \(observation.*, not 4, as before'),
        ((GOOD * np.nan, 0.0, False, False, {}), 'not finite'),
        ((GOOD, np.inf, False, False, {}), 'not finite'),
        ((GOOD, 1e300, False, False, {}), 'not finite'),
    ],
)
def test_replies_to_a_step_that_break_the_contract(combine, reply, told):
    constructors = [functools.partial(Replying, step=r) for r in (None, reply)]
    batch = combine([EnvSlice(constructors)])
    batch.reset()
    with pytest.raises(errors.EnvError, match=told) as caught:
        batch.step([0, 0])
    assert 'Environment 1' in str(caught.value)


@pytest.mark.parametrize(
    'reply, told',
    [
        ((np.zeros(1), {}), r'gymnasium.Env.reset.*of shape \(1,\)'),
        ((GOOD, {}, {}), r'2 values \(observation, info\), not 3\.'),
        (GOOD, 'not 1, as before Gymnasium 0.26; .* shimmy.GymV21Compat'),
        (GOOD[:2], 'not 1, as before'),  # Which could be unpacked.
        ((GOOD * np.nan, {}), 'not finite'),
    ],
)
def test_replies_to_a_reset_that_break_the_contract(combine, reply, told):
    constructors = [functools.partial(Replying, reset=r) for r in (None, reply)]
    batch = combine([EnvSlice(constructors)])
    with pytest.raises(errors.EnvError, match=told) as caught:
        batch.reset()
    assert 'Environment 1' in str(caught.value)


def test_close_closes_all_though_one_raises(nothing_left, in_workers, tmp_path):
    class Clinging(Counting):
        def close(self):
            raise_plain()

    env = Counting(3)
    closed = tmp_path / 'closed'
    (process,) = in_workers([functools.partial(Leaving, closed)], 1)
    batch = BatchEnv([EnvSlice([functools.partial(Clinging, 3)]), process, env])
    with pytest.raises(errors.EnvError, match='Environment 0 raised an error'):
        batch.close()
    assert closed.exists() and env.closed


class Leaving(Counting):
    """Leaves a file behind when it is closed."""

    def __init__(self, path):
        super().__init__(length=3)
        self.path = path

    def close(self):
        self.path.touch()


def test_no_shared_memory_left(nothing_left, run_python):
    # Files that may not grow stand for memory of which there is none.
    program = """
        import resource, gymnasium as gym, numpy as np
        from agents.tools import errors
        from agents.tools.batch import batch_env
        from agents.tools.workers import external_process

        class Env(gym.Env):
            observation_space = gym.spaces.Box(0, 1, (5000,), np.float32)
            action_space = gym.spaces.Discrete(2)

        process = external_process.ExternalProcess(Env)
        process.observation_space
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, -1))
        try:
            batch_env.BatchEnv([process])
        except errors.EnvError as error:
            print(error)
        try:
            process.reset()
        except errors.EnvError as error:
            print(error)
    """
    result = run_python('-c', textwrap.dedent(program))
    # Twice 5000 floats, and a little.
    refused, closed = result.output.splitlines()
    assert refused.startswith('There are no 40,')
    assert 'bytes of shared memory' in refused
    assert 'has been closed' in closed


def test_time_is_that_of_steps_and_resets(combine):
    batch = combine([Acting(act=functools.partial(time.sleep, 0.01))])
    assert batch.seconds == 0.0
    batch.reset()
    after_reset = batch.seconds
    batch.step([0])
    assert 0.0 < after_reset < after_reset + 0.01 <= batch.seconds


def test_packed_replies_have_the_layout_of_a_block(combine):
    batch = combine([Counting(1), Counting(2)])
    batch.reset()
    layout = block.reply_layout(batch.observation_space)
    reply = layout.views(batch.step_packed(np.array([0, 0])))
    assert reply['begins'].tolist() == [1.0, 0.0]
    assert reply['observ'].tolist() == [[2, 0], [1, 1]]
    reply = layout.views(batch.reset_packed(np.array([False, True])))
    assert reply['begins'].tolist() == [1.0, 1.0]
    assert reply['observ'].tolist() == [[2, 0], [2, 0]]


def test_batch_of_nothing_is_refused():
    with pytest.raises(errors.ConfigError, match='at least one environment'):
        BatchEnv([])


class Hangs(MockEnvironment):
    def close(self):
        time.sleep(60)


def test_close_that_hangs_in_this_process_is_given_up(capfd):
    batch = BatchEnv([Hangs(), Hangs()], timeout=0.1)
    started = time.monotonic()
    batch.close()
    assert time.monotonic() - started < 5
    (line,) = capfd.readouterr().err.splitlines()
    assert 'did not close within 0.1 seconds' in line
