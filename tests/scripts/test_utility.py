"""What the scripts share: spaces and checkpoints of a run."""

import json
import time

import gymnasium as gym
import numpy as np
import pytest

from agents import tools
from agents.algorithms.algorithm import Algorithm
from agents.tools import errors
from agents.tools.graph import weights
from agents.tools.graph.backend import tf
from agents.training import env_setup, simulation_graph, storage


def test_last_checkpoint_is_by_step(tmp_path):
    assert storage.last_checkpoint(None) is None
    assert storage.last_checkpoint(tmp_path) is None
    directory = tmp_path / storage.CHECKPOINTS
    directory.mkdir()
    assert storage.last_checkpoint(tmp_path) is None
    for name in (
        '000000000900',
        '000000010000',
        '.000000020000.77',
        'x',
        '9' * 255,
        '9' * 19,
        '0' * 13 + '77',
    ):
        (directory / name).mkdir()
    assert storage.last_checkpoint(tmp_path) == 10_000


@pytest.mark.parametrize(
    'observ_space',
    [
        gym.spaces.Box(-1, np.inf, (2, 3), np.float64),
        gym.spaces.Dict(
            a=gym.spaces.Discrete(4, start=2), b=gym.spaces.Tuple([gym.spaces.MultiBinary(3)])
        ),
    ],
)
def test_spaces_are_read_as_they_were_written(tmp_path, observ_space):
    class Batch:
        observation_space = observ_space
        action_space = gym.spaces.MultiDiscrete([2, 3])

    storage.save_spaces(Batch, tmp_path)
    assert storage.load_spaces(tmp_path) == (observ_space, Batch.action_space)


@pytest.mark.parametrize('data', [None, b'', b'5', b'{"tuple": []}\n', b'\xff\0', b'{}'])
def test_spaces_that_cannot_be_read_are_named(tmp_path, data):
    if data is not None:
        (tmp_path / storage.SPACES).write_bytes(data)
    with pytest.raises(errors.ConfigError, match=r'Cannot read .*spaces\.bin'):
        storage.load_spaces(tmp_path)


def space(kind, **content):
    return {'space': {'dict': {'kind': kind, **content}}}


def box(*shape):
    array = {'array': ['float32', list(shape), False]}
    return space('Box', dtype='float32', low=array, high=array)


def deep(levels):
    found = space('MultiBinary', n=1)
    for _ in range(levels):
        found = space('Tuple', parts={'list': [found]})
    return found


HOSTILE = {
    'huge box': box(10**12),
    'box beyond 64 bits': box(10**400),
    'box of negative size': box(-1),
    'empty box': box(0, 10**12),
    'box without numbers': box(2),
    'box of text': space('Box', dtype='float32', low='a', high='b'),
    'box of objects': space('Box', dtype='O', low=0.0, high=1.0),
    'nested type': {'array': ['(1000000,)f8', [1], False]},
    'huge choice': space('Discrete', n=10**12, start=0),
    'choice beyond 64 bits': space('Discrete', n=10**400, start=0),
    'huge binary': space('MultiBinary', n=10**12),
    'huger binary': space('MultiBinary', n={'list': [10**9, 10**9]}),
    'huge choices': space('MultiDiscrete', nvec={'list': [10**12]}, start=0),
    'nothing': space('Dict', parts={'dict': {}}),
    'unknown': space('Graph'),
    'deep': deep(30),
    'no space': 'CartPole-v1',
}


