"""Environments in TensorFlow against those of Gymnasium that they rewrite."""

from collections.abc import Callable
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import pytest

from agents import environments
from agents.environments.native_env import NativeEnv
from agents.tools import spaces
from agents.tools.graph import random
from agents.tools.graph.backend import compiled, tf

TRAJECTORIES = 200
TOLERANCE = 1e-4


class Case(NamedTuple):
    """An environment and how to try it.

    Attributes:
        low, high: Range of the initial states.
        limits: What states keep within, or a little more.
        skilled: A policy that gets far, from observations to actions. Agents
            follow it more or less often and act at random otherwise, so that
            episodes of all lengths occur.
        resync: Steps after which the state is copied to Gymnasium's, which
            computes with 64 bits, or None.
    """

    low: list[float]
    high: list[float]
    limits: list[float]
    skilled: Callable[[np.ndarray], np.ndarray]
    resync: int | None


def swing_up_or_hold(observ):
    cos, sin, speed = observ.T
    hold = np.clip(-10 * sin - 2 * speed, -2, 2)
    return np.where(cos > 0.9, hold, 2 * np.sign(speed))[:, None]


# Where a pole stands or links swing, differences grow: by a factor e within 13
# steps of the cart, 5 of the pendulum and at worst 3 of the links, which are
# chaotic. On the hill they add up. Copied this often, states differ by less
# than a sixth of the tolerance.
CASES = {
    'CartPole-v1': Case(
        [-0.05] * 4,
        [0.05] * 4,
        [2.6, 3, 0.25, 3],
        lambda observ: observ @ [0.1, 0.5, 3.0, 1.0] > 0,
        resync=25,
    ),
    'Pendulum-v1': Case([-np.pi, -1], [np.pi, 1], [10, 8], swing_up_or_hold, resync=10),
    'Acrobot-v1': Case(
        [-0.1] * 4,
        [0.1] * 4,
        [np.pi, np.pi, 4 * np.pi, 9 * np.pi],
        lambda observ: 2 * (observ[:, 4] < 0),
        resync=5,
    ),
    'MountainCar-v0': Case(
        [-0.6, 0], [-0.4, 0], [1.2, 0.07], lambda observ: 2 * (observ[:, 1] >= 0), resync=None
    ),
    'MountainCarContinuous-v0': Case(
        [-0.6, 0], [-0.4, 0], [1.2, 0.07], lambda observ: np.sign(observ[:, 1:]), resync=250
    ),
}


@pytest.fixture(scope='module', params=CASES)
def name(request):
    return request.param


@pytest.fixture(scope='module')
def case(name):
    return CASES[name]


@pytest.fixture(scope='module')
def env(name):
    return environments.find(name)()


@pytest.fixture(scope='module')
def twin(name):
    return gym.make(name, disable_env_checker=True)


def test_spaces_and_time_limit(env, twin):
    assert env.observation_space == twin.observation_space
    assert env.action_space == twin.action_space
    assert env.max_length == twin.spec.max_episode_steps
    assert env.twin == twin.spec.id


def test_initial_states(env, twin, case):
    states = env.reset(random.key(0, 'reset', 0), 20_000).numpy()
    low, high = np.float32(case.low), np.float32(case.high)
    assert (states >= low).all()
    assert (states <= high).all()
    # The largest of 20,000 uniform numbers is less than 0.999 with a
    # probability of 2e-9.
    assert (states.min(0) <= low + 0.001 * (high - low)).all()
    assert (states.max(0) >= high - 0.001 * (high - low)).all()
    others = np.array([initial_state(twin, seed) for seed in range(2000)])
    for column, other in zip(states.T, others.T, strict=True):
        assert largest_difference_of_shares(column, other) < 0.045


def initial_state(twin, seed):
    twin.reset(seed=seed)
    return twin.unwrapped.state


def largest_difference_of_shares(one, two):
    """The statistic of Kolmogorov and Smirnov.

    For 20,000 and 2,000 draws of one distribution it exceeds 0.045 with a
    probability of about 2 exp(−2 · 0.045² · 20,000 · 2,000 / 22,000) = 0.1%.
    """
    points = np.sort(np.concatenate([one, two])).astype(np.float32)
    shares = [
        np.searchsorted(np.sort(np.float32(draws)), points, 'right') / len(draws)
        for draws in (one, two)
    ]
    return np.abs(shares[0] - shares[1]).max()


def test_elements_of_initial_states_are_independent(env):
    states = env.reset(random.key(0, 'reset', 1), 20_000).numpy()
    varied = states[:, states.std(0) > 0]
    correlations = np.corrcoef(varied.T).reshape(varied.shape[1], -1)
    assert np.abs(correlations - np.eye(varied.shape[1])).max() < 0.04


