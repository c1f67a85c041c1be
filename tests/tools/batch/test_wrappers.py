"""Wrappers around environments of Gymnasium whose steps are known.

The cliff is a grid of 4 by 12 in which episodes begin in the corner (3, 0).
Action 0 goes up, 1 right, 2 down and 3 left, each for -1.
"""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control import PendulumEnv
from gymnasium.envs.toy_text.taxi import TaxiEnv
from gymnasium.utils import env_checker

from agents import tools
from agents.tools.batch import wrappers

UP, RIGHT, DOWN = 0, 1, 2
GRID = gym.spaces.Box(np.zeros(2, np.float32), np.float32([3, 11]))


def cliff():
    """Observes the number of the field, 12 times the row plus the column."""
    return gym.make('CliffWalking-v1').unwrapped


def grid(space=GRID):
    """Observes the row and the column, always in the same array."""
    observ = np.zeros(2, space.dtype)

    def place(number):
        observ[:] = divmod(number, 12)
        return observ

    return gym.wrappers.TransformObservation(cliff(), place, space)


def pendulum():
    return PendulumEnv()


def mountain_car():
    return gym.make('MountainCarContinuous-v0').unwrapped


def transformed(value, space):
    """An environment that returns a value as its observation."""
    return gym.wrappers.TransformObservation(cliff(), lambda _: value, space)


def walk(env, *actions):
    """Observations of an episode as lists."""
    observs = [env.reset(seed=0)[0].copy()]
    observs += [env.step(action)[0].copy() for action in actions]
    for observ in observs:
        assert observ in env.observation_space
    return [observ.tolist() for observ in observs]


def test_grid_is_as_said():
    assert walk(grid(), UP, UP, RIGHT, DOWN) == [
        [3, 0], [2, 0], [1, 0], [1, 1], [2, 1]
    ]  # fmt: skip


MADE = {
    'AutoReset': wrappers.AutoReset,
    'ActionRepeat': lambda env: wrappers.ActionRepeat(env, 2),
    'BoundObserv': lambda env: wrappers.BoundObserv(env, 'error'),
    'CacheSpaces': wrappers.CacheSpaces,
    'ClipAction': wrappers.ClipAction,
    'ConvertTo32Bit': wrappers.ConvertTo32Bit,
    'ExternalProcess': None,
    'FrameDelta': wrappers.FrameDelta,
    'FrameHistory': lambda env: wrappers.FrameHistory(env, [0, 2]),
    'LimitDuration': lambda env: wrappers.LimitDuration(env, 5),
    'ObserveMask': None,
    'RandomStart': lambda env: wrappers.RandomStart(env, 3),
    'RangeNormalize': wrappers.RangeNormalize,
}


def test_all_wrappers_are_tested():
    assert sorted(MADE) == wrappers.__all__
    assert wrappers.ExternalProcess is tools.ExternalProcess


@pytest.mark.filterwarnings('ignore::UserWarning')
@pytest.mark.parametrize('name', MADE)
def test_wrappers_pass_the_checks_of_gymnasium(name):
    if MADE[name]:
        env_checker.check_env(MADE[name](pendulum()), skip_render_check=True)


def test_auto_reset():
    env = wrappers.AutoReset(wrappers.LimitDuration(cliff(), 2))
    assert env.reset()[0] == 36
    assert env.step(UP)[:4] == (24, -1, False, False)
    assert env.step(UP)[:4] == (12, -1, False, True)
    assert env.step(UP)[:4] == (36, 0, False, False)
    assert env.step(UP)[:4] == (24, -1, False, False)


def test_clip_action():
    # The cost of an action a is a²/10, the car clips only what it does.
    plain, clipped = mountain_car(), wrappers.ClipAction(mountain_car())
    plain.reset(seed=0)
    clipped.reset(seed=0)
    action = np.array([5.0], np.float32)
    assert plain.step(action)[1] == pytest.approx(-2.5)
    assert clipped.step(action)[1] == pytest.approx(-0.1)
    assert clipped.step(-action)[1] == pytest.approx(-0.1)
    assert clipped.step(action / 10)[1] == pytest.approx(-0.025)
    assert clipped.action_space == gym.spaces.Box(-np.inf, np.inf, (1,))


BOUNDED = gym.spaces.Dict(
    {
        'box': gym.spaces.Box(np.float32([-1, 0]), np.float32([1, np.inf]), dtype=np.float32),
        'pair': gym.spaces.Tuple([gym.spaces.Discrete(2), gym.spaces.Box(0, 9, (), np.uint8)]),
    }
)


