"""From environments to the graph to the loop, in three rooms.

    envs    what runs environments: workers, the batch, what they say
    graph   what a graph is made of, and `simulate()` that steps it
    runs    the loop of phases, and what a run leaves behind

Only some of these need TensorFlow, and it is imported with the first of them.
"""

from typing import TYPE_CHECKING

from agents import lazy

if TYPE_CHECKING:  # The same names, for editors and checkers of types.
    from agents.tools import nested as nested
    from agents.tools.attr_dict import AttrDict as AttrDict
    from agents.tools.envs import wrappers as wrappers
    from agents.tools.envs.batch_env import BatchEnv as BatchEnv
    from agents.tools.envs.external_process import (
        ExternalProcess as ExternalProcess,
    )
    from agents.tools.envs.mock_environment import (
        MockEnvironment as MockEnvironment,
    )
    from agents.tools.envs.parallel_games import ParallelGames as ParallelGames
    from agents.tools.envs.vector_slice import VectorSlice as VectorSlice
    from agents.tools.errors import Cancelled as Cancelled
    from agents.tools.errors import ConfigError as ConfigError
    from agents.tools.errors import EnvError as EnvError
    from agents.tools.errors import UserError as UserError
    from agents.tools.graph import programs as programs
    from agents.tools.graph import random as random
    from agents.tools.graph.backend import keras as keras
    from agents.tools.graph.backend import tf as tf
    from agents.tools.graph.in_graph_batch_env import (
        InGraphBatchEnv as InGraphBatchEnv,
    )
    from agents.tools.graph.in_graph_env import InGraphEnv as InGraphEnv
    from agents.tools.graph.mock_algorithm import MockAlgorithm as MockAlgorithm
    from agents.tools.graph.simulation import simulate as simulate
    from agents.tools.graph.streaming_mean import StreamingMean as StreamingMean
    from agents.tools.graph.weights import count_weights as count_weights
    from agents.tools.runs.loop import Loop as Loop
    from agents.tools.transition import Transition as Transition
else:
    __getattr__, __dir__ = lazy.exports(
        __name__,
        {
            'AttrDict': 'attr_dict',
            'BatchEnv': 'envs.batch_env',
            'Cancelled': 'errors',
            'ConfigError': 'errors',
            'EnvError': 'errors',
            'ExternalProcess': 'envs.external_process',
            'InGraphBatchEnv': 'graph.in_graph_batch_env',
            'InGraphEnv': 'graph.in_graph_env',
            'Loop': 'runs.loop',
            'MockAlgorithm': 'graph.mock_algorithm',
            'MockEnvironment': 'envs.mock_environment',
            'ParallelGames': 'envs.parallel_games',
            'StreamingMean': 'graph.streaming_mean',
            'Transition': 'transition',
            'UserError': 'errors',
            'VectorSlice': 'envs.vector_slice',
            'count_weights': 'graph.weights',
            'nested': 'nested',
            'programs': 'graph.programs',
            'random': 'graph.random',
            'keras': 'graph.backend',
            'simulate': 'graph.simulation',
            'tf': 'graph.backend',
            'wrappers': 'envs.wrappers',
        },
    )