def test_steps_from_anywhere(env, twin, case):
    # Episodes hardly ever come near some of the limits.
    rng = np.random.default_rng(0)
    limits = np.float32(case.limits)
    states = rng.uniform(-limits, limits, (TRAJECTORIES, len(limits)))
    states = states.astype(np.float32)
    action = draw_actions(rng, env.action_space)
    action = action.astype(spaces.specs(env.action_space).dtype)
    state, *native = env.step(tf.constant(states), tf.constant(action), None)
    replies = []
    for each, start in zip(action, states.astype(float), strict=True):
        twin.reset()
        twin.unwrapped.state = start
        replies.append(twin.step(each)[:3])
    differ = native[1].numpy() != np.array([reply[2] for reply in replies])
    assert differ.sum() <= 2
    pairs = zip([env.observe(state), *native], zip(*replies), strict=True)
    for mine, theirs in pairs:
        # Relative as well, as the links are fast.
        np.testing.assert_allclose(mine[~differ], np.array(theirs)[~differ], TOLERANCE, TOLERANCE)


@pytest.mark.parametrize(
    'name',
    [
        'CartPole-v1',
        'Pendulum-v1',
        'MountainCar-v0',
        pytest.param('Acrobot-v1', marks=pytest.mark.slow),
        pytest.param('MountainCarContinuous-v0', marks=pytest.mark.slow),
    ],
    indirect=True,
)
def test_trajectories(name, env, case):
    lengths, ends = np.zeros(TRAJECTORIES, int), 0
    for native, other, alive in simulate(name, env, case):
        # A limit that is crossed by less than a rounding error.
        differ = native.terminated != other.terminated
        ends += differ.sum()
        for mine, theirs in zip(native, other, strict=True):
            np.testing.assert_allclose(mine[~differ], theirs[~differ], rtol=0, atol=TOLERANCE)
        lengths += alive
    assert ends <= 2
    # Some episodes end early, except those of the pendulum, and some do not.
    assert lengths.max() == env.max_length
    assert (lengths.min() < env.max_length / 2) == (name != 'Pendulum-v1')
    assert lengths.mean() > 80


class Outcome(NamedTuple):
    observ: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray


def simulate(name: str, env: NativeEnv, case: Case):
    """Give the same actions to both until all episodes are over.

    Yields:
        Outcome of the environment, the one of Gymnasium's, both of the agents
        whose episode is not over, and which these are.
    """
    step = compiled(lambda *args: observed(env, *env.step(*args)))
    key = random.key(0, 'parity', 0)
    state = env.reset(key, TRAJECTORIES)
    twins = [gym.make(name, disable_env_checker=True) for _ in state]
    for twin, begin in zip(twins, state.numpy(), strict=True):
        twin.reset()
        twin.unwrapped.state = begin.astype(float)
    rng = np.random.default_rng(0)
    skill = np.linspace(0, 1, TRAJECTORIES)
    observ = env.observe(state).numpy()
    alive = np.ones(TRAJECTORIES, bool)
    dtype = spaces.specs(env.action_space).dtype
    for length in range(1, env.max_length + 1):
        random_action = draw_actions(rng, env.action_space)
        able = rng.random(TRAJECTORIES) < skill
        able = able.reshape([-1] + [1] * (random_action.ndim - 1))
        action = np.where(able, case.skilled(observ), random_action)
        action = action.astype(dtype)
        state, *native = step(state, tf.constant(action), key)
        native = [part.numpy() for part in native]
        observ = native[0]
        limit = np.full(TRAJECTORIES, length == env.max_length)
        mine = Outcome(*[part[alive] for part in (*native, limit)])
        living = np.flatnonzero(alive)
        replies = [twins[agent].step(action[agent])[:4] for agent in living]
        theirs = Outcome(*[np.array(part) for part in zip(*replies)])
        yield mine, theirs, alive
        alive[living] = ~(mine.terminated | theirs.terminated)
        if not alive.any():
            return
        if case.resync and length % case.resync == 0:
            exact = state.numpy().astype(float)
            for agent in np.flatnonzero(alive):
                twins[agent].unwrapped.state = exact[agent]


def observed(env, state, reward, terminated):
    return state, env.observe(state), reward, terminated


def draw_actions(rng, space):
    if isinstance(space, gym.spaces.Discrete):
        return rng.integers(0, space.n, TRAJECTORIES)
    return rng.uniform(space.low, space.high, (TRAJECTORIES, *space.shape))


def test_frames_are_those_of_gymnasium(name, env, monkeypatch):
    monkeypatch.setenv('SDL_VIDEODRIVER', 'dummy')
    twin = gym.make(name, render_mode='rgb_array')
    twin.reset()
    states = env.reset(random.key(0, 'reset', 2), 2).numpy()
    # Far enough from each other for the pixels to differ.
    states[1, 0] += 0.3
    frames = [env.render(state) for state in states]
    assert frames[0].shape == (*frames[0].shape[:2], 3)
    assert frames[0].dtype == np.uint8
    assert min(frames[0].shape[:2]) >= 160
    assert (frames[0] != frames[1]).any()
    for state, frame in zip(states, frames, strict=True):
        twin.unwrapped.state = state
        np.testing.assert_array_equal(frame, twin.render())