def bounded(policy, box, number):
    observ = {'box': np.float32(box), 'pair': (1, np.uint8(number))}
    return wrappers.BoundObserv(transformed(observ, BOUNDED), policy)


@pytest.mark.parametrize('policy', ['clip', 'error'])
def test_bound_observ_leaves_what_is_within(policy):
    observ, _ = bounded(policy, [-1, 1e30], 9).reset()
    assert observ['box'].tolist() == [-1, np.float32(1e30)]
    assert observ['pair'] == (1, 9)


def test_bound_observ_clips():
    env = bounded('clip', [1.5, -0.5], 12)
    for observ in (env.reset()[0], env.step(UP)[0]):
        assert observ['box'].tolist() == [1, 0]
        assert observ['pair'] == (1, 9)
        assert observ['box'].dtype == np.float32
        assert observ['pair'][1].dtype == np.uint8


@pytest.mark.parametrize(
    ('box', 'number', 'message'),
    [
        ([0, -0.5], 0, r'is -0.5 at \(1,\), where .* bounds 0.0 and inf'),
        ([1.5, 0], 0, r'is 1.5 at \(0,\), where .* bounds -1.0 and 1.0'),
        ([0, 0], 10, r"observation\['pair'\]\[1\] is 10 at \(\), where"),
    ],
)
def test_bound_observ_raises(box, number, message):
    env = bounded('error', box, number)
    for call in (env.reset, lambda: env.step(UP)):
        with pytest.raises(ValueError, match=message):
            call()


def test_bound_observ_refuses_other_policies():
    with pytest.raises(ValueError, match="'clip' or 'error', not 'ignore'"):
        wrappers.BoundObserv(cliff(), 'ignore')


SQUARE = gym.spaces.Box(np.float32(0.1), np.float32(1.0), (2, 2), np.float32)


@pytest.mark.parametrize('beyond', ['clip', 'error'])
@pytest.mark.parametrize(
    ('space', 'observ'),
    [
        (SQUARE, np.float32([[5], [5]])),
        (SQUARE, np.float32(5)),
        (SQUARE, np.full((2, 2), np.inf)),
        (SQUARE, np.full((2, 2), 1e300)),
        (SQUARE, np.full((2, 2), np.nan)),
        (SQUARE, np.full((2, 2), 'x')),
        (SQUARE, None),
        (BOUNDED, {'box': np.float32([0, 0]), 'other': np.float32(99)}),
        (BOUNDED, [1, 2]),
        (BOUNDED['pair'], (1,)),
        (BOUNDED['pair'], 1),
    ],
    ids=str,
)
def test_bound_observ_leaves_what_is_wrong_otherwise(beyond, space, observ):
    returned, _ = wrappers.BoundObserv(transformed(observ, space), beyond).reset()
    assert repr(returned) == repr(observ)


@pytest.mark.parametrize('beyond', ['clip', 'error'])
def test_bound_observ_compares_in_the_type_of_the_space(beyond):
    # The bound 0.1 is 0.10000000149 in 32 bits.
    env = transformed(np.full((2, 2), 0.1), SQUARE)
    observ, _ = wrappers.BoundObserv(env, beyond).reset()
    assert observ in SQUARE


def test_bound_observ_clips_whole_numbers_to_fractions():
    space = gym.spaces.Box(0.5, 1.5, (1,), np.float32)
    env = wrappers.BoundObserv(transformed(np.array([0]), space), 'clip')
    assert env.reset()[0].tolist() == [0.5]


def test_limit_duration():
    env = wrappers.LimitDuration(cliff(), duration=3)
    for _ in range(2):
        env.reset()
        ends = [env.step(UP)[2:4] for _ in range(3)]
        assert ends == [(False, False), (False, False), (False, True)]


def test_limit_duration_leaves_termination():
    env = wrappers.LimitDuration(gym.make('FrozenLake-v1', is_slippery=False).unwrapped, 10)
    env.reset()
    # The lake of 4 by 4 has a hole in (1, 1); 1 is down and 2 right.
    assert env.step(1)[2:4] == (False, False)
    assert env.step(2)[2:4] == (True, False)


def test_action_repeat():
    env = wrappers.ActionRepeat(cliff(), amount=2)
    env.reset()
    assert env.step(UP)[:4] == (12, -2, False, False)
    assert env.step(RIGHT)[:4] == (14, -2, False, False)


