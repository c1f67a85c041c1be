"""Training with environments that are part of the graph."""

import itertools
import os
import pathlib
import time

import numpy as np
import pytest

from agents.config import store
from agents.config.settings import find_defaults
from agents.scripts import configs
from agents.tools.graph import simulation
from agents.tools.runs import checkpoints, tensors
from agents.training import simulation_graph, storage
from agents.training.train import train

STEPS = 256


def config(**changes):
    small = {
        'max_length': 50,
        'num_agents': 4,
        'update_every': 8,
        'steps': STEPS,
        'batch_size': 16,
        'update_epochs': 2,
        'eval_every': 64,
        'log_every': 1000,
        'eval_episodes': 2,
    }
    return configs.cartpole_native().copy(**{**small, **changes})


def last_checkpoint(logdir):
    """All that the last checkpoint of a run holds, by name."""
    step = storage.last_checkpoint(logdir)
    path = pathlib.Path(logdir) / storage.CHECKPOINTS / f'{step:012d}'
    file = path / checkpoints.TENSORS
    return step, tensors.read(file, tensors.specs(file))


def assert_same(first, second):
    assert first[0] == second[0]
    assert first[1].keys() == second[1].keys()
    for name, value in first[1].items():
        np.testing.assert_array_equal(value, second[1][name], err_msg=name)


@pytest.fixture(scope='module')
def whole(once):
    """The last checkpoint of a run that was not interrupted."""

    def fill(directory):
        scores = list(train(config(), directory))
        assert [score.report.phase for score in scores] == ['train', 'eval'] * 4

    return last_checkpoint(once('whole', fill))


@pytest.mark.slow
def test_half_a_run_and_the_other_half_are_the_whole(whole, tmp_path):
    scores = train(config(), tmp_path)
    for _ in itertools.islice(scores, 4):
        pass
    scores.close()
    assert storage.last_checkpoint(tmp_path) == STEPS // 2
    train(config(), tmp_path).run()
    assert_same(last_checkpoint(tmp_path), whole)


@pytest.mark.slow
def test_how_often_it_is_evaluated_changes_no_weight(whole, tmp_path):
    train(config(eval_every=100, log_every=40), tmp_path).run()
    step, found = last_checkpoint(tmp_path)
    assert step == whole[0] == STEPS
    for name, value in whole[1].items():
        if not name.startswith('eval_env'):
            np.testing.assert_array_equal(found[name], value, name)


def write_demonstrations(file):
    """Some steps of CartPole, of which the last ends an episode."""
    ends = np.arange(20) == 19
    observ = np.random.default_rng(0).normal(size=(20, 4))
    action = np.arange(20) % 2
    np.savez(
        file,
        observ=observ,
        action=action,
        reward=np.ones(20),
        terminated=ends,
        truncated=np.zeros(20, bool),
    )
    return str(file)


@pytest.mark.slow
@pytest.mark.parametrize('algorithm', ['ppo', 'trpo', 'acktr', 'gail'])
@pytest.mark.usefixtures('eagerly')
def test_halves_of_every_algorithm_are_the_whole(algorithm, tmp_path):
    def run(name, steps):
        small = dict(config())
        for key in ('algorithm', 'batch_size', 'update_epochs'):
            del small[key]
        shared = {k: v for k, v in small.items() if k in find_defaults(None)}
        shared.update(steps=steps, learning_rate_schedule='constant')
        shared.update(policy_layers=[8], value_layers=[8], max_length=10)
        if algorithm == 'ppo':
            shared.update(batch_size=16, update_epochs=1)
        else:
            shared.update(value_batch_size=16, value_epochs=1)
        if algorithm in ('trpo', 'gail'):
            shared.update(conjugate_steps=2)
        if algorithm == 'gail':
            file = write_demonstrations(tmp_path / 'demos.npz')
            shared.update(demonstrations=file, rewards='airl', clone_steps=2)
            shared.update(discriminator_steps=2)
        for _ in train(getattr(configs, algorithm)(**shared), tmp_path / name):
            pass
        return last_checkpoint(tmp_path / name)

    run('halves', 64)
    assert_same(run('halves', 128), run('whole', 128))


