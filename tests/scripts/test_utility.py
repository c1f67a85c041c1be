"""What the scripts share: spaces and checkpoints of a run."""

import gymnasium as gym
import numpy as np
import pytest

from agents import tools
from agents.scripts import environments, utility
from agents.tools import errors


def test_last_checkpoint_is_by_step(tmp_path):
    assert utility.last_checkpoint(None) is None
    assert utility.last_checkpoint(tmp_path) is None
    directory = tmp_path / utility.CHECKPOINTS
    directory.mkdir()
    assert utility.last_checkpoint(tmp_path) is None
    for name in ('000000000900', '000000010000', '.000000020000.77', 'x'):
        (directory / name).mkdir()
    assert utility.last_checkpoint(tmp_path) == 10_000


@pytest.mark.parametrize(
    'observ_space',
    [
        gym.spaces.Box(-1, np.inf, (2, 3), np.float64),
        gym.spaces.Dict(
            a=gym.spaces.Discrete(4, start=2),
            b=gym.spaces.Tuple([gym.spaces.MultiBinary(3)]),
        ),
    ],
)
def test_spaces_are_read_as_they_were_written(tmp_path, observ_space):
    class Batch:
        observation_space = observ_space
        action_space = gym.spaces.MultiDiscrete([2, 3])

    utility.save_spaces(Batch, tmp_path)
    assert utility.load_spaces(tmp_path) == (observ_space, Batch.action_space)


@pytest.mark.parametrize(
    'data', [None, b'', b'5', b'{"tuple": []}\n', b'\xff\0', b'{}']
)
def test_spaces_that_cannot_be_read_are_named(tmp_path, data):
    if data is not None:
        (tmp_path / utility.SPACES).write_bytes(data)
    with pytest.raises(errors.ConfigError, match=r'Cannot read .*spaces\.bin'):
        utility.load_spaces(tmp_path)


def test_batch_env_is_in_the_graph(tiny, nothing_left):
    constructor = environments.constructor(tiny())
    batch_env = utility.define_batch_env(constructor, 3, num_workers=1)
    assert isinstance(batch_env, tools.InGraphBatchEnv)
    batch_env.reset()
    assert batch_env.observ.shape == (3, 4)
    batch_env.close()


@pytest.fixture
def graph(tiny, eagerly):
    """A function that builds the graph of settings."""

    def build(**changes):
        config = tiny(**changes)
        constructor = environments.constructor(config)
        batches = [
            utility.define_batch_env(constructor, 2, False) for _ in range(2)
        ]
        return utility.define_simulation_graph(*batches, config)

    return build


def test_checkpoint_restores_every_variable_that_outlives_a_rollout(
    graph, tmp_path
):
    trained, other = graph(), graph(seed=1)
    trained.restart()
    for _ in range(2):
        trained.train(True)
    saver = utility.define_saver(trained.variables, tmp_path)
    saver.save(20)
    assert utility.define_saver(other.variables, tmp_path).restore() == 20
    kept = {
        name
        for name, variable in trained.variables.items()
        if np.array_equal(variable, other.variables[name])
    }
    # The rollouts differ, and so does what the last one came to.
    lost = sorted({name.split('/')[1] for name in {*trained.variables} - kept})
    assert lost == ['kl', 'log', 'memory', 'seed']
    for name in ('policy/normalizer', 'optimizer', 'critic', 'updates'):
        assert any(one.startswith(f'algo/{name}') for one in kept)


def test_evaluation_changes_no_variable_of_the_training(graph):
    built = graph()
    built.restart()
    built.train(True)
    before = {name: v.numpy() for name, v in built.variables.items()}
    results = built.eval(True)
    assert results['episodes'] == 2
    for name, variable in built.variables.items():
        np.testing.assert_array_equal(variable, before[name], err_msg=name)


def test_unknown_algorithm_suggests(graph):
    with pytest.raises(errors.ConfigError, match="did you mean 'ppo'"):
        graph(algorithm='pppo')
