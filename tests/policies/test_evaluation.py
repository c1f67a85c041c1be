"""Evaluation: real runs are played, and scores are what they have to be."""

import itertools
import json
import math
import os
import sys

import gymnasium as gym
import numpy as np
import pytest

import agents
from agents.policies import evaluation
from agents.scripts import evaluate, export, record
from agents.training.env_kinds.kind import EnvKind


class Halves(gym.Env):
    """Every other environment has episodes of one step, the rest of five.

    A reward is 1. Only the choice that the mask allows may be made, which
    changes with each step.
    """

    observation_space = gym.spaces.Dict(
        {
            'image': gym.spaces.Box(0, 255, (8, 8, 1), np.uint8),
            'number': gym.spaces.Box(-1, 1, (1,), np.float32),
            'action_mask': gym.spaces.MultiBinary(3),
        }
    )
    action_space = gym.spaces.Discrete(3)
    made = itertools.count()

    def __init__(self):
        self._length = 1 if next(self.made) % 2 else 5

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return self._observe(), {}

    def step(self, action):
        assert action == self._time % 3
        self._time += 1
        return self._observe(), 1.0, self._time == self._length, False, {}

    def _observe(self):
        return {
            'image': self.np_random.integers(0, 256, (8, 8, 1), np.uint8),
            'number': self.np_random.uniform(-1, 1, 1).astype(np.float32),
            'action_mask': np.eye(3, dtype=np.int8)[self._time % 3],
        }


def train(config, logdir):
    for _ in agents.train(config, logdir, env_processes=False):
        pass
    return logdir


def command(run, *arguments):
    return evaluate.main([f'--logdir={run}', *arguments])


def test_every_environment_plays_as_many_episodes(tiny, tmp_path, eagerly, monkeypatch):
    """With a memory, masks and images within a Dict."""
    config = tiny(env=Halves, network='recurrent', steps=10, eval_every=10)
    run = train(config, tmp_path)
    monkeypatch.setattr(EnvKind, 'most_agents', 4)
    found = agents.evaluate(run, 10, config=config, env_processes=False)
    # By who plays first, there are three of two environments.
    first = 5 if found.lengths[0] == 5 else 1
    other = 6 - first
    expected = [first] * 3 + [other] * 3 + [first] * 2 + [other] * 2
    assert list(found.lengths) == expected
    assert found.scores == found.lengths
    assert (found.episodes, found.mean, found.median) == (10, 3.0, 3.0)
    assert (found.min, found.max, found.std) == (1.0, 5.0, 2.0)
    assert found.standard_error == pytest.approx(2 / 3)
    assert found.env == 'Halves' and found.checkpoint == 10


def test_same_seed_gives_the_same_however_it_is_stepped(debug_run):
    run = debug_run.directory
    sample = {'deterministic': False, 'env_processes': False}
    found = agents.evaluate(run, 6, **sample)
    assert found.lengths == found.scores
    elsewhere = {**sample, 'env_processes': True}
    assert agents.evaluate(run, 6, **elsewhere) == found
    other = agents.evaluate(run, 6, seed=1, **sample)
    assert other.seed == 1 and other.scores != found.scores
    first = min(int(path.name) for path in (run / 'checkpoints').iterdir())
    early = agents.evaluate(run, 6, checkpoint=first, env_processes=False)
    assert early.checkpoint == first < found.checkpoint


def test_native_environments_play_as_the_loop_of_a_user(native_run):
    found = agents.evaluate(native_run, 3)
    assert found.lengths == (20, 20, 20) and len({*found.scores}) == 3
    sampled = agents.evaluate(native_run, 3, deterministic=False)
    assert sampled != found
    assert sampled == agents.evaluate(native_run, 3, deterministic=False)
    # By hand in the environment of Gymnasium; 16 costs a step at most.
    policy, env = agents.load(native_run), gym.make('Pendulum-v1')
    scores = []
    for seed in range(20):
        observ, _ = env.reset(seed=seed)
        rewards = []
        for _ in range(20):
            observ, reward, *_ = env.step(policy(observ))
            rewards.append(reward)
        scores.append(sum(rewards))
    many = agents.evaluate(native_run, 200)
    low, high = many.interval
    assert low < many.mean < high
    assert many.mean == pytest.approx(np.mean(scores), abs=3 * np.std(scores))