@pytest.mark.slow
def test_killed_at_any_moment_it_goes_on_bit_for_bit(whole, tmp_path, start_python):
    logdir = tmp_path / 't-kill_me'
    file = tmp_path / 'configs.py'
    file.write_text(
        'from agents import configs\n'
        'def kill_me():\n'
        f'    return configs.cartpole_native().copy(**{changes()!r})\n'
    )
    command = ['-m', 'agents.scripts.train', f'--config={file}:kill_me']
    command += [f'--logdir={tmp_path}', '--timestamp=t']
    random = np.random.RandomState(0)
    for _ in range(2):
        training = start_python(*command)
        training.read_until('train      step')
        # Before its first checkpoint there is nothing to go on with.
        while not storage.last_checkpoint(logdir):
            time.sleep(0.01)
        time.sleep(random.uniform(0, 0.05))
        training.kill()
        training.wait()
    finished = start_python(*command).finish()
    assert not finished.code, finished.problems
    assert_same(last_checkpoint(logdir), whole)


def changes():
    """What distinguishes the settings of this file from those of the config."""
    base, small = configs.cartpole_native(), config()
    return {key: small[key] for key in small if small[key] != base[key]}


# The others run in tests/algorithms, by test_spaces.py and test_learning.py.
@pytest.mark.slow
@pytest.mark.parametrize(
    'algorithm, kind, env',
    [
        ('reinforce', 'feed_forward', 'native:CartPole-v1'),
        ('trpo', 'recurrent', 'native:CartPole-v1'),
        ('acktr', 'feed_forward', 'CartPole-v1'),
    ],
)
def test_every_algorithm_and_network_runs_on_both_kinds(algorithm, kind, env):
    sizes = {
        'ppo': {'batch_size': 16, 'update_epochs': 1},
        'reinforce': {'value_batch_size': 16, 'value_epochs': 1},
        'trpo': {'value_batch_size': 16, 'value_epochs': 1},
        'acktr': {'value_batch_size': 16, 'value_epochs': 1},
    }
    small = {key: value for key, value in changes().items() if key != 'batch_size'}
    small.pop('update_epochs', None)
    run = getattr(configs, algorithm)(
        env=env,
        network=kind,
        policy_layers=[8],
        value_layers=[8],
        recurrent_units=8,
        **{**small, 'steps': 64, 'eval_every': 64, **sizes[algorithm]},
    )
    reports = [s.report for s in train(run, env_processes=False)]
    assert [report.phase for report in reports] == ['train', 'eval']
    assert np.isfinite(list(reports[0].metrics.values())).all()
    assert reports[0].metrics['policy_gradient_norm'] > 0


def test_native_run_is_traced_once_and_learns(monkeypatch):
    small = config()
    envs = simulation_graph.define_native_batch_envs(small)
    graph = simulation_graph.define_simulation_graph(*envs, small, one_program=True)
    graph.restart()
    traced = []

    for name in ('_act', '_record'):
        function = getattr(simulation, name)

        def traced_function(*args, function=function, name=name):
            traced.append(name)
            return function(*args)

        monkeypatch.setattr(simulation, name, traced_function)
    before = graph.algo.summary()['weights/policy'].numpy().tolist()
    first = graph.train(2)
    assert {'_act', '_record'} == set(traced)
    traced.clear()
    second = graph.train(3)
    assert not traced
    assert first.keys() == second.keys()
    after = graph.algo.summary()['weights/policy'].numpy().tolist()
    assert after != before
    assert int(envs[0]._count) == 1 + (2 + 3) * small.update_every


@pytest.mark.slow
def test_a_damaged_cache_is_cleared_and_gone_on_without(tmp_path, run_python):
    environ = {**os.environ, 'AGENTS_CACHE': str(tmp_path / 'cache')}
    command = ['-m', 'agents.scripts.train', '--config=cartpole_native']
    command += [f'--logdir={tmp_path}', '--set=steps=256']
    command += ['--set=eval_every=256', '--set=max_length=20']
    command += ['--set=policy_layers=[4]', '--set=value_layers=[4]']
    assert run_python(*command, env=environ).code == 0
    programs = list((tmp_path / 'cache').glob('*/*'))
    assert programs
    for program, contents in zip(programs, itertools.cycle([b'', b'x' * 99])):
        program.write_bytes(contents)
    code, _, problems = run_python(*command, env=environ)
    assert code == 0
    assert problems.count('cache:') == 1
    assert 'is no longer used' in problems
    # The next run finds none of them.
    assert not any(program.exists() for program in programs)


def test_settings_of_a_run_name_the_environment(tmp_path):
    store.save_config(config(), tmp_path)
    assert store.load_config(tmp_path).env == 'native:CartPole-v1'