@pytest.mark.parametrize('hostile', HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize('place', [0, 1])
def test_hostile_spaces_are_refused(tmp_path, hostile, place):
    both = [space('Discrete', n=2, start=0)] * 2
    both[place] = hostile
    data = json.dumps({'tuple': both}).encode() + b'\n'
    (tmp_path / storage.SPACES).write_bytes(data)
    started = time.monotonic()
    with pytest.raises(errors.ConfigError, match=r'Cannot read .*spaces\.bin'):
        storage.load_spaces(tmp_path)
    assert time.monotonic() - started < 10


def test_spaces_that_are_nested_endlessly_are_refused(tmp_path):
    for text in (b'[' * 10**6, b'{"tuple":' * 10**5, b'{"list": [' * 200):
        (tmp_path / storage.SPACES).write_bytes(text)
        with pytest.raises(errors.ConfigError, match='nested too deeply'):
            storage.load_spaces(tmp_path)


def test_spaces_are_written_only_if_they_change(tmp_path):
    class Batch:
        observation_space = action_space = gym.spaces.Discrete(2)

    storage.save_spaces(Batch, tmp_path)
    before = (tmp_path / storage.SPACES).stat()
    storage.save_spaces(Batch, tmp_path)
    after = (tmp_path / storage.SPACES).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_linked_checkpoints_are_refused(tmp_path):
    (tmp_path / 'others').mkdir()
    (tmp_path / storage.CHECKPOINTS).symlink_to(tmp_path / 'others')
    with pytest.raises(errors.ConfigError, match='is a symbolic link'):
        storage.last_checkpoint(tmp_path)


def test_batch_env_is_in_the_graph(tiny, nothing_left):
    constructor = env_setup.constructor(tiny())
    batch_env = simulation_graph.define_batch_env(constructor, 3, num_workers=1)
    assert isinstance(batch_env, tools.InGraphBatchEnv)
    batch_env.reset()
    assert batch_env.observ.shape == (3, 4)
    batch_env.close()


@pytest.fixture
def graph(tiny, eagerly):
    """A function that builds the graph of settings."""

    def build(**changes):
        config = tiny(**changes)
        constructor = env_setup.constructor(config)
        batches = [simulation_graph.define_batch_env(constructor, 2, False) for _ in range(2)]
        return simulation_graph.define_simulation_graph(*batches, config)

    return build


def test_checkpoint_restores_every_variable_that_outlives_a_rollout(graph, tmp_path):
    trained, other = graph(), graph(seed=1)
    trained.restart()
    for _ in range(2):
        trained.train()
    saver = storage.define_saver(trained.variables, tmp_path)
    saver.save(20)
    assert storage.define_saver(other.variables, tmp_path).restore() == 20
    every, restored = [dict(walk(one.algo)) for one in (trained, other)]
    differing = sorted(
        name for name, variable in every.items() if not np.array_equal(variable, restored[name])
    )
    # What was recorded in the rollouts, and what the last one came to.
    assert differing == [
        'collector/output',
        'collector/recorder/matrices/0',
        'collector/recorder/taken/begins',
        'collector/seed',
        'collector/value',
        'log/advantage',
        'log/returns',
        'log/reward',
        'log/value',
    ]


def walk(thing, path=''):
    """All variables of a module, saved or not, by their attributes."""
    if isinstance(thing, tf.Variable):
        yield path.strip('/'), thing
    elif isinstance(thing, dict):
        for name, part in thing.items():
            yield from walk(part, f'{path}/{name}')
    elif isinstance(thing, (list, tuple)):
        yield from walk(dict(enumerate(thing)), path)
    elif isinstance(thing, tf.Module):
        yield from walk(weights.attributes(thing), path)


class Wrapper(Algorithm):
    """Lets another algorithm do everything."""

    def __init__(self, algo, batch_env):
        super().__init__()
        self.algo = algo
        self.policy = algo.policy
        self.own = tf.Variable(5.0)
        self.scratch = tf.Variable(tf.zeros(len(batch_env)))

    def saved(self):
        return {'algo': self.algo, 'own': self.own}


def test_nested_algorithm_is_saved_as_it_says(graph, tiny):
    plain = graph()
    batches = plain._batch_env, plain._eval_env
    nested = Wrapper(plain.algo, batches[0])
    wrapped = simulation_graph.SimulationGraph(nested, *batches, tiny())
    # The policy has the same names, so that it can be loaded from either.
    renamed = {name.replace('algo/', 'algo/algo/', 1) for name in plain.variables}
    assert set(wrapped.variables) == {*renamed, 'algo/own'}
    assert any(name.startswith('policy/network') for name in renamed)
    assert 'algo/algo/collector/rollouts' in renamed


def test_evaluation_changes_no_variable_of_the_training(graph):
    built = graph()
    built.restart()
    built.train()
    before = {name: v.numpy() for name, v in built.variables.items()}
    results = built.eval()
    assert results['episodes'] == 2
    for name, variable in built.variables.items():
        np.testing.assert_array_equal(variable, before[name], err_msg=name)


def test_unknown_algorithm_suggests(graph):
    with pytest.raises(errors.ConfigError, match="did you mean 'ppo'"):
        graph(algorithm='pppo')
