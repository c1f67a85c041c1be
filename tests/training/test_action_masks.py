"""Masks that environments tell beside observations, from there to the end."""

import csv
import functools

import gymnasium as gym
import numpy as np
import pytest

import agents
from agents import tools
from agents.policies import recording, video
from agents.scripts import configs
from agents.tools import errors
from agents.training import env_setup

LENGTH, GOALS, KEYS = 10, 4, 3


class Vault(gym.Env):
    """Of two choices the first earns the reward, the second must not fail.

    It observes the goal of the first, which is always possible. Which keys, of
    the second, are possible is told by the mask alone; a choice that is not
    ends the episode without reward.
    """

    observation_space = gym.spaces.Discrete(GOALS)
    action_space = gym.spaces.MultiDiscrete([GOALS, KEYS])
    metadata = {'render_modes': ['rgb_array'], 'render_fps': 5}  # noqa: RUF012

    def __init__(self, form='parts', render_mode=None):
        self._form = form
        self.render_mode = render_mode
        if form == 'method':
            self.action_masks = lambda: np.concatenate(self._masks)
        self._resets = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        self._resets += 1
        return self._observe()

    def step(self, action):
        parts = zip(self._masks, action, strict=True)
        allowed = all(mask[choice] for mask, choice in parts)
        reward = float(allowed and action[0] == self._goal)
        self._time += 1
        terminated, truncated = not allowed, self._time == LENGTH
        observ, info = self._observe()
        if terminated or truncated:  # Nothing is possible any more.
            self._masks = [np.zeros_like(mask) for mask in self._masks]
            info = {} if self._form == 'method' else self._info()
        return observ, reward, terminated, truncated, info

    def resets(self):
        return self._resets

    def render(self):
        return np.zeros((16, 16, 3), np.uint8)

    def _observe(self):
        self._goal = int(self.np_random.integers(GOALS))
        first = self.np_random.integers(2, size=GOALS, dtype=np.int8)
        first[self._goal] = 1
        second = np.zeros(KEYS, np.int8)
        second[self.np_random.integers(KEYS)] = 1
        self._masks = [first, second]
        return self._goal, self._info()

    def _info(self):
        return {
            'parts': {'action_mask': tuple(self._masks)},
            'flat': {'action_mask': np.concatenate(self._masks)},
            'method': {},
        }[self._form]


def config(**changes):
    small = {
        'env': Vault,
        'max_length': 50,
        'num_agents': 16,
        'update_every': 32,
        'update_epochs': 4,
        'batch_size': 128,
        'steps': 512 * 16,
        'eval_every': 512 * 16,
        'eval_episodes': 32,
        'policy_layers': [16],
        'value_layers': [16],
        'learning_rate': 1e-2,
    }
    return configs.ppo(**{**small, **changes})


@pytest.fixture(scope='module')
def run(once):
    """A run that has learnt with masks."""

    def train(directory):
        agents.train(config(), directory, env_processes=False).run()

    return once('masked', train)


def test_masks_from_info_make_it_learnable(run):
    with open(run / 'progress.csv', newline='') as file:
        *_, row = csv.DictReader(file)
    assert row['phase'] == 'eval' and float(row['score']) > 9


@pytest.mark.slow
def test_without_masks_the_policy_fails():
    settings = config(action_masks=False)
    *_, score = agents.train(settings, env_processes=False)
    assert score < 3


def test_loaded_policy_takes_the_mask_of_the_info(run):
    policy = agents.load(run, config())
    env, total = Vault(), 0.0
    observ, info = env.reset(seed=1)
    policy.reset()
    for _ in range(LENGTH):
        action = policy(observ, mask=info['action_mask'])
        flat = np.concatenate(info['action_mask'])
        whole = {'observation': observ, 'action_mask': flat}
        assert (policy(observ, mask=flat) == action).all()
        assert (policy(whole) == action).all()
        observ, reward, terminated, _, info = env.step(action)
        assert not terminated
        total += reward
    assert total > 8
    with pytest.raises(ValueError, match=r"policy\(observ, mask=info\['action"):
        policy(observ)
    with pytest.raises(ValueError, match='By the mask, no choice of Multi.* 0'):
        policy(observ, mask=info['action_mask'])


def test_loaded_policy_takes_the_masks_of_a_batch(run):
    alone = agents.load(run, config())
    batch = agents.load(run, config(), num_agents=2)
    masks = np.int8([[1, 0, 0, 1], [0, 1, 1, 0]]), np.eye(KEYS)[[2, 0]]
    actions = batch(np.array([3, 1]), mask=masks)
    for row, goal in enumerate((3, 1)):
        mask = tuple(part[row] for part in masks)
        assert actions[row].tolist() == alone(goal, mask=mask).tolist()
    masks[1][1] = 0
    with pytest.raises(ValueError, match='mask of observation 1.* for part 1'):
        batch(np.array([3, 1]), mask=masks)


def test_policies_of_a_run_with_masks_are_recorded_and_filmed(run, tmp_path):
    played = recording.record(run, tmp_path / 'demos.npz', 2, config=config(), env_processes=False)
    assert min(played.lengths) == LENGTH
    files = video.visualize(run, tmp_path, config=config(), env_processes=False)
    assert len(files) == 2
    message = 'observations of the run .* Leave action_masks as in its'
    with pytest.raises(errors.ConfigError, match=message):
        recording.record(
            run,
            tmp_path / 'others.npz',
            config=config(),
            env_processes=False,
            changes=['action_masks=false'],
        )


