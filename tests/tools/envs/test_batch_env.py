"""Batches of environments within one process and over several."""

import functools
import gc
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time

import cloudpickle
import gymnasium as gym
import numpy as np
import psutil
import pytest

from agents.tools import errors
from agents.tools.envs import block
from agents.tools.envs.batch_env import BatchEnv
from agents.tools.envs.env_slice import EnvSlice
from agents.tools.envs.external_process import ExternalProcess
from agents.tools.envs.mock_environment import MockEnvironment
from agents.tools.envs.restarts import Restarts

# Workers cannot import this file, so what it defines is sent to them whole.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

FIELDS = 'observ', 'reward', 'terminated', 'truncated', 'next_observ'


class Counting(gym.Env):
    """Observes the number of the episode and its step; 10 × step as reward.

    Episodes end after a number of steps, by termination if it is even.
    """

    observation_space = gym.spaces.Box(0.0, 100.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, length):
        self.length = length
        self.episode = self.time = 0
        self.actions = []
        self.closed = False

    def reset(self, *, seed=None, options=None):
        self.episode, self.time = self.episode + 1, 0
        return self.observ(), {}

    def step(self, action):
        self.actions.append(action)
        self.time += 1
        over, even = self.time == self.length, self.length % 2 == 0
        reward = 10.0 * self.time
        return self.observ(), reward, over and even, over and not even, {}

    def close(self):
        self.closed = True

    def pid(self):
        return os.getpid()

    def observ(self):
        return np.array([self.episode, self.time], np.float32)


class Acting(Counting):
    """Has a space of actions of one's choice, and does something in steps."""

    def __init__(self, action_space=Counting.action_space, act=bool):
        super().__init__(length=100)
        self.action_space = action_space
        self.act = act

    def step(self, action):
        self.act()
        return super().step(action)


class Delayed(gym.Wrapper):
    """Takes its time, which depends on nothing that is seeded."""

    def step(self, action):
        time.sleep(random.SystemRandom().uniform(0, 3e-3))
        return super().step(action)


def make_delayed():
    return Delayed(MockEnvironment())


def sleep():
    time.sleep(1000)


def raise_plain():
    raise ValueError('a plain mistake')


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def append(path, text):
    with open(path, 'a') as file:
        file.write(text)


@pytest.fixture
def combine(nothing_left):
    """Makes batches that are closed at the end, and leave nothing."""
    made = []

    def combine(envs, timeout=20.0, **kwargs):
        made.append(BatchEnv(envs, timeout=timeout, **kwargs))
        return made[-1]

    yield combine
    for batch in made:
        batch.close()


def in_workers(constructors, workers, seeds=None):
    """Divide environments among processes."""
    seeds = seeds or [None] * len(constructors)
    return [
        ExternalProcess(
            [constructors[index] for index in indices],
            seeds=[seeds[index] for index in indices],
            first=int(indices[0]),
            timeout=20.0,
        )
        for indices in np.array_split(np.arange(len(constructors)), workers)
    ]


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
def test_same_seeds_give_the_same_whatever_the_workers(
    combine, expected, workers
):
    batch = combine(in_workers([MockEnvironment] * 4, workers, SEEDS))
    assert_identical(trajectory(batch), expected)


def test_same_seeds_give_the_same_despite_random_delays(combine, expected):
    batch = combine(in_workers([make_delayed] * 4, 2, SEEDS))
    assert_identical(trajectory(batch), expected)


def test_same_seeds_give_the_same_when_blocking(combine, expected):
    envs = in_workers([make_delayed] * 4, 2, SEEDS)
    assert_identical(trajectory(combine(envs, blocking=True)), expected)


def test_other_seeds_give_something_else(expected):
    others = BatchEnv([EnvSlice([MockEnvironment] * 4, [1, 2, 3, 4])])
    assert not np.array_equal(trajectory(others)[0], expected[0])


def test_kinds_of_members_can_be_mixed(combine):
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


