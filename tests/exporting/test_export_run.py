"""The policies of runs, exported."""

import http.client
import json
import pathlib
import resource
import socket
import tempfile
import time

import gymnasium as gym
import numpy as np
import pytest

import agents
from agents.exporting import export_check, run_policy
from agents.scripts import export
from agents.tools import errors

ROOT = pathlib.Path(__file__).parents[2]


class Locks(gym.Env):
    """Tells beside its observation which choices are possible."""

    observation_space = gym.spaces.Discrete(4, start=2)
    action_space = gym.spaces.MultiDiscrete([4, 3], start=[1, 0])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return self._observe()

    def step(self, action):
        self._time += 1
        masked = self._masks[0][action[0] - 1] and self._masks[1][action[1]]
        assert masked, 'a choice that is not possible'
        observ, info = self._observe()
        return observ, 0.0, self._time == 10, False, info

    def _observe(self):
        self._masks = [self.np_random.permutation(n) < 2 for n in (4, 3)]
        mask = np.concatenate(self._masks).astype(np.int8)
        return 2 + int(self.np_random.integers(4)), {'action_mask': mask}


@pytest.fixture(scope='module')
def config():
    """Settings of a training of a moment, of a policy with a memory."""
    return agents.configs.ppo(
        env=Locks,
        network='recurrent',
        max_length=10,
        num_agents=2,
        update_every=5,
        steps=10,
        batch_size=5,
        update_epochs=1,
        eval_every=10,
        eval_episodes=1,
        policy_layers=[4],
        value_layers=[4],
        recurrent_units=4,
        init_output_factor=3.0,
    )


@pytest.fixture(scope='module')
def run(config, train_once):
    """The directory of a run."""
    return train_once('locks', config)


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    monkeypatch.setattr(export_check, 'STEPS', 60)


def test_compared_on_episodes(run, config, tmp_path):
    found = agents.export(run, tmp_path / 'policy.npz', config=config)
    assert found.comparison.source == 'Locks'
    assert found.comparison.steps == 60
    assert found.comparison.difference < 1e-5
    assert all(each > 0 for each in found.comparison.microseconds)
    assert found.description['checkpoint'] == 10
    assert found.description['environment'].endswith('Locks')
    assert {*tmp_path.iterdir()} == {*found.paths}


@pytest.mark.slow
def test_what_differs_is_not_written(run, tmp_path, monkeypatch):
    monkeypatch.setitem(run_policy.ACTIVATIONS, 'tanh', np.cos)
    path = tmp_path / 'policy.npz'
    with pytest.raises(errors.UserError, match='instead of') as raised:
        agents.export(run, path)
    assert 'of Locks it chooses' in str(raised.value)
    assert not [*tmp_path.iterdir()]
    assert agents.export(run, path, check=False).comparison is None
    assert path.exists()


@pytest.mark.parametrize(
    'name, message',
    [
        ('policy.h5', 'The format of policy.h5 must be known'),
        ('nowhere/policy.npz', 'There is no directory'),
    ],
)
def test_other_names_are_refused(tmp_path, name, message):
    with pytest.raises(errors.ConfigError, match=message):
        agents.export(tmp_path, tmp_path / name)


@pytest.mark.parametrize('size', [100, 10_000])
def test_full_disk_leaves_nothing_of_a_saved_model(
    run, tmp_path, tmp_path_factory, monkeypatch, size
):
    # TensorFlow writes code that it generates, and forgets it where that fails.
    monkeypatch.setattr(tempfile, 'tempdir', str(tmp_path_factory.mktemp('generated')))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        with pytest.raises(errors.WriteError, match='Cannot write to') as raised:
            agents.export(run, tmp_path / 'policy', check=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert 'File too large' in str(raised.value)
    assert not [*tmp_path.iterdir()]


def test_command_tells_what_it_did(run, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    given = ['--logdir', str(run), '--outfile']
    assert export.main([*given, 'policy.tflite']) == 0
    output, problems = capfd.readouterr()
    assert not problems
    policy, compared, *others = output.splitlines()
    assert policy.endswith('Locks at step 10 as policy.tflite with policy.json')
    assert '60 steps of Locks, ' in compared
    assert others == [
        'inputs     observ (int32), mask (7 uint8), state (4 float32)',
        'outputs    action (2 int64), next_state (4 float32)',
    ]
    assert export.main([*given, 'policy.npz', '--quiet', '--nocheck']) == 0
    assert export.main([*given, 'policy.h5']) == 1
    output, problems = capfd.readouterr()
    assert not output
    assert len(problems.splitlines()) == 1


def test_served_over_http(run, tmp_path, start_python):
    agents.export(run, tmp_path / 'policy.npz', check=False)
    policy = run_policy.Policy(tmp_path / 'policy.npz')
    with socket.socket() as free:
        free.bind(('localhost', 0))
        port = free.getsockname()[1]
    serve = ROOT / 'examples' / 'serve.py'
    start_python(serve, 'policy.npz', port, cwd=tmp_path)
    wait_for(port)
    state = None
    for observ in (2, 5, 3):
        asked = {'observ': observ, 'mask': [1] * 7, 'state': state}
        status, answer = post(port, asked)
        assert status == 200
        assert answer['action'] == policy(observ, asked['mask']).tolist()
        state = answer['state']
    assert np.any(state)
    status, answer = post(port, {'observ': 1, 'mask': [1] * 7})
    assert (status, answer['error']) == (400, 'ValueError: [[1]] is not within the space.')


def wait_for(port):
    for _ in range(400):
        try:
            return socket.create_connection(('localhost', port)).close()
        except ConnectionRefusedError:
            time.sleep(0.05)
    raise AssertionError('Nobody serves.')


def post(port, asked):
    connection = http.client.HTTPConnection('localhost', port)
    connection.request('POST', '/', json.dumps(asked))
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return response.status, answer