def test_interval_is_that_of_the_mean():
    scores = tuple(np.random.default_rng(0).normal(5, 2, 400).tolist())
    made = evaluation.Evaluation('run', 1, 'env', 0, True, (), scores, (1,) * 400)
    low, high = made.interval
    assert high - low == pytest.approx(2 * 1.96 * 2 / 20, rel=0.1)
    assert made.standard_error == pytest.approx(2 / 20, rel=0.1)
    assert repr(made).startswith('<Evaluation of 400 episodes of env: score ')
    alone = evaluation.Evaluation('run', 1, 'env', 0, True, (), (3.0,), (1,))
    assert math.isnan(alone.standard_error)
    assert json.loads(alone.to_json())['standard_error'] is None
    assert str(alone).endswith('mean score  3.00')


def test_command_prints_a_table_and_json(native_run, tmp_path, capsys):
    found = agents.evaluate(native_run, 4, seed=3)
    file = tmp_path / 'scores.json'
    options = ['--num_episodes=4', '--seed=3']
    assert command(native_run, *options, f'--json={file}') == 0
    said = capsys.readouterr()
    assert said.out == f'{found}\n' and not said.err
    lines = said.out.splitlines()
    assert lines[2] == (
        'played      4 episodes of native:Pendulum-v1, most probable actions, seed 3'
    )
    assert lines[4].split() == ['mean', 'std', 'min', 'median', 'max']
    assert lines[5].split()[1] == f'{np.mean(found.scores):,.1f}'
    assert lines[6].split() == ['length', '20.0', '0.0', *['20.0'] * 3]
    stored = json.loads(file.read_text())
    assert stored['scores'] == [*found.scores]
    assert stored['lengths'] == [20] * 4
    assert (stored['checkpoint'], stored['seed']) == (64, 3)
    assert stored['std'] == pytest.approx(np.std(found.scores))
    command(native_run, *options, '--set=max_length=30', '--json=-')
    assert json.loads(capsys.readouterr().out)['changes'] == ['max_length=30']
    command(native_run, *options, '--set=max_length=30', '--quiet')
    said = capsys.readouterr()
    assert '\nchanged     max_length=30\n\n' in said.out and not said.err


def test_what_nobody_reads_or_a_terminal_lacks_is_no_error(native_run, monkeypatch):
    ends = os.pipe()
    with open(ends[1], 'w', encoding='ascii') as closed, monkeypatch.context() as patch:
        patch.setattr(sys, 'stdout', closed)
        assert command(native_run, '--num_episodes=4') == 0
        assert b'\n' in os.read(ends[0], 2**16)
        os.close(ends[0])
        assert command(native_run, '--num_episodes=4') == 0


@pytest.mark.parametrize(
    'arguments, message',
    [
        (['--num_episodes=0'], 'from 1 to 10,000,000, got 0'),
        (['--num_episodes=10_000_000_000'], 'from 1 to 10,000,000, got'),
        (['--checkpoint=5'], 'checkpoint'),
        (['--seed=-1'], "'seed' has to be"),
        (['--json=/nowhere/x.json'], 'There is no directory /nowhere'),
    ],
)
def test_mistake_is_one_line(native_run, capsys, arguments, message):
    assert command(native_run, *arguments) == 1
    said = capsys.readouterr()
    assert said.err.startswith('error: ') and message in said.err
    assert said.err.count('\n') == 1


def test_checkpoint_that_is_no_step_is_refused(native_run, capsys):
    with pytest.raises(SystemExit) as info:
        command(native_run, '--checkpoint=last')
    assert info.value.code == 2
    assert 'neither a training step nor best' in capsys.readouterr().err


SEVENS = """
from gymnasium.envs.classic_control import CartPoleEnv

class Sevens(CartPoleEnv):
    def step(self, action):
        observ, _, _, truncated, info = super().step(action)
        return observ, 7.0, True, truncated, info
"""


def test_environment_that_is_named_is_played(debug_run, tmp_path, monkeypatch, capsys):
    (tmp_path / 'sevens.py').write_text(SEVENS)
    monkeypatch.chdir(tmp_path)
    given = [f'--logdir={debug_run.directory}', '--env=sevens.py:Sevens']
    played = [*given, '--num_episodes=1', '--noenv_processes']
    assert evaluate.main([*played, '--json=-']) == 0
    assert json.loads(capsys.readouterr().out)['scores'] == [7.0]
    assert record.main([*played, '--outfile=demos.npz']) == 0
    assert 'episode 0  score 7.00  steps 1\n' in capsys.readouterr().out
    assert export.main([*given, '--outfile=policy.npz']) == 0
    assert ' steps of Sevens, ' in capsys.readouterr().out
