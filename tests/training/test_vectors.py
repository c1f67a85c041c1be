"""Environments that are asked for as vectors, by name and by function."""

import csv
import importlib.util
import os
import signal

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import agents
from agents import tools
from agents.policies import recording, video
from agents.scripts import configs
from agents.tools import errors
from agents.tools.vector import checked_vector
from agents.tools.vector.mock_vector import MockVector
from agents.tools.vector.vector_slice import VectorSlice
from agents.tools.workers.restarts import Restarts
from agents.tools.world import ALONE
from agents.training import env_kinds, plan, vectors
from agents.training.env_kinds.vector import Vector
from agents.training.reporter import Reporter

PONG = 'vector:ale_py:ALE/Pong-v5'

needs_atari = pytest.mark.skipif(importlib.util.find_spec('ale_py') is None, reason='needs ale-py')
needs_envpool = pytest.mark.skipif(
    importlib.util.find_spec('envpool') is None, reason='needs envpool'
)


def config(**settings):
    return configs.ppo(**{'env': 'vector:CartPole-v1', **settings})


def make_mocks(num_envs, mode='SAME_STEP'):
    return MockVector([[2, 3]] * num_envs, AutoresetMode[mode])


def make_single(render_mode=None):
    return gym.make('CartPole-v1')


@pytest.fixture
def start():
    """A function that starts a batch of vectors, which is closed."""
    started = []

    def run(count=2, seed=(0, 0, 0), first=0, **settings):
        found = vectors.start(config(**settings), count, seed, first)
        started.append(tools.BatchEnv([found]))
        return started[-1]

    yield run
    for batch in started:
        batch.close()


@pytest.fixture
def registered():
    """A function that registers an environment under a name."""
    names = []

    def register(name, entry_point, **settings):
        gym.register(name, entry_point, **settings)
        names.append(name)

    yield register
    for name in names:
        del gym.registry[name]


class Plain(MockVector):
    """A vector that is registered and takes no limit of its episodes."""

    def __init__(self, num_envs, mode='DISABLED'):
        super().__init__([[2, 3]] * num_envs, AutoresetMode[mode])


@pytest.mark.parametrize(
    'env, kwargs, expected',
    [
        ('vector:CartPole-v1', {}, True),
        ('envpool:CartPole-v1', {}, True),
        ('CartPole-v1', {}, False),
        ('native:CartPole-v1', {}, False),
        (make_mocks, {}, True),
        (make_mocks, {'num_envs': 3}, False),
        (Plain, {}, True),
        (make_single, {}, False),
        (type('One', (gym.Env,), {'__init__': make_mocks}), {}, False),
    ],
)
def test_what_a_vector_is(env, kwargs, expected):
    assert isinstance(env_kinds.of(config(env=env, env_kwargs=kwargs)), Vector) == expected


def test_id_that_has_a_vector_only(registered, start):
    registered('Plain-v0', None, vector_entry_point=Plain)
    settings = config(env='Plain-v0')
    assert vectors.is_vector(settings)
    plan.require_valid(settings)
    assert start(count=3, env='Plain-v0').reset().tolist() == [[1, 0]] * 3