def test_action_repeat_stops_at_the_end():
    inner = wrappers.LimitDuration(cliff(), 3)
    env = wrappers.ActionRepeat(inner, amount=2)
    env.reset()
    assert env.step(RIGHT)[1] == -200  # Twice down the cliff and back.
    assert env.step(UP)[:4] == (24, -1, False, True)


def test_action_repeat_refuses_nothing():
    with pytest.raises(ValueError, match='at least once, not 0'):
        wrappers.ActionRepeat(cliff(), 0)


def random_starts(env, seeds):
    """The first observation and how many steps were taken, by seed."""
    return [(env.reset(seed=seed)[0], env.get_wrapper_attr('_elapsed_steps')) for seed in seeds]


@pytest.mark.filterwarnings('ignore::UserWarning')
def test_observe_mask():
    taxi = TaxiEnv()
    assert wrappers.ObserveMask.is_for(taxi)
    env = wrappers.ObserveMask(taxi)
    env_checker.check_env(env, skip_render_check=True)
    assert not wrappers.ObserveMask.is_for(env)
    observ, info = env.reset(seed=0)
    assert taxi.reset(seed=0)[0] == observ['observation']
    assert observ['action_mask'].tolist() == info['action_mask'].tolist()
    assert not observ['action_mask'].all()


def test_observe_mask_by_the_method_of_a_wrapper_within():
    class Told(gym.Wrapper):
        def action_masks(self):
            return [True, self.unwrapped.s > 24, False, True]

    env = wrappers.LimitDuration(Told(cliff()), 2)
    assert wrappers.ObserveMask.is_for(env)
    env = wrappers.ObserveMask(env)
    masks = [env.reset(seed=0)[0], env.step(UP)[0], env.step(UP)[0]]
    assert [x['action_mask'].tolist() for x in masks] == [
        [1, 1, 0, 1], [1, 0, 0, 1], [1, 0, 0, 1]
    ]  # fmt: skip
    assert [x['observation'] for x in masks] == [36, 24, 12]


def test_observe_mask_is_for_choices():
    assert not wrappers.ObserveMask.is_for(pendulum())
    assert not wrappers.ObserveMask.is_for(cliff())
    with pytest.raises(TypeError, match='have no masks'):
        wrappers.ObserveMask(pendulum())


def test_normalizers_of_gymnasium_are_warned_of_once(monkeypatch):
    monkeypatch.setattr(wrappers, 'warned_of', set(), raising=False)
    env = gym.make('CartPole-v1')
    env = gym.wrappers.NormalizeReward(gym.wrappers.NormalizeObservation(env))
    with pytest.warns(UserWarning) as caught:
        for _ in range(2):  # As for each environment of a process.
            wrappers.warn_of_normalizers(env)
    reward, observ = [str(each.message) for each in caught]
    assert reward.startswith('NormalizeReward has statistics of its own')
    assert observ.endswith('the setting normalize_observ normalizes already.')
    vector = gym.make_vec('CartPole-v1', 2)
    wrappers.warned_of.clear()
    with pytest.warns(UserWarning, match='^NormalizeObservation has'):
        wrappers.warn_of_normalizers(gym.wrappers.vector.NormalizeObservation(vector))


def test_random_start():
    env = wrappers.RandomStart(wrappers.LimitDuration(cliff(), 100), 3)
    starts = random_starts(env, range(60))
    steps = [count for _, count in starts]
    assert set(steps) == {0, 1, 2, 3}
    assert all(observ == 36 for observ, count in starts if count == 0)
    assert len({observ for observ, count in starts if count == 3}) > 1
    assert starts == random_starts(env, range(60))


def test_random_start_without_steps():
    env = wrappers.RandomStart(wrappers.LimitDuration(cliff(), 100), 0)
    assert random_starts(env, range(10)) == [(36, 0)] * 10


def test_random_start_goes_on_at_random():
    env = wrappers.RandomStart(wrappers.LimitDuration(cliff(), 100), 3)
    env.reset(seed=0)
    steps = [random_starts(env, [None])[0][1] for _ in range(40)]
    assert set(steps) == {0, 1, 2, 3}


def test_random_start_resets_an_episode_that_ends():
    # Of 0 to 3 steps within a limit of 2, two lead to a new episode and three
    # to its first step.
    env = wrappers.RandomStart(wrappers.LimitDuration(cliff(), 2), 3)
    starts = random_starts(env, range(40))
    assert {count for _, count in starts} == {0, 1}
    assert all(observ == 36 for observ, count in starts if count == 0)
    assert env.step(UP)[2] is False


