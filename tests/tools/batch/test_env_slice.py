"""Environments of one process: their contract, resets and seeds."""

import functools
import re
import signal
import sys

import gymnasium as gym
import numpy as np
import pytest

from agents.tools import EnvError
from agents.tools.batch import env_slice, wrappers
from agents.tools.workers import block

spaces = gym.spaces
BOX = spaces.Box(-10, 10, (4,))
ZEROS = np.zeros(4, np.float32)
FIVE = spaces.Discrete(5)


class Scripted(gym.Env):
    """Returns what it is told: `first` from reset, then one step each."""

    def __init__(self, *steps, first=ZEROS, space=BOX, action_space=FIVE, reset=None):
        self.observation_space = space
        self.action_space = action_space
        self._first = (first, {}) if reset is None else reset
        self._steps = steps
        self.calls = []
        self.closed = False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.calls.append(('reset', seed))
        return self._first

    def step(self, action):
        self.calls.append(('step', action))
        steps = [call for call in self.calls if call[0] == 'step']
        return self._steps[len(steps) - 1]

    def close(self):
        self.closed = True


def outcome(observ=ZEROS, reward=0.0, terminated=False, truncated=False):
    return observ, reward, terminated, truncated, {}


def attach(*envs, seeds=None, first=0):
    """A slice of environments, the memory it writes to, and a step of it."""
    constructors = [functools.partial(lambda env: env, env) for env in envs]
    envs = env_slice.EnvSlice(constructors, seeds, first)
    memory = block.Block(envs.observation_space, envs.action_space, len(constructors))
    envs.attach(memory)
    return envs, memory


def reset(envs, memory, mask=True):
    memory.request['reset'][:] = mask
    envs.reset()
    return memory.reply


def step(envs, memory, action=0, **kwargs):
    memory.request['action'][:] = action
    envs.step(**kwargs)
    return memory.reply


def step_once(env, first=5):
    """Reset an environment that is alone and step it."""
    envs, memory = attach(env, first=first)
    reset(envs, memory)
    return step(envs, memory)


BROKEN_STEPS = {
    'observation of one': (outcome(np.zeros(1)), r'shape \(4,\)'),
    'observation of a matrix': (outcome(np.zeros((2, 2))), r'shape \(4,\)'),
    'observation of objects': (outcome(np.zeros(4, object)), r'shape \(4,\) and type object'),
    'observation None': (outcome(None), r'shape \(\) and type object'),
    'reward in a list': (outcome(reward=[1.0]), 'reward should be a number'),
    'reward of one': (outcome(reward=np.ones(1)), r'array of shape \(1,\)'),
    'rewards of several objectives': (
        outcome(reward=np.ones(2)),
        r'shape \(2,\) and type float64; weigh .*LinearReward does\. It',
    ),
    'reward text': (outcome(reward='1'), "not a str: '1'"),
    'reward None': (outcome(reward=None), 'not a NoneType'),
    'reward complex': (outcome(reward=1j), 'not a complex'),
    'reward too large': (outcome(reward=10**400), 'too large'),
    'terminated integer': (outcome(terminated=1), 'terminated should be a bool'),
    'terminated None': (outcome(terminated=None), 'terminated should be'),
    'terminated array': (
        outcome(terminated=np.array([True])),
        'terminated should be a bool, not an array',
    ),
    'truncated text': (outcome(truncated='no'), 'truncated should be a bool'),
    'four values': (
        outcome()[:4],
        r'return 5 values \(observation, reward, terminated, truncated, '
        r'info\), not 4, as before Gymnasium 0.26; wrap .* shimmy',
    ),
    'six values': ((*outcome(), 0), r'5 values \(.*\), not 6\. It returned'),
    'nothing': (None, r'5 values \(.*\), not 1\. It returned'),
}


@pytest.mark.parametrize('result, message', BROKEN_STEPS.values(), ids=BROKEN_STEPS)
def test_broken_step(result, message):
    with pytest.raises(EnvError, match=message) as raised:
        step_once(Scripted(result))
    start = 'Environment 5 broke the contract of gymnasium.Env.step: '
    assert str(raised.value).startswith(start)
    assert 'It returned' in str(raised.value)


def test_numbers_and_flags_of_any_library():
    tf = pytest.importorskip('tensorflow')
    reward, ends = tf.constant(2.5), tf.constant(True)
    envs, memory = attach(Scripted(outcome(reward=reward, terminated=ends)))
    envs.reset()
    envs.step()
    assert memory.reply['reward'][0] == 2.5
    assert memory.reply['terminated'][0] == 1.0


