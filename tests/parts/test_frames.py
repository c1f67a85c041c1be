"""Frames that are kept once, and the stacks that are made of them again."""

import sys

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest

import agents
from agents import tools
from agents.parts import frames
from agents.parts.frames import Frames
from agents.scripts import configs
from agents.tools import errors
from agents.tools.graph.backend import tf
from agents.training import env_setup, simulation_graph

# Workers would import TensorFlow with this file, so that what it defines is
# sent to them whole.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

STACK, SHAPE, STEPS, AGENTS = 3, (3, 2, 2), 5, 4


def rollouts(repeats, count=4, chance=0.4):
    """Stacks `[time, agent, ...]` of rollouts, and where episodes begin."""
    rng = np.random.default_rng(0)
    begins = np.ones(AGENTS, bool)
    stack = np.zeros((AGENTS, *SHAPE), np.uint8)
    for _ in range(count):
        rows = []
        for _ in range(STEPS):
            frame = rng.integers(1, 256, (AGENTS, 1, 2, 2), np.uint8)
            first = frame if repeats else np.zeros_like(frame)
            stack = np.concatenate([stack[:, 1:], frame], 1)
            fresh = np.concatenate([first, first, frame], 1)
            stack = np.where(begins[:, None, None, None], fresh, stack)
            rows.append((stack, begins))
            begins = rng.random(AGENTS) < chance
        yield [np.stack(column) for column in zip(*rows, strict=True)]


def append(recorder, step, stack, begins, lost=False):
    recorder.append(
        tf.constant(step), tf.constant(stack), tf.constant(begins), tf.fill([AGENTS], lost)
    )


@pytest.mark.parametrize('steps', [1, 2, 3, 8, 13])
def test_ages_of_episodes(steps):
    rng = np.random.default_rng(steps)
    begins = rng.random((steps, AGENTS)) < [0.0, 0.2, 0.5, 1.0]
    before = age = np.int32([7, 0, 3, 1])
    expected = []
    for row in begins:
        age = np.where(row, 0, age + 1)
        expected.append(age)
    found = frames._ages(tf.constant(begins), tf.constant(before))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize('repeats', [False, True])
@pytest.mark.parametrize('chance', [0.0, 0.1, 0.4, 1.0])
def test_stacks_are_those_that_were_recorded(repeats, chance):
    recorder = Frames(SHAPE, STEPS, AGENTS)
    for stacks, begins in rollouts(repeats, chance=chance):
        for step in range(STEPS):
            append(recorder, step, stacks[step], begins[step])
        rows, places = recorder.take(tf.constant(begins))
        found = frames.look_up(rows, places, SHAPE)
        np.testing.assert_array_equal(found, stacks)
        again = frames.look_up(*recorder.last(tf.constant(begins)), SHAPE)
        np.testing.assert_array_equal(again, stacks)
        # Of each agent the frames, two before them and a blank one.
        assert rows.shape == (1 + AGENTS * (STEPS + STACK - 1), 4)
    assert recorder.is_finite()


def test_what_cannot_be_told_by_single_frames_is_found():
    never, always = np.zeros(AGENTS, bool), np.ones(AGENTS, bool)
    stack = np.full((AGENTS, *SHAPE), 7, np.uint8)
    for place, begins in (((2, 0), always), ((2, 1), always), ((2, 0), never)):
        recorder = Frames(SHAPE, STEPS, AGENTS)
        append(recorder, 0, stack, always)
        assert recorder.first_nonfinite() is None
        other = stack.copy()
        other[place] = 8
        append(recorder, 1, other, begins, lost=True)
        assert recorder.is_finite()
        recorder = Frames(SHAPE, STEPS, AGENTS)
        append(recorder, 0, stack, always)
        append(recorder, 1, other, begins)
        assert not recorder.is_finite()
        assert recorder.first_nonfinite() == 2
        recorder.restart()
        assert recorder.is_finite()


class Flicker(gym.Env):
    """Frames at random; the reward is how bright the one before was."""

    observation_space = gym.spaces.Box(0, 255, (6, 6), np.uint8)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.draw(), {}

    def step(self, action):
        over = self.np_random.random() < 0.3
        return self.draw(), 1.0, bool(over), False, {}

    def draw(self):
        return self.np_random.integers(0, 256, (6, 6), np.uint8)


def stacked(padding='reset', reverse=False):
    made = gym.wrappers.FrameStackObservation(Flicker(), STACK, padding_type=padding)
    if not reverse:
        return made
    return gym.wrappers.TransformObservation(
        made, lambda observ: observ[::-1], made.observation_space
    )


def stacked_vector(num_envs):
    """Episodes begin in the step after the end, which is lost."""

    def make():
        return gym.wrappers.TimeLimit(stacked(), 9)

    return gym.vector.SyncVectorEnv([make] * num_envs)


def config(env=stacked, **changes):
    return configs.ppo(
        env=env,
        num_agents=3,
        steps=48,
        update_every=8,
        batch_size=12,
        update_epochs=2,
        eval_every=48,
        eval_episodes=2,
        max_length=9,
        policy_layers=[4],
        value_layers=[4],
        convolutions=[[3, 3, 2]],
        **changes,
    )


@pytest.mark.slow
@pytest.mark.usefixtures('eagerly')
@pytest.mark.parametrize('env', [stacked, stacked_vector])
def test_learning_is_the_same_to_the_last_bit(tmp_path, env):
    found = []
    for once in (False, True):
        settings = config(env, single_frames=once)
        directory = tmp_path / str(once)
        for _ in agents.train(settings, directory, env_processes=False):
            pass
        found.append(simulation_graph.name_policy(agents.load(directory)._policy))
    assert found[0].keys() == found[1].keys()
    for name, one in found[0].items():
        np.testing.assert_array_equal(one, found[1][name])
    assert len(found[0]) > 4


def test_environment_that_stacks_otherwise_is_named_with_the_remedy():
    settings = config(env_kwargs={'reverse': True, 'padding': 'zero'})
    with pytest.raises(errors.EnvError, match=r'0 says .*single_frames=False'):
        for _ in agents.train(settings, env_processes=False):
            pass


def sized(size):
    made = Flicker()
    made.stack_size = size
    return made


def sized_vector(num_envs, size):
    return gym.vector.SyncVectorEnv([lambda: sized(size)] * num_envs)


@pytest.mark.usefixtures('eagerly')
@pytest.mark.parametrize('env', [sized, pytest.param(sized_vector, marks=pytest.mark.slow)])
def test_stack_size_that_is_none_is_something_else(env):
    settings = config(env, env_kwargs={'size': None})
    for _ in agents.train(settings.copy(max_length=99), env_processes=False):
        pass


@pytest.mark.parametrize('processes', [False, True])
def test_environments_tell_how_many_frames_they_stack(processes):
    for settings, count in ((config(), 3), (configs.cartpole(), 1)):
        made = env_setup.start(env_setup.constructor(settings), 2, processes)
        batch = tools.BatchEnv(made)
        assert batch.count_stacked() == count
        batch.close()
