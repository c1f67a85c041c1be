"""The algorithm that does nothing."""

import gymnasium as gym
import pytest

from agents.tools.batch.batch_env import BatchEnv
from agents.tools.batch.mock_environment import MockEnvironment
from agents.tools.graph.backend import tf
from agents.tools.graph.in_graph_batch_env import InGraphBatchEnv
from agents.tools.graph.mock_algorithm import MockAlgorithm


@pytest.mark.parametrize(
    'env, shape, dtype',
    [
        (MockEnvironment(action_shape=(2, 3)), (2, 2, 3), tf.float32),
        (gym.make('CartPole-v1'), (2,), tf.int32),
    ],
)
def test_performs_zeros_that_environments_accept(env, shape, dtype):
    batch_env = InGraphBatchEnv(BatchEnv([env, env]))
    batch_env.reset()
    action = MockAlgorithm(batch_env).perform(batch_env.observ)
    assert action.shape == shape
    assert action.dtype == dtype
    assert not action.numpy().any()
    batch_env.simulate(action)


def test_each_call_is_counted():
    batch_env = InGraphBatchEnv(BatchEnv([MockEnvironment()]))
    batch_env.reset()
    algo = MockAlgorithm(batch_env)
    functions = {
        'begin_episode': [batch_env.begins],
        'perform': [batch_env.observ],
        'experience': [batch_env.observ, None, batch_env.transition],
        'end_episode': [batch_env.done],
        'update': [],
    }
    assert set(algo.calls) == set(functions)
    for times, (name, arguments) in enumerate(functions.items(), 1):
        for _ in range(times):
            getattr(algo, name)(*arguments)
    counts = {name: int(count) for name, count in algo.calls.items()}
    assert counts == dict(zip(functions, range(1, 6)))
    assert set(map(id, algo.variables)) == set(map(id, algo.calls.values()))
