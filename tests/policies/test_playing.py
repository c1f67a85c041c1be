"""Playing a run in environments whose spaces differ from the trained ones."""

import shutil

import gymnasium as gym
import numpy as np
import pytest

import agents
from agents.exporting import export_run
from agents.policies import evaluation, recording, video
from agents.tools import errors
from agents.training import storage

SPACES = {
    'Box': gym.spaces.Box(-1, 1, (2,), np.float32),
    'larger Box': gym.spaces.Box(-1, 1, (3,), np.float32),
    'wider Box': gym.spaces.Box(-5, np.inf, (2,), np.float64),
    'integers': gym.spaces.Box(-1, 1, (2,), np.int64),
    'bytes': gym.spaces.Box(0, 255, (2,), np.uint8),
    'smaller bytes': gym.spaces.Box(0, 15, (2,), np.uint8),
    'Discrete': gym.spaces.Discrete(2),
    'more choices': gym.spaces.Discrete(3),
    'other start': gym.spaces.Discrete(2, start=1),
    'Dict': gym.spaces.Dict(a=gym.spaces.Discrete(2)),
    'Dict of other key': gym.spaces.Dict(b=gym.spaces.Discrete(2)),
    'Dict of other part': gym.spaces.Dict(a=gym.spaces.Discrete(3)),
}


class Random(gym.Env):
    """Observations at random, by spaces that arguments name."""

    def __init__(self, observs='Box', actions='Discrete', render_mode=None):
        self.observation_space = SPACES[observs]
        self.action_space = SPACES[actions]
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        over = bool(self.np_random.random() < 0.5)
        return self.observation_space.sample(), 0.0, over, False, {}


@pytest.fixture(scope='module')
def config():
    return agents.configs.ppo(
        env=Random, max_length=5, num_agents=2, update_every=5, steps=10,
        batch_size=5, update_epochs=1, eval_every=10, eval_episodes=2,
        policy_layers=[4], value_layers=[4],
    )  # fmt: skip


@pytest.fixture(scope='module')
def run(config, train_once):
    return train_once('random', config)


@pytest.mark.parametrize('command', ['evaluate', 'record', 'export', 'film'])
@pytest.mark.usefixtures('eagerly')
def test_other_spaces_are_refused(command, run, config, tmp_path):
    play = {
        'evaluate': lambda **given: evaluation.evaluate(run, 1, **given),
        'record': lambda **given: recording.record(run, tmp_path / 'demos.npz', **given),
        'export': lambda **given: export_run.export(run, tmp_path / 'policy.npz', **given),
        'film': lambda **given: video.visualize(run, tmp_path, **given),
    }[command]
    here = {} if command == 'export' else {'env_processes': False}
    for changed, message in {
        'observs: larger Box': r'observations .*\(2,\).*, got Box.*\(3,\)',
        'actions: more choices': r'actions .*Discrete\(2\), got Discrete\(3\)',
    }.items():
        changes = [f'env_kwargs={{{changed}}}']
        with pytest.raises(errors.ConfigError, match=message):
            play(config=config, changes=changes, **here)
    with pytest.raises(errors.UserError, match='nope'):
        play(config=config, changes=['nope=1'], **here)
    assert not {path.suffix for path in tmp_path.iterdir()} - {'.png'}


@pytest.mark.parametrize(
    ('trained', 'found', 'message'),
    [
        (['Box', 'Discrete'], ['wider Box', 'Discrete'], None),
        (['Box', 'Discrete'], ['integers', 'Discrete'], 'observations of'),
        (['Box', 'Discrete'], ['Box', 'other start'], 'actions of'),
        (['Box', 'Box'], ['Box', 'wider Box'], 'actions of'),
        (['bytes', 'Box'], ['smaller bytes', 'Box'], 'observations of'),
        (['Dict', 'Box'], ['Dict of other key', 'Box'], 'observations of'),
        (['Dict', 'Box'], ['Dict of other part', 'Box'], r"ns\['a'\] of .*\(2"),
    ],
)
def test_what_counts_as_other_spaces(trained, found, message, tmp_path):
    trained, found = (Random(*names) for names in (trained, found))
    storage.save_spaces(trained, tmp_path)
    check = storage.require_same_spaces
    if message is None:
        check(found, tmp_path, 'begin anew')
        return
    with pytest.raises(errors.ConfigError, match=message):
        check(found, tmp_path, 'begin anew')


@pytest.mark.parametrize('change', ['policy_layers=[8]', 'learning_rate=1'])
def test_settings_without_effect_are_refused(change, run, config):
    key = change.partition('=')[0]
    with pytest.raises(errors.ConfigError, match=f'{key} of its training'):
        evaluation.evaluate(run, 1, config=config, changes=[change])


def test_film_of_a_run_without_checkpoints(run, config, tmp_path):
    shutil.copytree(run, tmp_path / 'run')
    shutil.rmtree(tmp_path / 'run' / 'checkpoints')
    (tmp_path / 'run' / 'progress.csv').unlink()
    with pytest.raises(errors.ConfigError, match='no checkpoint in .* yet'):
        video.visualize(tmp_path / 'run', config=config)
    with pytest.raises(errors.ConfigError, match='from 1 to 1,000, got 1000000'):
        video.visualize(run, num_agents=10**6, config=config)