def test_module_is_imported_that_registers_it(start, tmp_path, monkeypatch):
    (tmp_path / 'module_with_a_vector.py').write_text(
        'import gymnasium\n'
        'gymnasium.register("Theirs-v0", "gymnasium.envs.classic_control:'
        'PendulumEnv", max_episode_steps=3)\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    batch = start(env='vector:module_with_a_vector:Theirs-v0')
    batch.reset()
    ends = [batch.step(np.zeros((2, 1)))[3].tolist() for _ in range(4)]
    assert ends == [[False] * 2, [False] * 2, [True] * 2, [False] * 2]


@pytest.mark.parametrize(
    'settings, kind, mode',
    [
        ({}, 'CartPoleVectorEnv', 'NEXT_STEP'),
        ({'env': 'vector:Pendulum-v1'}, 'SyncVectorEnv', 'SAME_STEP'),
        ({'env_kwargs': {'vectorization_mode': 'sync'}}, 'SyncVectorEnv', 'SAME_STEP'),
        ({'env': make_mocks}, 'MockVector', 'SAME_STEP'),
        ({'env': make_mocks, 'env_kwargs': {'mode': 'DISABLED'}}, 'MockVector', 'DISABLED'),
    ],
)
def test_which_vector_is_made(start, settings, kind, mode):
    (member,) = start(**settings)._members
    assert type(member.env.unwrapped).__name__ == kind
    assert member.mode.name == mode and not member.assumed
    assert f'2 environments of a {kind} in this' in vectors.describe(member)


def test_assumed_mode_is_told(start):
    class Silent(Plain):
        def __init__(self, num_envs):
            super().__init__(num_envs, 'NEXT_STEP')
            self.metadata = {}

    (member,) = start(env=Silent)._members
    told = vectors.describe(member)
    assert '(assumed, as its metadata has no autoreset_mode: NEXT_STEP)' in told


@pytest.mark.parametrize(
    'settings',
    [
        {},
        {'env_kwargs': {'vectorization_mode': 'sync'}},
        {'env': make_mocks, 'env_kwargs': {'mode': 'DISABLED'}},
    ],
    ids=['own limit', 'single ones', 'reset on demand'],
)
def test_episodes_are_truncated(start, settings):
    batch = start(max_length=1, **settings)
    batch.reset()
    _, _, terminated, truncated, _ = batch.step(np.zeros(2, int))
    assert truncated.all() and not terminated.any()


def test_seeds_depend_on_run_purpose_session_and_rank(start):
    found = {
        settings: start(
            seed=settings[:3], first=settings[3], env_kwargs={'vectorization_mode': 'sync'}
        ).reset()
        for settings in ((0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 9, 0), (0, 0, 0, 2))
    }
    again = start(env_kwargs={'vectorization_mode': 'sync'}).reset()
    np.testing.assert_array_equal(found[0, 0, 0, 0], again)
    assert len({observ[0, 0] for observ in found.values()}) == len(found)


@pytest.mark.parametrize(
    'settings, messages',
    [
        ({'num_workers': 2}, ["'num_workers'", 'step in this process', 'None']),
        ({'worker_restarts': 1}, ["'worker_restarts'", 'leave it at 0']),
        ({'observ_bounds': 'clip'}, ["'observ_bounds'", 'at ignore']),
        ({'env': 'vector:CartPol-v1'}, ["did you mean 'CartPole-v1'"]),
        ({'env': 'vector:no_such:A-v0'}, ["'no_such:A-v0' cannot be imp"]),
    ],
)
def test_what_vectors_cannot_be_made_of(settings, messages):
    with pytest.raises(errors.ConfigError) as info:
        plan.require_valid(config(**settings))
    assert all(message in str(info.value) for message in messages)


def test_envpool_that_is_not_installed(monkeypatch):
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
    with pytest.raises(errors.ConfigError, match=r'install .agents\[envpool'):
        vectors.require(config(env='envpool:Ant-v4'))


@pytest.mark.parametrize(
    'env, message',
    [
        (lambda num_envs: make_single(), 'must return a gymnasium.vector'),
        (lambda num_envs: make_mocks(3), 'num_envs=2 and made a vector of 3'),
    ],
)
def test_function_that_makes_something_else(start, env, message):
    with pytest.raises(errors.EnvError, match=message):
        start(env=env)


@pytest.fixture
def start_batches(tiny):
    """A function that starts the batches of a small training."""

    def run(env_processes=None, **settings):
        given = tiny(**{'env': make_mocks, **settings})
        return env_kinds.of(given).start_training(
            env_kinds.Request(given, env_processes, 0, Reporter(), Restarts(), ALONE)
        )

    return run


def test_processes_are_refused(start_batches):
    with pytest.raises(errors.ConfigError, match='--env_processes must not be given'):
        start_batches(env_processes=True)


def test_vectors_are_closed_if_one_cannot_be_made(start_batches):
    made = []

    def make(num_envs):
        if made:
            raise ArithmeticError('It broke.')
        made.append(make_mocks(num_envs))
        return made[0]

    with pytest.raises(errors.EnvError, match='It broke'):
        start_batches(env=make)
    assert made[0].closed


@pytest.mark.slow
def test_run_is_filmed_and_recorded_by_the_same_id(tiny, tmp_path):
    given = tiny(env='vector:CartPole-v1', max_length=9)
    for _ in agents.train(given, tmp_path):
        pass
    with open(tmp_path / 'progress.csv') as file:
        rows = list(csv.DictReader(file))
    assert {row['phase'] for row in rows} == {'train', 'eval'}
    files = video.visualize(tmp_path, tmp_path / 'films', num_episodes=2)
    # A step that begins an episode makes neither a film nor an episode.
    names = [f'agent0-episode{number}-step40.mp4' for number in (0, 1)]
    assert [file.name for file in files[1:]] == names
    played = recording.record(tmp_path, tmp_path / 'demos.npz', 3)
    assert len(played.lengths) == 3 and max(played.lengths) <= 9
    assert (np.array(played.scores) == played.lengths).all()


class Seen(MockVector):
    """Two environments with lost steps and frames."""

    render_mode = 'rgb_array'

    def __init__(self):
        super().__init__([[2, 3], [4]], AutoresetMode.NEXT_STEP)

    def render(self):
        return np.zeros((2, 16, 16, 3), np.uint8)


class Idle:
    """A policy that does nothing."""

    checkpoint = 7

    def reset(self, mask=None):
        pass

    def choose(self, observ, deterministic=True):
        return np.zeros(len(observ), int)


def test_lost_steps_are_neither_filmed_nor_recorded(tmp_path):
    batch = tools.BatchEnv([VectorSlice(Seen)])
    films = video._play(batch, Idle(), tmp_path, 2)
    # 11 + 12, then 11 to 14, 21 to 23 and 21 to 24.
    assert [(file.stem, score) for file, score in films] == [
        ('agent0-episode0-step7', 23),
        ('agent1-episode0-step7', 50),
        ('agent0-episode1-step7', 66),
        ('agent1-episode1-step7', 90),
    ]
    assert len([*tmp_path.iterdir()]) == 4
    batch = tools.BatchEnv([VectorSlice(Seen)])
    played = recording._collect(batch, Idle(), 4, True)
    assert played.scores == [23, 66, 50, 90]
    assert played.lengths == [2, 3, 4, 4]


def taxi_masks(states):
    table = gym.make('Taxi-v4').unwrapped
    return [table.action_mask(state).tolist() for state in states]


def make_taxis(num_envs):
    return gym.make_vec('Taxi-v4', num_envs, max_episode_steps=4)


@pytest.mark.parametrize('env', ['vector:Taxi-v4', make_taxis])
def test_taxis_are_masked_by_their_infos(start, env):
    batch = start(count=3, env=env, max_length=4)
    plain = start(count=3, env=env, max_length=4, action_masks=False)
    observ, states = batch.reset(), plain.reset()
    for _ in range(10):  # Beyond the end of episodes.
        assert observ['observation'].tolist() == states.tolist()
        assert observ['action_mask'].tolist() == taxi_masks(states)
        actions = observ['action_mask'].argmax(1)
        observ, states = batch.step(actions)[0], plain.step(actions)[0]


def test_masks_by_method_of_single_environments(registered, start):
    class Methodical(gym.Env):
        observation_space = gym.spaces.Discrete(2)
        action_space = gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return 0, {}

        def action_masks(self):
            return [True, False]

    registered('Methodical-v0', Methodical)
    observ = start(env='vector:Methodical-v0').reset()
    assert observ['action_mask'].tolist() == [[1, 0]] * 2


def test_training_reports_numbers_and_applies_masks(tiny, tmp_path, eagerly):
    settings = {'log_info': ['prob'], 'max_length': 9}
    given = tiny(env='vector:Taxi-v4', **settings)
    *_, score = agents.train(given, tmp_path)
    assert score.report.metrics['info/prob'] == 1
    played = recording.record(tmp_path, tmp_path / 'demos.npz', 1)
    assert played.lengths[0] <= 9


ASYNC = {'vectorization_mode': 'async'}


def pids_of(batch):
    (member,) = batch._members
    return [process.pid for process in member.env.unwrapped.processes]


def test_processes_of_gymnasium_step_and_end(start):
    batch = start(env_kwargs=ASYNC, max_length=3)
    told = vectors.describe(batch._members[0])
    assert 'of a AsyncVectorEnv in processes of its own' in told
    same = start(env_kwargs={'vectorization_mode': 'sync'}, max_length=3)
    np.testing.assert_array_equal(batch.reset(), same.reset())
    for _ in range(5):
        actions = np.array([0, 1])
        for found in zip(batch.step(actions), same.step(actions), strict=True):
            np.testing.assert_array_equal(*found)
    pids = pids_of(batch)
    assert len(pids) == 2
    for pid in pids:
        os.kill(pid, signal.SIGINT)  # As Ctrl-C does, which is not theirs.
    batch.step(actions)
    batch.close()
    assert not any(map(is_alive, pids))


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class OddError(Exception):
    """Cannot be made of its text alone."""

    def __init__(self, one, two):
        super().__init__(one + two)


class Failing(gym.Env):
    """Raises an error in the second step."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    time = 0

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.time += 1
        if self.time == 2 and action == 1:
            raise OddError('It ', 'broke.')
        return np.zeros(1, np.float32), 0.0, False, False, {}


def test_error_in_a_process_of_gymnasium_is_told_once(registered, start, recwarn):
    registered('Failing-v0', Failing)
    batch = start(env='vector:Failing-v0', env_kwargs=ASYNC)
    batch.reset()
    pids = pids_of(batch)
    with pytest.raises(errors.EnvError) as info:
        for _ in range(2):
            batch.step(np.array([0, 1]))
    text = str(info.value)
    assert text.startswith('The vector of environments 0 to 1: Worker')
    assert '-1 raised an error in step, given the action 1:\n' in text
    assert text.endswith('OddError: It broke.')
    assert text.count('Traceback') == 1
    assert not any(map(is_alive, pids))
    # Gymnasium forks, which Python calls deprecated beside threads.
    assert not [each for each in recwarn if each.category is not DeprecationWarning]


@pytest.mark.parametrize('number', [0, 1])
@pytest.mark.parametrize('killed', [False, True])
def test_processes_of_gymnasium_end_in_the_middle(start, monkeypatch, killed, number):
    """Of a step that is broken off, or that one of them has not survived."""
    monkeypatch.setattr(checked_vector, 'CLOSING_SECONDS', 0.1)
    batch = start(env_kwargs=ASYNC)
    batch.reset()
    vector, pids = batch._members[0].env.unwrapped, pids_of(batch)
    if killed:
        os.kill(pids[number], signal.SIGKILL)
        with pytest.raises(errors.EnvError, match='0 to 1 raised an error in'):
            batch.step(np.zeros(2))
    else:
        vector.step_async(np.zeros(2, int))
        vector.parent_pipes[number].recv()
    batch.close()
    assert not any(map(is_alive, pids))


@needs_atari
def test_atari_is_whole_games_of_whole_rewards(start):
    batch = start(count=3, env=PONG, max_length=6)
    (member,) = batch._members
    assert (member.mode.name, batch.observation_space.shape) == ('SAME_STEP', (4, 84, 84))
    spec = member.env.spec.kwargs
    assert spec['reward_clipping'] is False
    assert 'episodic_life' not in spec
    first = batch.reset()
    assert first.dtype == np.uint8 and first.any()
    for step in range(1, 13):
        observ, _, _, truncated, after = batch.step(np.zeros(3, int))
        assert truncated.tolist() == [step % 6 == 0] * 3
        # At the end of an episode, the last frames are not the first.
        assert (observ != after).any() == (step % 6 == 0)


@needs_atari
def test_atari_is_filmed_as_it_is_seen(start):
    batch = start(count=2, env=PONG)
    batch.reset()
    for frame in batch.call('render'):
        assert frame.shape == (336, 336, 3) and frame.any()


@needs_atari
@pytest.mark.parametrize('game', ['SpaceInvaders', 'space_invaders'])
def test_atari_by_name(game):
    settings = configs.atari(game, env_kwargs={'episodic_life': True})
    assert settings.env == 'vector:ale_py:ALE/SpaceInvaders-v5'
    plan.require_valid(settings)


@needs_atari
def test_single_atari_games_go_to_workers():
    assert not vectors.is_vector(config(env='ale_py:ALE/Pong-v5'))


@needs_envpool
@pytest.mark.parametrize(
    'settings, message',
    [
        ({'env': 'envpool:Antt-v4'}, "no environment 'Antt-v4'.*'Ant-v4'"),
        (
            {'env': 'envpool:Ant-v4', 'env_kwargs': {'frame_skp': 3}},
            "no argument of Ant-v4 'frame_skp'; did you mean 'frame_skip'",
        ),
    ],
)
def test_envpool_by_name(start, settings, message):
    with pytest.raises(errors.UserError, match=message):
        start(**settings)


@needs_envpool
def test_envpool_truncates_and_wastes_no_step(start):
    batch = start(env='envpool:HalfCheetah-v4', max_length=3)
    batch.reset()
    begun = []
    for step in range(1, 10):
        action = np.zeros((2, 6), np.float32)
        observ, reward, terminated, truncated, after = batch.step(action)
        assert not terminated.any() and reward.all()
        assert truncated.tolist() == [step % 3 == 0] * 2
        assert (observ != after).any() == (step % 3 == 0)
        if truncated.any():
            begun.append(observ)
    assert not (begun[0] == begun[1]).any(1).all()


@needs_envpool
def test_termination_with_the_last_step_is_one(start):
    """EnvPool by itself calls it truncated."""
    observed = []
    for limit in (99, None):
        limit = limit or len(observed)
        batch = start(count=1, env='envpool:CartPole-v1', max_length=limit)
        batch.reset()
        observed = []
        while True:
            step = batch.step(np.zeros(1, int))
            observed.append(step[0])
            if step[2][0] or step[3][0]:
                break
        assert step[2][0]
    assert step[3][0] and len(observed) == limit


@needs_envpool
def test_envpool_resets_some_alone(start):
    batch = start(count=3, env='envpool:CartPole-v1')
    before = batch.reset()
    observ, *_ = batch.step(np.array([0, 1, 0]))
    begun = batch.reset([1])
    assert begun.all() and (np.abs(begun) <= 0.05).all()  # As CartPole begins.
    assert begun.shape == (1, 4) and (begun != before[1]).all()
    after, *_ = batch.step(np.array([0, 1, 0]))
    moved = np.abs(after - observ)[[0, 2]]
    assert (moved > 0).any() and (np.abs(after[1] - begun) < 0.5).all()


@needs_envpool
def test_envpool_seeds(start):
    found = [start(env='envpool:CartPole-v1', seed=(seed, 0, 0)).reset() for seed in (0, 0, 1)]
    np.testing.assert_array_equal(found[0], found[1])
    assert (found[0] != found[2]).all() and (found[0][0] != found[0][1]).all()