def test_environments_of_one_worker_step_in_order(combine, tmp_path):
    path = tmp_path / 'order'
    constructors = [
        functools.partial(Acting, act=functools.partial(append, path, name))
        for name in 'abc'
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


def test_workers_step_at_the_same_time(combine, tmp_path):
    one, other = tmp_path / 'one', tmp_path / 'other'
    constructors = [
        functools.partial(Acting, act=functools.partial(meet, *paths))
        for paths in ((one, other), (other, one))
    ]
    batch = combine(in_workers(constructors, 2))
    batch.reset()
    batch.step([0, 0])  # Neither could step without the other.


def test_workers_take_turns_when_blocking(combine, tmp_path):
    path = tmp_path / 'order'

    def act(name):
        append(path, name)
        time.sleep(0.02)
        append(path, name)

    constructors = [
        functools.partial(Acting, act=functools.partial(act, name))
        for name in 'abc'
    ]
    batch = combine(in_workers(constructors, 3), blocking=True)
    batch.reset()
    batch.step([0, 0, 0])
    assert path.read_text() == 'aabbcc'


@pytest.mark.parametrize('workers', [0, 1, 2])
def test_ended_episodes_begin_anew_in_the_same_step(combine, workers):
    # Episode and step of two environments whose episodes take 2 and 3 steps;
    # the first terminates, the second is truncated.
    #
    #   step             1      2      3      4
    #   next_observ      1,1    1,2    2,1    2,2
    #                    1,1    1,2    1,3    2,1
    #   observ           1,1    2,0    2,1    3,0
    #                    1,1    1,2    2,0    2,1
    lengths = [functools.partial(Counting, length) for length in (2, 3)]
    batch = combine(
        in_workers(lengths, workers) if workers else [EnvSlice(lengths)]
    )
    assert batch.reset().tolist() == [[1, 0], [1, 0]]
    steps = [dict(zip(FIELDS, batch.step([0, 0]))) for _ in range(4)]
    table = {name: [step[name].tolist() for step in steps] for name in FIELDS}
    no = [False, False]
    assert table == {
        'next_observ': [
            [[1, 1], [1, 1]],
            [[1, 2], [1, 2]],
            [[2, 1], [1, 3]],
            [[2, 2], [2, 1]],
        ],
        'observ': [
            [[1, 1], [1, 1]],
            [[2, 0], [1, 2]],
            [[2, 1], [2, 0]],
            [[3, 0], [2, 1]],
        ],
        'reward': [[10, 10], [20, 20], [10, 30], [20, 10]],
        'terminated': [no, [True, False], no, [True, False]],
        'truncated': [no, no, [False, True], no],
    }


def test_reset_of_some_leaves_the_others_alone(combine):
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


def test_attributes_of_the_first_and_of_each(combine):
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


def test_returned_arrays_do_not_change_with_later_steps(combine):
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


def test_invalid_actions_do_not_reach_workers(combine):
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
def test_unequal_spaces_are_refused(nothing_left, workers):
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


class Replying(Counting):
    """Returns what it is given, changed at its steps or resets."""

    observation_space = gym.spaces.Box(-9.0, 9.0, (4,), np.float32)

    def __init__(self, step=None, reset=None):
        super().__init__(length=100)
        self.replies = step, reset

    def reset(self, *, seed=None, options=None):
        reply = self.replies[1]
        return (np.zeros(4, np.float32), {}) if reply is None else reply

    def step(self, action):
        observ = np.zeros(4, np.float32)
        return self.replies[0] or (observ, 0.0, False, False, {})


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


def test_broken_contract_in_a_worker(combine):
    bad = functools.partial(Replying, step=(np.zeros(1), 0.0, False, False, {}))
    batch = combine(in_workers([Replying, Replying, bad], 2))
    batch.reset()
    with pytest.raises(errors.EnvError, match='Environment 2 broke the'):
        batch.step([0, 0, 0])


@pytest.mark.parametrize(
    'act, told',
    [
        (raise_plain, r'(?s)Environment 3 .*in raise_plain.*a plain mistake'),
        (die, 'was killed by SIGKILL while environment 3 was at work'),
        (lambda: os._exit(0), 'exited with code 0 while environment 3'),
        (sleep, 'Environment 3 did not answer within 0.4 seconds'),
    ],
    ids=['raise', 'kill', 'exit', 'sleep'],
)
def test_fault_of_one_ends_all(combine, act, told):
    good, bad = Acting, functools.partial(Acting, act=act)
    # The one before it in its worker has written its part of the reply.
    timeout = 0.4 if act is sleep else 20.0
    batch = combine(in_workers([good, good, good, bad], 2), timeout)
    pids = [env.call('pid') for env in batch]
    with pytest.raises(errors.EnvError, match=told):
        batch.step([0, 0, 0, 0])
    assert not any(is_alive(pid) for pid in pids)
    with pytest.raises(errors.EnvError, match='has been closed'):
        batch.step([0, 0, 0, 0])


def test_stopped_worker_runs_into_the_timeout(combine):
    batch = combine(in_workers([Acting] * 2, 2), timeout=0.4)
    os.kill(batch[1].call('pid'), signal.SIGSTOP)
    with pytest.raises(errors.EnvError, match='Environment 1 did not answer'):
        batch.step([0, 0])


def test_late_reply_is_never_taken_for_a_newer_one(combine, tmp_path):
    done = tmp_path / 'done'

    def act():
        time.sleep(0.5)
        done.touch()

    make = functools.partial(Acting, act=act)
    batch = combine(in_workers([make], 1), timeout=0.3)
    with pytest.raises(errors.EnvError, match='did not answer'):
        batch.step([0])
    time.sleep(0.4)
    assert not done.exists()  # The reply will never come.
    with pytest.raises(errors.EnvError, match='has been closed'):
        batch.step([0])


@pytest.mark.parametrize('forks', [False, True])
def test_killed_while_idle_is_seen_at_once_when_used(combine, forks):
    def fork():  # A child that holds the connection open.
        if not os.fork():
            time.sleep(5)
            os._exit(0)

    act = fork if forks else bool
    make = functools.partial(Acting, act=act)
    batch = combine(in_workers([Acting, make], 2))
    batch.reset()
    batch.step([0, 0])
    os.kill(batch[1].call('pid'), signal.SIGKILL)
    time.sleep(0.1)
    used = time.monotonic()
    with pytest.raises(errors.EnvError, match='SIGKILL while environment 1'):
        batch.step([0, 0])
    assert time.monotonic() < used + 1


class Forking(Acting):
    """Forks itself in a step; the child goes on as if it were the parent."""

    def step(self, action):
        if self.time == 1:
            os.fork()
        return super().step(action)


def test_environment_that_returns_from_a_fork_twice(combine):
    batch = combine(in_workers([Forking, Acting], 2))
    batch.reset()
    with pytest.raises(errors.EnvError, match='called os.fork, and both'):
        for _ in range(100):
            batch.step([0, 0])
            time.sleep(1e-3)
    assert batch._members[0]._number < 20


class Talkative(Acting):
    """Sends replies to the parent that nobody has asked for, now or later."""

    def step(self, action):
        reply = functools.partial(os.write, int(sys.argv[1]), b'd')
        if action:
            threading.Timer(0.05, reply).start()
        else:
            reply()
        return super().step(action)


@pytest.mark.parametrize(
    'late, others',
    [(False, bool), (True, bool), (True, functools.partial(time.sleep, 0.5))],
    ids=['before its own', 'between requests', 'after its own'],
)
def test_reply_to_another_request_is_told(combine, late, others):
    envs = [functools.partial(Acting, act=others), Talkative]
    batch = combine(in_workers(envs, 2))
    batch.reset()
    with pytest.raises(
        errors.EnvError, match=r'of environment 1 replied to request \d when'
    ):
        for _ in range(3):
            batch.step([late, late])
            time.sleep(0.1)
    with pytest.raises(errors.EnvError, match='has been closed'):
        batch.step([late, late])


class Unwilling:
    """Cannot be made an array."""

    def __array__(self, dtype=None, copy=None):
        raise MemoryError('hostile')


def test_unreadable_result_in_a_worker_names_the_environment(combine):
    bad = functools.partial(Replying, step=(Unwilling(), 0.0, False, False, {}))
    batch = combine(in_workers([Replying, Replying, bad], 2))
    batch.reset()
    with pytest.raises(
        errors.EnvError, match='(?s)Environment 2 .*step.*MemoryError: hostile'
    ):
        batch.step([0, 0, 0])


def test_fault_within_this_process(combine):
    envs = [*in_workers([Acting] * 2, 1), Acting(), Acting(act=raise_plain)]
    batch = combine(envs)
    batch.reset()
    with pytest.raises(
        errors.EnvError, match=r'(?s)Environment 3.*a plain mis'
    ):
        batch.step([0] * 4)


def test_failed_constructor_ends_the_others(nothing_left):
    constructors = [Acting, raise_plain, Acting]
    with pytest.raises(
        errors.EnvError, match=r'(?s)Environment 1.*constructed'
    ):
        BatchEnv(in_workers(constructors, 3))


def test_close_closes_all_though_one_raises(nothing_left, tmp_path):
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


def test_cancel_calls_off_a_step_that_sleeps(combine, tmp_path):
    begun = tmp_path / 'begun'

    def act():
        begun.touch()
        sleep()

    batch = combine(in_workers([functools.partial(Acting, act=act)], 1))
    batch.reset()
    thread = threading.Thread(target=when_exists, args=(begun, batch.cancel))
    thread.start()
    with pytest.raises(errors.Cancelled):
        batch.step([0])  # Does not take until the timeout, another error.
    thread.join()
    with pytest.raises(errors.Cancelled):
        batch.step([0])


def when_exists(path, callback):
    while not path.exists():
        time.sleep(1e-3)
    callback()


class Failing(Counting):
    """Fails in the second step, unless it has done so before.

    It leaves a file, so that the one in its place knows.
    """

    def __init__(self, path, fail, length=100):
        super().__init__(length)
        self.path, self.fail = path, fail

    def step(self, action):
        observ, *others = super().step(action)
        if self.time == 2 and not self.path.exists():
            self.path.touch()
            result = self.fail()
            observ = observ if result is None else result
        return observ, *others


def wrong_shape():
    return np.zeros(7, np.float32)


FAULTS = {
    'raise': (raise_plain, 'raised an error in step.*: ValueError: a plain'),
    'kill': (die, 'was killed by SIGKILL while environment 3 was at work'),
    'exit': (lambda: os._exit(5), 'exited with code 5 while environment 3'),
    'sleep': (sleep, 'Environment 3 did not answer within 3 seconds'),
    'contract': (wrong_shape, r'Environment 3 broke the contract.*\(7,\)'),
}


@pytest.mark.parametrize('fault', FAULTS)
@pytest.mark.parametrize('blocking', [False, True])
def test_step_is_lost_where_a_worker_is_started_anew(
    combine, tmp_path, fault, blocking
):
    # The second of two workers fails in its second step. Of each environment
    # that it has, a new episode begins, and the others go on.
    #
    #   step             1      2      3
    #   next_observ      1,1    1,2    1,3      the first worker's
    #                    1,1    1,1    1,1      the second's
    #   observ           1,1    1,2    1,3
    #                    1,1    1,0    1,1
    act, reason = FAULTS[fault]
    good = functools.partial(Counting, 100)
    bad = functools.partial(Failing, tmp_path / 'failed', act)
    told = []
    restarts = Restarts(5, told.append)
    timeout = 3.0 if act is sleep else 20.0
    envs = in_workers([good, good, good, bad], 2)
    batch = combine(envs, timeout, blocking=blocking, restarts=restarts)
    batch.reset()
    steps = [packed(batch, batch.step_packed(ZEROS)) for _ in range(3)]
    table = {name: [step[name].tolist() for step in steps] for name in ALL}
    no, lost = [0.0] * 4, [0.0, 0.0, 1.0, 1.0]
    assert table == {
        'next_observ': [
            [[1, 1]] * 4,
            [[1, 2]] * 2 + [[1, 1]] * 2,
            [[1, 3]] * 2 + [[1, 1]] * 2,
        ],
        'observ': [
            [[1, 1]] * 4,
            [[1, 2]] * 2 + [[1, 0]] * 2,
            [[1, 3]] * 2 + [[1, 1]] * 2,
        ],
        'begins': [no, lost, no],
        'reward': [[10] * 4, [20, 20, 0, 0], [30, 30, 10, 10]],
        'terminated': [no, no, no],
        'truncated': [no, lost, no],
        'lost': [no, lost, no],
    }
    assert restarts.count == 1
    (line,) = told
    assert re.fullmatch(f'a worker is started anew, 1 of 5: .*{reason}.*', line)


ALL = (*FIELDS, 'begins', 'lost')
ZEROS = np.zeros(4, np.int32)


def packed(batch, matrices):
    return block.reply_layout(batch.observation_space).views(matrices)


def test_several_workers_are_started_anew_in_one_step(combine):
    restarts = Restarts(5)
    envs = in_workers([functools.partial(Counting, 100)] * 4, 4)
    batch = combine(envs, restarts=restarts)
    batch.reset()
    for index in (0, 2, 3):
        os.kill(batch[index].call('pid'), signal.SIGKILL)
    reply = packed(batch, batch.step_packed(ZEROS))
    assert reply['lost'].tolist() == [1, 0, 1, 1]
    assert batch.call('time') == [0, 1, 0, 0]
    assert restarts.count == 3
    reply = packed(batch, batch.step_packed(ZEROS))
    assert reply['lost'].tolist() == [0, 0, 0, 0]
    assert reply['observ'].tolist() == [[1, 1], [1, 2], [1, 1], [1, 1]]


def test_worker_that_is_started_anew_for_a_reset_loses_no_step(combine):
    envs = in_workers([functools.partial(Counting, 100)] * 4, 2)
    batch = combine(envs, restarts=Restarts(1))
    batch.reset()
    batch.step(ZEROS)
    os.kill(batch[3].call('pid'), signal.SIGKILL)
    mask = np.array([True, False, True, False])
    reply = packed(batch, batch.reset_packed(mask))
    # But for the environment that was not to be reset.
    assert reply['lost'].tolist() == reply['truncated'].tolist() == [0, 0, 0, 1]
    assert reply['begins'].tolist() == [1, 0, 1, 1]
    assert reply['observ'].tolist() == [[2, 0], [1, 1], [1, 0], [1, 0]]
    assert reply['next_observ'].tolist()[3] == [1, 1]


def first_observs(combine, faults):
    """The first observations of a worker, and of those in its place."""
    batch = combine(
        in_workers([MockEnvironment] * 2, 1, [7, 8]), restarts=Restarts(9)
    )
    found = [batch.reset()]
    for _ in range(faults):
        batch._members[0]._process.kill()
        found.append(batch.step(np.zeros((2, 2)))[0])
    return np.concatenate(found)


def test_episodes_of_a_worker_started_anew_are_others_and_repeatable(combine):
    found = first_observs(combine, 2)
    assert len(np.unique(found, axis=0)) == 6
    np.testing.assert_array_equal(found, first_observs(combine, 2))


def test_storm_of_crashes_ends_with_the_error(combine):
    envs = in_workers([Acting, functools.partial(Acting, act=die)], 2)
    told = []
    batch = combine(envs, restarts=Restarts(3, told.append))
    batch.reset()
    with pytest.raises(errors.EnvError) as caught:
        for _ in range(100):
            batch.step([0, 0])
    first, second = str(caught.value).splitlines()
    assert 'was killed by SIGKILL while environment 1 was at work' in first
    assert 'worker_restarts=3 times already' in second
    assert len(told) == 3
    with pytest.raises(errors.EnvError, match='has been closed'):
        batch.step([0, 0])


class Brittle(Acting):
    """Can be constructed, or reset, only once."""

    def __init__(self, path, moment, act):
        super().__init__(act=act)
        self.path, self.moment = path, moment
        self.play('construct')

    def reset(self, **kwargs):
        self.play('reset')
        return super().reset(**kwargs)

    def play(self, moment):
        if moment == self.moment:
            if self.path.exists():
                raise_plain()
            self.path.touch()


@pytest.mark.parametrize('moment', ['construct', 'reset'])
def test_errors_while_starting_anew_use_the_budget(combine, tmp_path, moment):
    brittle = functools.partial(Brittle, tmp_path / 'once', moment, die)
    restarts = Restarts(4)
    batch = combine(in_workers([Acting, brittle], 2), restarts=restarts)
    batch.reset()
    with pytest.raises(
        errors.EnvError, match='(?s)a plain mistake.*worker_restarts=4 times'
    ):
        batch.step([0, 0])
    assert restarts.count == 4


def test_worker_that_dies_while_it_starts_is_started_anew(combine):
    processes = in_workers([Acting] * 2, 2)
    os.kill(processes[1].pid, signal.SIGKILL)
    restarts = Restarts(1)
    batch = combine(processes, restarts=restarts)
    batch.reset()
    batch.step([0, 0])
    assert restarts.count == 1


def test_mistake_at_the_start_is_not_tried_again(combine):
    processes = in_workers([raise_plain], 1)
    restarts = Restarts(9)
    with pytest.raises(errors.EnvError, match='a plain mistake'):
        combine(processes, restarts=restarts)
    assert restarts.count == 0


def test_environments_of_this_process_are_not_started_anew(combine):
    restarts = Restarts(4)
    batch = combine([Acting(act=raise_plain)], restarts=restarts)
    batch.reset()
    with pytest.raises(errors.EnvError, match='a plain mistake'):
        batch.step([0])
    assert restarts.count == 0


def test_closed_batch_starts_nothing_anew(combine):
    batch = combine(in_workers([Acting] * 2, 2), restarts=Restarts(4))
    batch.close()
    with pytest.raises(errors.EnvError, match='has been closed'):
        batch.step([0, 0])


def test_cancel_calls_off_a_start_that_hangs(combine, tmp_path):
    def make():
        if (tmp_path / 'once').exists():
            (tmp_path / 'again').touch()
            sleep()
        (tmp_path / 'once').touch()
        return Acting()

    batch = combine(in_workers([make], 1), restarts=Restarts(4))
    batch.reset()
    batch._members[0]._process.kill()
    thread = threading.Thread(
        target=when_exists, args=(tmp_path / 'again', batch.cancel)
    )
    thread.start()
    with pytest.raises(errors.Cancelled):
        batch.step([0])  # Does not take until the timeout, another error.
    thread.join()


def test_what_is_started_anew_leaves_no_descriptors(combine):
    batch = combine(in_workers([Acting] * 2, 2), restarts=Restarts(9))
    batch.reset()
    gc.collect()  # What other tests have left would go at any time.
    counts = []
    for _ in range(3):
        os.kill(batch[1].call('pid'), signal.SIGKILL)
        batch.step([0, 0])
        counts.append(len(os.listdir('/proc/self/fd')))
    assert counts[0] == counts[2]


def test_no_shared_memory_left(nothing_left):
    # Files that may not grow stand for memory of which there is none.
    program = """
        import resource, gymnasium as gym, numpy as np
        from agents.tools import errors
        from agents.tools.envs import batch_env, external_process

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
    result = subprocess.run(
        [sys.executable, '-c', textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=True,
    )
    # Twice 5000 floats, and a little.
    refused, closed = result.stdout.splitlines()
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


def is_alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_batch_of_nothing_is_refused():
    with pytest.raises(errors.ConfigError, match='at least one environment'):
        BatchEnv([])
