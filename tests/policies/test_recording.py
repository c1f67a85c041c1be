"""Recording: a real run is played, and what is written is read back."""

import gymnasium as gym
import numpy as np
import pytest

import agents
from agents.config import checks
from agents.policies import recording, video
from agents.scripts import configs, record
from agents.tools import errors


class Count(gym.Env):
    """Observations and actions that are counted from other than zero.

    An episode is four steps; its reward is what the action says.
    """

    observation_space = gym.spaces.Discrete(4, start=3)
    action_space = gym.spaces.Discrete(2, start=7)

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return 3, {}

    def step(self, action):
        assert action in (7, 8)
        self.time += 1
        over = self.time == 4
        return 3 + self.time % 4, float(action), over, False, {}

    def render(self):
        return np.zeros((16, 16, 3), np.uint8)


def train(config, logdir):
    for _ in agents.train(config, logdir, env_processes=False):
        pass
    return logdir


def small(base, **settings):
    return base.copy(num_agents=2, steps=64, update_every=16, eval_every=32, **settings)


def command(run, file, *arguments):
    return record.main([f'--logdir={run}', f'--outfile={file}', *arguments])


def test_command_tells_scores_that_are_in_the_file(native_run, tmp_path, capsys):
    file = tmp_path / 'demos.npz'
    assert command(native_run, file, '--num_episodes=3') == 0
    *episodes, whole = capsys.readouterr().out.splitlines()
    with np.load(file, allow_pickle=False) as stored:
        assert set(stored) == {
            'observ', 'action', 'reward', 'terminated', 'truncated'
        }  # fmt: skip
        assert stored['observ'].shape == (60, 3)
        assert stored['action'].shape == (60, 1)
        assert np.abs(stored['action']).max() <= 2
        assert np.flatnonzero(stored['truncated']).tolist() == [19, 39, 59]
        scores = stored['reward'].reshape(3, 20).sum(1)
    assert episodes == [
        f'episode {n}  score {score:.1f}  steps 20' for n, score in enumerate(scores)
    ]
    assert whole.startswith(f'{file}  score {scores.mean():.1f} ± ')
    # Episodes differ, and the same command gives the same.
    assert len(set(scores)) == 3
    command(native_run, tmp_path / 'again.npz', '--num_episodes=3')
    assert capsys.readouterr().out.splitlines()[:3] == episodes


def test_steps_follow_from_each_other(native_run, tmp_path):
    """As by the policy, loaded, in the environment of Gymnasium."""
    played = recording.record(native_run, tmp_path / 'demos.npz', 1)
    policy = agents.load(native_run)
    env = gym.make('Pendulum-v1')
    env.reset()
    cos, sin, speed = played.observ[0]
    env.unwrapped.state = np.array([np.arctan2(sin, cos), speed])
    for step in range(19):
        action = policy(played.observ[step])
        np.testing.assert_allclose(action, played.action[step], atol=1e-4)
        observ, reward, *_ = env.step(played.action[step])
        np.testing.assert_allclose(observ, played.observ[step + 1], atol=1e-3)
        np.testing.assert_allclose(reward, played.reward[step], atol=1e-3)


def test_actions_are_sampled_where_asked_for(native_run, tmp_path):
    ways = [
        recording.record(native_run, tmp_path / 'demos.npz', 1, deterministic=way)
        for way in (True, False)
    ]
    assert np.abs(ways[0].action - ways[1].action).max() > 0.1


def test_what_is_counted_is_recorded_and_filmed(tmp_path, eagerly):
    config = small(configs.debug(), env=Count, batch_size=32, max_length=4)
    run = train(config, tmp_path / 'run')
    file = tmp_path / 'demos.npz'
    played = recording.record(run, file, 2, config=config, env_processes=False)
    with np.load(file) as stored:
        assert stored['observ'].tolist() == [3, 4, 5, 6] * 2
        assert set(stored['action']) <= {7, 8}
        assert stored['terminated'].tolist() == [False, False, False, True] * 2
    low, high = sorted(played.scores)
    assert repr(played) == (f'Demonstrations(2 episodes, 8 steps, scores {low:.6g} to {high:.6g})')
    assert played.scores == [*np.add.reduceat(stored_rewards(file), [0, 4])]
    shown = []
    video.visualize(
        run, config=config, env_processes=False, written=lambda file, score: shown.append(score)
    )
    assert shown == [None, min(played.scores)]


def stored_rewards(file):
    with np.load(file) as stored:
        return stored['reward']


@pytest.mark.parametrize(
    'arguments, message',
    [
        (['--num_episodes=0'], 'from 1 to 10,000,000, got 0'),
        (['--checkpoint=5'], 'checkpoint'),
        (['--outfile=/nowhere/demos.npz'], 'There is no directory /nowhere'),
    ],
)
def test_mistake_is_one_line(native_run, tmp_path, capsys, arguments, message):
    assert command(native_run, tmp_path / 'demos.npz', *arguments) == 1
    said = capsys.readouterr()
    assert said.err.startswith('error: ') and message in said.err
    assert said.err.count('\n') == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize('define', [configs.gail, configs.behaviour_cloning])
def test_imitating_nothing_is_refused(define):
    with pytest.raises(errors.ConfigError, match='--set demonstrations=FILE'):
        checks.require_settings(define())


@pytest.mark.slow
@pytest.mark.parametrize('form', ['behaviour_cloning', 'airl'])
def test_recorded_run_is_imitated_resumed_and_loaded(native_run, tmp_path, eagerly, form):
    file = tmp_path / 'demos.npz'
    recording.record(native_run, file, 2)
    base = (
        configs.behaviour_cloning()
        if form == 'behaviour_cloning'
        else configs.gail('ppo', rewards=form, batch_size=32)
    )
    config = small(
        base,
        env='native:Pendulum-v1',
        max_length=20,
        demonstrations=str(file),
        eval_episodes=2,
        discriminator_steps=2,
        discriminator_batch=16,
        clone_steps=5,
        clone_batch_size=16,
    )
    logdir = train(config, tmp_path / 'run')
    train(config.copy(steps=128), logdir)
    action = agents.load(logdir)(np.zeros(3, np.float32))
    assert action.shape == (1,) and np.isfinite(action).all()