BROKEN_RESETS = {
    'only an observation': ZEROS,
    'only an observation of two': ZEROS[:2],
    'a list': [ZEROS, {}],
    'three values': (ZEROS, {}, 0),
    'observation of one': (np.zeros(1), {}),
    'observation of objects': (np.zeros(4, object), {}),
    'nothing': None,
}


@pytest.mark.parametrize('result', BROKEN_RESETS.values(), ids=BROKEN_RESETS)
def test_broken_reset(result):
    env = Scripted()
    env._first = result
    envs, memory = attach(env, first=7)
    match = r'Environment 7 broke the contract of gymnasium\.Env\.reset'
    with pytest.raises(EnvError, match=match) as raised:
        reset(envs, memory)
    old = 'not 1, as before Gymnasium 0.26' in str(raised.value)
    assert old == (result is None or isinstance(result, np.ndarray))


class Unwilling:
    """Cannot be made an array."""

    def __init__(self, error):
        self.error = error

    def __array__(self, dtype=None, copy=None):
        raise self.error

    def __repr__(self):
        raise RuntimeError('No words.')


@pytest.mark.parametrize(
    'error', [RuntimeError, ValueError, MemoryError, KeyError, FloatingPointError]
)
def test_any_error_while_a_result_is_read_names_the_environment(error):
    good = Scripted(*[outcome()] * 2)
    for bad in (
        Scripted(outcome(Unwilling(error('hostile')))),
        Scripted(outcome(terminated=True), first=Unwilling(error('hostile'))),
    ):
        envs, memory = attach(good, bad, first=3)
        with pytest.raises(EnvError, match='(?s)Environment 4 .*hostile'):
            reset(envs, memory)
            step(envs, memory)


class Strict(Scripted):
    """Has every oddity of a number raised as an error."""

    def step(self, action):
        np.seterr(all='raise')
        return super().step(action)


def test_environment_that_wants_errors_for_odd_numbers():
    tiny = np.full(4, 1e-300)
    rewards = Strict(outcome(reward=1e-300)), Strict(outcome(reward=1e30))
    with np.errstate():
        envs, memory = attach(*rewards)
        reset(envs, memory)
        with pytest.raises(EnvError, match='Environment 1 .* the value 1e.30'):
            step(envs, memory)
        assert memory.reply['reward'][0] == 0
        with pytest.raises(EnvError, match='(?s)Environment 5 .* step ret.*FloatingPointError'):
            step_once(Strict(outcome(tiny)))


def test_error_about_spaces_names_the_environment():
    class Unequal(gym.spaces.Box):
        def __eq__(self, other):
            raise RuntimeError('hostile')

    space = Unequal(-1, 1, (4,))
    with pytest.raises(EnvError, match='(?s)Environment 2 .*spaces.*hostile'):
        attach(Scripted(space=space), Scripted(space=space), first=2)


NEST = spaces.Dict(
    image=spaces.Box(0, 255, (2,), np.uint8),
    count=spaces.Box(0, 2**40, (1,), np.int64),
    pose=spaces.Tuple([spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, ())]),
)


def nest(image=(0, 0), count=(0,), pose=((0.0, 0.0), 0.0), **others):
    return {
        'image': np.array(image),
        'count': np.array(count),
        'pose': (np.array(pose[0]), pose[1]),
        **others,
    }


def without(observ, key):
    return {name: part for name, part in observ.items() if name != key}


BROKEN_NESTS = {
    'missing key': (without(nest(), 'count'), "lacks the key 'count'"),
    'extra key': (nest(extra=0), "has the key 'extra', which"),
    'other key': ({**without(nest(), 'pose'), 'POSE': 0}, "key 'pose'"),
    '300 for a byte': (nest(image=(0, 300)), "'image'.*outside"),
    '-1 for a byte': (nest(image=(-1, 0)), "'image'.*outside"),
    '2**40 for 32 bits': (nest(count=[2**40]), "'count'.*beyond the range of"),
    'list for a tuple': (nest() | {'pose': [0, 0]}, "'pose'.*a tuple"),
}


@pytest.mark.parametrize('observ, message', BROKEN_NESTS.values(), ids=BROKEN_NESTS)
def test_broken_nests(observ, message):
    for env in (
        Scripted(outcome(observ), first=nest(), space=NEST),
        Scripted(outcome(nest()), first=observ, space=NEST),
    ):
        with pytest.raises(EnvError, match=message):
            step_once(env)


