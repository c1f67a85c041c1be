"""What `NativeEnv` promises, for every environment that is registered."""

import inspect

import numpy as np
import pytest

from agents import environments
from agents.environments.native_env import NativeEnv
from agents.tools import errors, nested, spaces
from agents.tools.graph import random
from agents.tools.graph.backend import compiled, tf

AGENTS = 16


@pytest.fixture(scope='module', params=environments.ENVIRONMENTS)
def env(request):
    return environments.find(request.param)()


@pytest.fixture(scope='module')
def reset(env):
    return compiled(lambda key: env.reset(key, AGENTS))


@pytest.fixture(scope='module')
def step(env):
    """The functions that follow a reset, as one program."""

    @compiled
    def step(state, action, key):
        state, reward, terminated = env.step(state, action, key)
        return state, env.observe(state), reward, terminated

    return step


@pytest.fixture
def action(env):
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(AGENTS)]
    return tf.constant(np.array(actions), spaces.specs(env.action_space).dtype)


def test_shapes_and_types(env, reset, step, action):
    state = reset(random.key(0, 'reset', 0))
    assert described(env.observe(state)) == observations(env)
    after, observ, reward, terminated = step(state, action, a_key())
    assert described(after) == described(state)
    assert described(observ) == observations(env)
    assert described(reward) == [((AGENTS,), 'float32')]
    assert described(terminated) == [((AGENTS,), 'bool')]


def test_shapes_are_known_to_the_compiler(env, action):
    shapes = []

    @tf.function(autograph=False)
    def trace(key, action):
        state = env.reset(key, AGENTS)
        after, *rest = env.step(state, action, key)
        shapes.extend(leaf.shape for leaf in nested.flatten((after, *rest)))
        shapes.append(env.observe(state).shape)

    trace(a_key(), action)
    assert all(shape.is_fully_defined() for shape in shapes)


def test_the_same_input_gives_the_same_output(reset, step, action):
    states = [reset(random.key(0, 'reset', 0)) for _ in range(2)]
    assert_same(*states)
    before = nested.map(lambda leaf: leaf.numpy().copy(), states[0])
    outcomes = [step(state, action, a_key()) for state in states]
    assert_same(*outcomes)
    assert_same(states[0], before)


def test_a_compiled_step_is_an_eager_step(env, reset, step, action):
    state = reset(random.key(0, 'reset', 0))
    after, *outcome = env.step(state, action, a_key())
    eager = [after, env.observe(after), *outcome]
    assert_close(step(state, action, a_key()), eager)


def test_an_agent_does_not_depend_on_the_others(env, step, action):
    state = env.reset(random.key(0, 'reset', 0), AGENTS)
    reverse = [nested.map(lambda x: x[::-1], nest) for nest in (state, action)]
    outcome = nested.map(lambda x: x[::-1], step(state, action, a_key()))
    assert_close(step(*reverse, a_key()), outcome)


def test_episodes_begin_differently(env):
    state = env.reset(random.key(0, 'reset', 0), 1000)
    other = env.reset(random.key(0, 'reset', 1), 1000)
    assert any(len(np.unique(leaf, axis=0)) > 1 for leaf in nested.flatten(state))
    pairs = zip(nested.flatten(state), nested.flatten(other), strict=True)
    assert any((a.numpy() != b.numpy()).any() for a, b in pairs)


def test_observations_are_within_their_space(env, reset, step, action):
    state = reset(random.key(0, 'reset', 0))
    for _ in range(5):
        state, observ, *_ = step(state, action, a_key())
        assert all(row in env.observation_space for row in observ.numpy())


def test_frames_are_bytes_that_follow_the_state(env, action, monkeypatch):
    monkeypatch.setenv('SDL_VIDEODRIVER', 'dummy')
    state = env.reset(random.key(0, 'reset', 0), AGENTS)
    frames = [env.render(first(state))]
    for _ in range(5):
        state, *_ = env.step(state, action, a_key())
    frames.append(env.render(first(state)))
    for frame in frames:
        assert frame.dtype == np.uint8
        assert frame.ndim == 3
        assert frame.shape[2] == 3
    assert (frames[0] != frames[1]).any()


def test_an_environment_without_a_twin_has_no_frames():
    with pytest.raises(NotImplementedError, match='NativeEnv cannot be drawn'):
        NativeEnv().render(np.zeros(2))


def test_names_lead_to_classes():
    for name in environments.ENVIRONMENTS:
        kind = environments.find(name)
        assert issubclass(kind, NativeEnv)
        assert inspect.getdoc(kind) != inspect.getdoc(NativeEnv)


def test_an_unknown_name_is_answered_by_the_nearest():
    with pytest.raises(errors.ConfigError, match=r"'CartPole-v1'"):
        environments.find('CartPole-v7')


def a_key():
    return random.key(0, 'step', 0)


def first(nest):
    return nested.map(lambda leaf: leaf[0].numpy(), nest)


def described(nest):
    return [(tuple(x.shape), x.dtype.name) for x in nested.flatten(nest)]


def observations(env):
    leaves = nested.flatten(spaces.specs(env.observation_space))
    return [((AGENTS, *spec.shape), spec.dtype) for spec in leaves]


def assert_same(nest, other):
    pairs = zip(nested.flatten(nest), nested.flatten(other), strict=True)
    for mine, theirs in pairs:
        np.testing.assert_array_equal(mine, theirs)


def assert_close(nest, other):
    pairs = zip(nested.flatten(nest), nested.flatten(other), strict=True)
    for mine, theirs in pairs:
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