def test_run_with_masks_does_not_go_on_without(run):
    settings = config(action_masks=False)
    message = 'Dict.*, got Discrete.* Leave action_masks as in its training'
    with pytest.raises(errors.ConfigError, match=message):
        next(agents.train(settings, run, env_processes=False))


def test_masks_are_not_blamed_for_other_observations(run):
    settings = config(env='CartPole-v1')
    message = 'Dict.*, got Box.* Leave env and env_kwargs as in its training'
    with pytest.raises(errors.ConfigError, match=message):
        next(agents.train(settings, run, env_processes=False))


@pytest.fixture
def start():
    """A function that starts a batch as a config says, which is closed."""
    batches = []

    def define(count=2, env_processes=False, num_workers=1, **settings):
        made = env_setup.constructor(config(**settings))
        envs = env_setup.start(made, count, env_processes, num_workers)
        batches.append(tools.BatchEnv(envs))
        return batches[-1]

    yield define
    for batch in batches:
        batch.close()


@pytest.mark.parametrize('form', ['parts', 'flat', 'method'])
def test_every_source_of_masks_gives_the_same(start, form):
    batch = start(env_kwargs={'form': form})
    assert batch.action_space == Vault.action_space
    space = batch.observation_space
    assert space['observation'] == Vault.observation_space
    assert space['action_mask'].shape == (GOALS + KEYS,)
    expected = [Vault('flat').reset(seed=seed)[1]['action_mask'].tolist() for seed in seeds(batch)]
    assert batch.reset()['action_mask'].tolist() == expected


def seeds(batch):
    (member,) = batch._members
    return list(member._seeds)


@pytest.mark.parametrize('env_processes', [False, True])
def test_taxi_is_masked_by_its_info(start, env_processes):
    batch = start(3, env_processes, env='Taxi-v4', max_length=9)
    plain = start(3, env='Taxi-v4', max_length=9, action_masks=False)
    table = gym.make('Taxi-v4').unwrapped
    observ, states = batch.reset(), plain.reset()
    for _ in range(20):  # Beyond the end of episodes.
        # The seeds are the same, and so is what they lead to.
        assert observ['observation'].tolist() == states.tolist()
        masks = [table.action_mask(state).tolist() for state in states]
        assert observ['action_mask'].tolist() == masks
        actions = np.array([np.flatnonzero(mask)[-1] for mask in masks])
        observ, states = batch.step(actions)[0], plain.step(actions)[0]


def test_environments_are_looked_at_once(start):
    batch = start(3)
    assert batch.call('resets') == [1, 0, 0]
    # A method need not be looked for.
    assert start(2, env_kwargs={'form': 'method'}).call('resets') == [0, 0]
    pendulum = start(1, env='Pendulum-v1')
    assert isinstance(pendulum.observation_space, gym.spaces.Box)


@pytest.mark.parametrize('env', ['CartPole-v1', 'Pendulum-v1'])
def test_environments_without_masks_stay_as_they_are(start, env):
    masked, plain = start(env=env), start(env=env, action_masks=False)
    assert masked.observation_space == plain.observation_space
    np.testing.assert_array_equal(masked.reset(), plain.reset())


class Forgetful(gym.Env):
    """Tells a mask at first, and then what it is asked to."""

    observation_space = gym.spaces.Dict(x=gym.spaces.Box(0, 1, (1,)))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, later, terminated=False):
        self._later, self._terminated = later, terminated

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {'x': np.zeros(1)}, {'action_mask': np.int8([0, 1])}

    def step(self, action):
        return {'x': np.ones(1)}, 0.0, self._terminated, False, self._later


@pytest.mark.parametrize(
    'later, message',
    [
        ({}, r"info\['action_mask'\] told which .* nothing in it after step"),
        (
            {'action_mask': [1, 0, 1]},
            r'After step, the action_mask should have 2 numbers for Disc.*\(2\)'
            r', but is \[1, 0, 1\]',
        ),
        ({'action_mask': [0, 0]}, r'no choice of Discrete\(2\) is possible'),
    ],
    ids=['missing', 'longer', 'nothing'],
)
@pytest.mark.parametrize('env_processes', [False, pytest.param(True, marks=pytest.mark.slow)])
def test_masks_that_stop_are_errors(start, env_processes, later, message):
    make = functools.partial(Forgetful, later)
    batch = start(2, env_processes, env=make)
    assert sorted(batch.reset()) == ['action_mask', 'x']
    with pytest.raises(errors.EnvError, match=message) as info:
        batch.step(np.ones(2))
    assert str(info.value).startswith('Environment 0')
    assert '\n' not in str(info.value)


@pytest.mark.parametrize('later', [{}, {'action_mask': [0, 0]}])
def test_episode_may_end_without_anything_possible(start, later):
    batch = start(env=functools.partial(Forgetful, later, terminated=True))
    batch.reset()
    observ, _, terminated, _, next_observ = batch.step(np.ones(2))
    assert terminated.all()
    assert observ['action_mask'].tolist() == [[0, 1], [0, 1]]
    assert not next_observ['action_mask'].any()
    assert next_observ['x'].all() and not observ['x'].any()