@pytest.mark.parametrize('value', [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize('where', ['array', 'number', 'reward'])
def test_numbers_that_are_not_finite(where, value):
    observ = {
        'array': nest(pose=((0.0, value), 0.0)),
        'number': nest(pose=((0.0, 0.0), value)),
        'reward': nest(),
    }[where]
    reward = value if where == 'reward' else 0.0
    results = [outcome(nest()), outcome(nest()), outcome(observ, reward)]
    scripts = [Scripted(r, first=nest(), space=NEST) for r in results]
    envs, memory = attach(*scripts, first=3)
    reset(envs, memory)
    what = 'a reward' if where == 'reward' else 'an observation'
    match = f'Environment 5 returned {what} with values that are not finite'
    with pytest.raises(EnvError, match=match):
        step(envs, memory)


@pytest.mark.parametrize('value', [1e20, -1e20, 1.1e15])
@pytest.mark.parametrize('what', ['a reward', 'an observation', 'a first obs'])
def test_numbers_whose_squares_cannot_be_added_up(what, value):
    observ = np.array([0, value, 0, 0])
    bad = {
        'a reward': lambda: Scripted(outcome(reward=value)),
        'an observation': lambda: Scripted(outcome(observ)),
        'a first obs': lambda: Scripted(first=observ),
    }[what]()
    envs, memory = attach(Scripted(outcome()), bad, first=3)
    with pytest.raises(EnvError) as raised:
        reset(envs, memory)
        step(envs, memory)
    told = f'Environment 4 returned {what}'
    assert str(raised.value).startswith(told)
    for part in (f'the value {value:g}, ', 'beyond ±1e+15', 'Scale or clip'):
        assert part in str(raised.value)


def test_image_beside_such_a_number_is_told_in_a_line():
    image = gym.spaces.Box(0, 255, (9, 9, 3), np.uint8)
    space = gym.spaces.Dict(a=image, b=image, number=gym.spaces.Box(-1, 1, ()))
    observ = space.sample()
    observ['number'] = np.float32(np.nan)
    with pytest.raises(EnvError, match='observation: ') as raised:
        reset(*attach(Scripted(first=observ, space=space)))
    assert '\n' not in str(raised.value)
    assert len(str(raised.value)) < 800


def test_large_numbers_are_allowed():
    # Their squares, but not those of one, are more than the quick look allows.
    large = Scripted(outcome(np.full(4, 9e14), 9e14))
    envs, memory = attach(large, Scripted(outcome(np.full(4, -9e14), -9e14)))
    reset(envs, memory)
    reply = step(envs, memory)
    assert reply['next_observ'][1].tolist() == [np.float32(-9e14)] * 4


@pytest.mark.parametrize('value', [np.nan, 1e300])
def test_first_observation_that_is_not_finite(value):
    bad = Scripted(first=np.array([0, 0, 7, value]))
    envs, memory = attach(Scripted(), bad)
    with pytest.raises(EnvError, match='Environment 1 .* first obs') as raised:
        reset(envs, memory)
    assert '7.' in str(raised.value)  # The observation is shown.


def test_bad_observation_at_a_reset_within_a_step():
    env = Scripted(outcome(terminated=True))
    envs, memory = attach(env)
    reset(envs, memory)
    env._first = (np.full(4, np.inf), {})
    with pytest.raises(EnvError, match='first observation'):
        step(envs, memory)


@pytest.mark.parametrize(
    'reward',
    [1.5, np.float32(1.5), np.float64(1.5), np.array(1.5), np.float16(1.5)],
    ids=lambda reward: type(reward).__name__,
)
def test_rewards_of_any_numeric_type(reward):
    assert step_once(Scripted(outcome(reward=reward)))['reward'] == [1.5]
    assert step_once(Scripted(outcome(reward=3)))['reward'] == [3]
    assert step_once(Scripted(outcome(reward=np.int64(3))))['reward'] == [3]


def test_flags_of_numpy():
    ends = outcome(truncated=np.bool_(True), terminated=np.bool_(False))
    reply = step_once(Scripted(ends))
    assert reply['truncated'] == [1] and reply['terminated'] == [0]


class Reusing(Scripted):
    """Counts its steps in the same array all the time."""

    def __init__(self):
        super().__init__()
        self._observ = np.zeros(4, np.float32)

    def reset(self, *, seed=None, options=None):
        self._observ[:] = 0
        return self._observ, {}

    def step(self, action):
        self._observ += 1
        return self._observ, 0.0, bool(self._observ[0] == 2), False, {}


def test_environment_that_reuses_its_observation():
    envs, memory = attach(Reusing())
    reset(envs, memory)
    reply = step(envs, memory)
    assert reply['observ'].tolist() == [[1, 1, 1, 1]]
    # It ends, is reset and writes zeros over its own array.
    reply = step(envs, memory)
    assert reply['terminated'] == [1]
    assert reply['next_observ'].tolist() == [[2, 2, 2, 2]]
    assert reply['observ'].tolist() == [[0, 0, 0, 0]]


def test_terminated_truncated_and_the_true_successor():
    # Environment   0 goes on   1 terminates   2 is truncated   3 is both
    ends = [(False, False), (True, False), (False, True), (True, True)]
    scripts = [
        Scripted(
            outcome(np.full(4, i + 1.0), i + 0.5, *flags),
            outcome(np.full(4, -1.0)),
            first=np.full(4, -i),
        )
        for i, flags in enumerate(ends)
    ]
    envs, memory = attach(*scripts)
    reply = reset(envs, memory)
    assert reply['begins'].tolist() == [1, 1, 1, 1]
    assert reply['observ'][:, 0].tolist() == [0, -1, -2, -3]
    reply = step(envs, memory)
    assert reply['reward'].tolist() == [0.5, 1.5, 2.5, 3.5]
    assert reply['terminated'].tolist() == [0, 1, 0, 1]
    assert reply['truncated'].tolist() == [0, 0, 1, 1]
    assert reply['begins'].tolist() == [0, 1, 1, 1]
    assert reply['next_observ'][:, 0].tolist() == [1, 2, 3, 4]
    assert reply['observ'][:, 0].tolist() == [1, -1, -2, -3]
    reply = step(envs, memory)
    for name in ('terminated', 'truncated', 'begins'):
        assert reply[name].tolist() == [0, 0, 0, 0]
    assert reply['observ'][:, 0].tolist() == [-1, -1, -1, -1]
    resets = [sum(c[0] == 'reset' for c in env.calls) for env in scripts]
    assert resets == [1, 2, 2, 2]


def test_only_marked_environments_are_reset():
    scripts = [Scripted(outcome(np.full(4, 5.0), 1.0), first=np.full(4, i)) for i in range(3)]
    envs, memory = attach(*scripts)
    reset(envs, memory)
    step(envs, memory)
    reply = reset(envs, memory, [False, True, False])
    assert reply['observ'][:, 0].tolist() == [5, 1, 5]
    assert reply['begins'].tolist() == [0, 1, 0]
    assert reply['reward'].tolist() == [1, 0, 1]


ACTIONS = [
    (FIVE, 3, 3, int),
    (spaces.Discrete(5, start=-2), 3, 1, int),
    (spaces.MultiDiscrete([3, 4], start=[5, -1]), [2, 0], [7, -1], np.ndarray),
    (spaces.MultiBinary(2), [1, 0], [1, 0], np.ndarray),
    (spaces.Box(-1, 1, (2,), np.float64), [0.5, -1], [0.5, -1], np.ndarray),
]


@pytest.mark.parametrize('space, action, expected, kind', ACTIONS, ids=str)
def test_actions_are_those_of_the_space(space, action, expected, kind):
    env = Scripted(outcome(), action_space=space)
    envs, memory = attach(env)
    reset(envs, memory)
    step(envs, memory, action)
    found = env.calls[-1][1]
    assert type(found) is kind
    assert found in space
    np.testing.assert_array_equal(found, expected)


def test_environment_may_keep_its_action():
    env = Scripted(outcome(), outcome(), action_space=spaces.MultiBinary(2))
    envs, memory = attach(env)
    reset(envs, memory)
    step(envs, memory, [1, 0])
    step(envs, memory, [0, 1])
    assert env.calls[1][1].tolist() == [1, 0]


def pendulum():
    return wrappers.LimitDuration(gym.make('Pendulum-v1').unwrapped, 3)


def episodes(seeds, steps=7):
    """Observations of two episodes and a half."""
    envs, memory = attach(*[pendulum() for _ in seeds], seeds=seeds)
    observs = [reset(envs, memory)['observ'].copy()]
    for _ in range(steps):
        observs.append(step(envs, memory, 0.5)['observ'].copy())
    return np.stack(observs, 1)


def test_seeds_repeat_by_environment():
    first, second = episodes([3, 4, 3]), episodes([4, 3, 5])
    np.testing.assert_array_equal(first[0], first[2])
    np.testing.assert_array_equal(first[0], second[1])
    np.testing.assert_array_equal(first[1], second[0])
    assert (first[0] != first[1]).any()
    # Episodes begin at steps 0, 3 and 6, each elsewhere.
    starts = first[0][[0, 3, 6]]
    assert len(np.unique(starts, axis=0)) == 3


def test_seed_is_used_once():
    env = Scripted(outcome(terminated=True), outcome(terminated=True))
    envs, memory = attach(env, seeds=[8])
    reset(envs, memory)
    step(envs, memory)
    reset(envs, memory)
    resets = [call for call in env.calls if call[0] == 'reset']
    assert resets == [('reset', 8), ('reset', None), ('reset', None)]


def test_seed_reaches_the_space_of_actions():
    samples = []
    for seed in (8, 8, 9):
        env = Scripted(action_space=spaces.Discrete(10**6))
        envs, memory = attach(env, seeds=[seed])
        reset(envs, memory)
        samples.append(env.action_space.sample())
    assert samples[0] == samples[1] != samples[2]


class Raising(Scripted):
    """Raises an error of several arguments in one of its methods."""

    def __init__(self, method):
        super().__init__(outcome())
        self._method = method

    def _maybe(self, method):
        if method == self._method:
            raise UnicodeDecodeError('ascii', b'x', 0, 1, 'my message')

    def reset(self, **kwargs):
        self._maybe('reset')
        return super().reset(**kwargs)

    def step(self, action):
        self._maybe('step')
        return super().step(action)

    def close(self):
        super().close()
        self._maybe('close')

    def act(self):
        self._maybe('act')
        return 'acted'


@pytest.mark.parametrize(
    'method, doing',
    [
        ('reset', 'in reset, given the seed 21'),
        ('step', 'in step, given the action 4'),
        ('close', 'in close'),
        ('act', 'in act'),
    ],
)
def test_errors_keep_their_traceback_and_index(method, doing):
    envs, memory = attach(Scripted(outcome()), Raising(method), seeds=[20, 21], first=4)
    with pytest.raises(EnvError, match=f'Environment 5 .* {doing}') as raised:
        reset(envs, memory)
        step(envs, memory, 4)
        envs.call(1, 'act')
        envs.close()
    message = str(raised.value)
    assert 'in _maybe' in message
    assert message.endswith('my message')


def test_error_of_a_constructor():
    def fail():
        raise KeyError('no such level')

    with pytest.raises(EnvError, match='Environment 3 raised .* constructed'):
        env_slice.EnvSlice([Scripted, fail], first=2)


class Speechless(Exception):
    def __str__(self):
        sys.exit('no text')


STRANGE = [
    (SystemExit(0), 'SystemExit: 0'),
    (SystemExit('bye \udc80'), r'SystemExit: bye \\udc80'),
    (GeneratorExit(), 'GeneratorExit'),
    (Speechless(), 'Speechless'),
    (TypeError(Speechless()), 'TypeError'),
]


@pytest.mark.parametrize('error, told', STRANGE)
@pytest.mark.parametrize('method', ['reset', 'step', 'close', 'act'])
def test_strange_errors_name_the_environment(monkeypatch, method, error, told):
    def fail(*_, **__):
        raise error

    envs, memory = attach(Scripted(outcome()), Raising(None), first=4)
    reset(envs, memory)
    monkeypatch.setattr(envs.envs[1], method, fail)
    calls = {
        'reset': lambda: reset(envs, memory),
        'step': lambda: step(envs, memory, 4),
        'close': envs.close,
        'act': lambda: envs.call(1, 'act'),
    }
    with pytest.raises(EnvError, match=f'^Environment 5 .*{method}') as raised:
        calls[method]()
    assert re.search(told, str(raised.value))


def test_number_of_an_info_that_is_none_names_the_environment():
    result = (*outcome()[:4], {'far': 10**400})
    envs = env_slice.EnvSlice([lambda: Scripted(result)], log_info=['far'])
    memory = block.Block(envs.observation_space, envs.action_space, 1, infos=1)
    envs.attach(memory)
    reset(envs, memory)
    with pytest.raises(EnvError, match='Environment 0 .*info.*\n.*'):
        step(envs, memory)


def test_ctrl_c_within_an_environment_stays_what_it_is(monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(signal, 'getsignal', lambda number: signal.SIG_DFL)
    with pytest.raises(KeyboardInterrupt):
        env_slice.EnvSlice([interrupt])
    # As in a worker, where nobody else can raise it.
    monkeypatch.setattr(signal, 'getsignal', lambda number: signal.SIG_IGN)
    with pytest.raises(EnvError, match='Environment 0 raised'):
        env_slice.EnvSlice([interrupt])


def test_all_are_closed_even_if_one_raises():
    scripts = [Scripted(), Raising('close'), Raising('close'), Scripted()]
    envs, _ = attach(*scripts)
    with pytest.raises(EnvError, match='Environment 1 raised'):
        envs.close()
    assert all(env.closed for env in scripts)


def test_call_looks_through_wrappers():
    env = wrappers.LimitDuration(Raising(None), 3)
    envs, _ = attach(env)
    assert envs.call(0, 'act') == 'acted'
    assert envs.call(0, 'closed') is False
    with pytest.raises(AttributeError):
        envs.call(0, 'nothing_of_that_name')


@pytest.mark.parametrize(
    'other, name',
    [
        (Scripted(space=spaces.Box(-10, 9, (4,))), 'observation_space'),
        (Scripted(action_space=spaces.Discrete(6)), 'action_space'),
    ],
)
def test_spaces_that_differ_are_refused(other, name):
    with pytest.raises(EnvError) as raised:
        attach(Scripted(), Scripted(), other, first=2)
    message = str(raised.value)
    assert f'the {name} of environment 4 is {getattr(other, name)}' in message
    assert f'environment 2 is {getattr(Scripted(), name)}' in message


def test_unsupported_spaces_are_refused():
    with pytest.raises(EnvError, match='not supported'):
        attach(Scripted(space=spaces.Text(3)))


def test_index_of_the_environment_at_work_is_known():
    class Watching(Scripted):
        def step(self, action):
            seen.append(int(current[0]))
            return outcome()

    seen, current = [], np.full(1, -1)
    envs = env_slice.EnvSlice([Watching] * 3, first=10, current=current)
    memory = block.Block(BOX, FIVE, 3)
    envs.attach(memory)
    reset(envs, memory)
    step(envs, memory)
    assert seen == [0, 1, 2]


PARTS = spaces.MultiDiscrete([2, 2])
MASKED = spaces.Dict(action_mask=spaces.MultiBinary(4), x=BOX)


def masked(*mask):
    return {'action_mask': np.array(mask), 'x': ZEROS}


def masking(*steps, first=(1, 0, 0, 1), space=MASKED, action_space=PARTS):
    outcomes = [outcome(masked(*mask), terminated=over) for mask, over in steps]
    return Scripted(*outcomes, first=masked(*first), space=space, action_space=action_space)


def test_state_to_act_on_in_which_nothing_is_possible():
    fine = masking(((1, 1, 1, 0), False), ((0, 0, 0, 0), True))
    stuck = masking(((0, 1, 1, 0), False), ((1, 1, 0, 0), False))
    envs, memory = attach(fine, stuck, first=6)
    reset(envs, memory)
    step(envs, memory)
    message = (
        r'^Environment 7 is in a state in which no choice of '
        r'MultiDiscrete\(\[2 2\]\) is possible for part 1, as its action_mask'
    )
    with pytest.raises(EnvError, match=message):
        step(envs, memory)


def test_episode_that_ends_where_nothing_is_possible():
    envs, memory = attach(masking(((0, 0, 0, 0), True)))
    reset(envs, memory)
    reply = step(envs, memory)
    assert reply['observ']['action_mask'].tolist() == [[1, 0, 0, 1]]
    assert not reply['next_observ']['action_mask'].any()


def test_first_state_in_which_nothing_is_possible():
    stuck = masking(first=(0, 0, 1, 1))
    for envs, memory, index in (
        (*attach(masking(), stuck, first=3), 4),
        (*attach(stuck, masking(), first=3), 3),
    ):
        with pytest.raises(EnvError, match=f'^Environment {index} is in .* 0,'):
            reset(envs, memory, [index == 3, index == 4])
    # Nobody acts in those that are not reset.
    envs, memory = attach(masking(), stuck)
    reset(envs, memory, [True, False])


def test_what_is_no_mask_may_be_zero():
    for space, action_space in ((MASKED, spaces.Box(-1, 1, (4,))), (MASKED, spaces.Discrete(5))):
        env = masking(((0, 0, 0, 0), False), space=space, action_space=action_space)
        envs, memory = attach(env)
        reset(envs, memory)
        step(envs, memory)