def test_random_start_does_not_repeat_an_episode_that_ends():
    # Each random action ends the episode, so that all but the starts without
    # any are of a later episode than the one that the seed leads to.
    env = wrappers.RandomStart(wrappers.LimitDuration(pendulum(), 1), 3)
    same = [np.array_equal(env.reset(seed=i)[0], pendulum().reset(seed=i)[0]) for i in range(40)]
    assert 0 < sum(same) < 20


HISTORY = [
    [[3, 0], [3, 0], [3, 0]],
    [[2, 0], [3, 0], [3, 0]],
    [[1, 0], [2, 0], [3, 0]],
    [[1, 1], [1, 0], [3, 0]],
    [[1, 2], [1, 1], [2, 0]],
]


def test_frame_history():
    env = wrappers.FrameHistory(grid(), past_indices=[0, 1, 3])
    assert walk(env, UP, UP, RIGHT, RIGHT) == HISTORY
    assert walk(env) == HISTORY[:1]  # Nothing is left of the last episode.
    assert env.observation_space.shape == (3, 2)
    assert env.observation_space.high.tolist() == [[3, 11]] * 3


def test_frame_history_flat():
    env = wrappers.FrameHistory(grid(), [0, 1, 3], flatten=True)
    flat = [[*now, *before, *third] for now, before, third in HISTORY]
    assert walk(env, UP, UP, RIGHT, RIGHT) == flat
    assert env.observation_space.shape == (6,)


def test_frame_history_in_another_order():
    env = wrappers.FrameHistory(grid(), past_indices=(3, 0))
    assert walk(env, UP, UP, RIGHT, RIGHT) == [[frames[2], frames[0]] for frames in HISTORY]


def test_frame_history_hands_out_what_later_steps_do_not_change():
    env = wrappers.FrameHistory(grid(), [0, 1])
    first, _ = env.reset()
    second = env.step(UP)[0]
    env.step(UP)
    assert first.tolist() == [[3, 0], [3, 0]]
    assert second.tolist() == [[2, 0], [3, 0]]


def test_frame_history_needs_the_present_and_a_box():
    with pytest.raises(ValueError, match=r'past_indices \[1, 2\] lack 0'):
        wrappers.FrameHistory(grid(), [1, 2])
    with pytest.raises(TypeError, match='Expected a box'):
        wrappers.FrameHistory(cliff(), [0, 1])


CHANGES = [[0, 0], [-1, 0], [-1, 0], [0, 1], [1, 0]]


def test_frame_delta():
    env = wrappers.FrameDelta(grid())
    assert walk(env, UP, UP, RIGHT, DOWN) == CHANGES
    assert walk(env) == CHANGES[:1]
    assert env.observation_space == gym.spaces.Box(np.float32([-3, -11]), np.float32([3, 11]))


def test_frame_delta_of_bytes_can_be_negative():
    space = gym.spaces.Box(0, 255, (2,), np.uint8)
    env = wrappers.FrameDelta(grid(space))
    assert walk(env, UP, UP, RIGHT, DOWN) == CHANGES
    assert env.observation_space.low.tolist() == [-255, -255]
    assert env.observation_space.high.tolist() == [255, 255]


def test_frame_delta_needs_a_box():
    with pytest.raises(TypeError, match='Expected a box'):
        wrappers.FrameDelta(cliff())


def test_range_normalize_observations():
    # Rows 0 to 3 become -1, -1/3, 1/3, 1 and columns 0 to 11 -1, -9/11 ...
    env = wrappers.RangeNormalize(grid())
    found = walk(env, UP, UP, RIGHT)
    np.testing.assert_allclose(found, [[1, -1], [1 / 3, -1], [-1 / 3, -1], [-1 / 3, -9 / 11]], 1e-5)
    assert env.observation_space == gym.spaces.Box(-1, 1, (2,))
    assert env.action_space == gym.spaces.Discrete(4)


def test_range_normalize_actions():
    env = wrappers.RangeNormalize(pendulum())  # Whose torque is -2 to 2.
    env.reset(seed=0)
    assert env.action_space == gym.spaces.Box(-1, 1, (1,))
    for action in (-1.0, 0.0, 0.5, 1.0):
        env.step(np.array([action], np.float32))
        assert env.unwrapped.last_u == 2 * action


def test_range_normalize_by_choice():
    env = wrappers.RangeNormalize(pendulum(), observ=False)
    assert env.observation_space == pendulum().observation_space
    assert env.action_space.high == 1
    env = wrappers.RangeNormalize(pendulum(), action=False)
    assert env.observation_space == gym.spaces.Box(-1, 1, (3,))
    assert env.action_space.high == 2


def test_range_normalize_leaves_what_has_no_bounds():
    env = gym.make('CartPole-v1').unwrapped  # Of which the speeds have none.
    assert wrappers.RangeNormalize(env).observation_space is (env.observation_space)
    with pytest.raises(ValueError, match='Cannot normalize the observations'):
        wrappers.RangeNormalize(env, observ=True)
    with pytest.raises(ValueError, match='Cannot normalize the actions'):
        wrappers.RangeNormalize(env, action=True)


@pytest.mark.parametrize('dtype', [np.uint8, np.int32])
def test_range_normalize_leaves_integers(dtype):
    env = wrappers.RangeNormalize(grid(gym.spaces.Box(0, 255, (2,), dtype)))
    assert walk(env, UP) == [[3, 0], [2, 0]]
    with pytest.raises(ValueError, match='not a bounded box of floats'):
        wrappers.RangeNormalize(env, observ=True)


def test_convert_to_32_bit():
    inner = grid(gym.spaces.Box(-1, 1, (2,), np.float64))
    env = wrappers.ConvertTo32Bit(inner)
    observ, _ = env.reset()
    assert observ.dtype == np.float32 and observ.tolist() == [3, 0]
    observ, reward, terminated, truncated, info = env.step(UP)
    assert observ.dtype == np.float32 and observ.tolist() == [2, 0]
    assert type(reward) is np.float32 and reward == -1
    assert not terminated and not truncated and info == {'prob': 1.0}


def test_convert_to_32_bit_of_integers():
    env = wrappers.ConvertTo32Bit(cliff())
    observ, _ = env.reset()
    assert observ.dtype == np.int32 and observ == 36
    space = gym.spaces.Box(0, 255, (2,), np.uint8)
    assert wrappers.ConvertTo32Bit(grid(space)).reset()[0].dtype == np.uint8


def test_convert_to_32_bit_of_a_nest():
    env = wrappers.LimitDuration(mountain_car(), 9)
    env = gym.wrappers.TimeAwareObservation(env, flatten=False)
    observ, _ = wrappers.ConvertTo32Bit(env).reset()
    types = {name: str(leaf.dtype) for name, leaf in observ.items()}
    assert types == {'obs': 'float32', 'time': 'int32'}


BOX = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
COUNT = gym.spaces.Box(0, 2**40, (1,), np.int64)


@pytest.mark.parametrize(
    'value, space',
    [
        ([1e300], BOX),
        ([-1e39], BOX),
        ([np.nan], BOX),
        ([2**40], COUNT),
        ([0.5], COUNT),
        ([300], gym.spaces.Box(0, 255, (1,), np.uint8)),
        ([-1], gym.spaces.Box(0, 255, (1,), np.uint8)),
    ],
)
def test_convert_to_32_bit_refuses_what_does_not_fit(value, space):
    env = wrappers.ConvertTo32Bit(transformed(np.array(value), space))
    with pytest.raises(ValueError, match='do not fit into'):
        env.reset()


def test_convert_to_32_bit_refuses_rewards_that_do_not_fit():
    inner = gym.wrappers.TransformReward(cliff(), lambda _: 1e300)
    env = wrappers.ConvertTo32Bit(inner)
    env.reset()
    with pytest.raises(ValueError, match='do not fit into float32'):
        env.step(UP)


class Counting(gym.Wrapper):
    """Counts how often it is asked for its spaces."""

    asked = 0

    @property
    def observation_space(self):
        Counting.asked += 1
        return self.env.observation_space

    @property
    def action_space(self):
        Counting.asked += 1
        return self.env.action_space


def test_cache_spaces():
    inner = pendulum()
    env = wrappers.CacheSpaces(Counting(inner))
    before = Counting.asked
    for _ in range(3):
        assert env.observation_space is inner.observation_space
        assert env.action_space is inner.action_space
    assert Counting.asked == before


def test_seeds_pass_through_all_wrappers():
    def first():
        env = wrappers.LimitDuration(pendulum(), 9)
        for name in sorted(set(MADE) - {'LimitDuration'}):
            env = MADE[name](env) if MADE[name] else env
        observ, _ = env.reset(seed=3)
        return [observ, env.step(np.float32([0.3]))[0]]

    np.testing.assert_array_equal(first(), first())
