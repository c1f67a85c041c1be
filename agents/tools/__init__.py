"""From environments to the graph to the loop, in rooms.

    batch     a batch of environments that is stepped as one, and wrappers
    workers   environments in processes of their own
    vector    environments that are a batch themselves
    checking  environments held against the contract of Gymnasium
    graph     a batch in the graph, and `simulate()` that steps it
    runs      the loop of training and evaluation, and the files of a run

Only some of these need TensorFlow, and it is imported with the first of them.
"""

from typing import TYPE_CHECKING

from agents import lazy

if TYPE_CHECKING:  # The same names, for editors and checkers of types.
    from agents.tools import nested as nested
    from agents.tools.attr_dict import AttrDict as AttrDict
    from agents.tools.batch import wrappers as wrappers
    from agents.tools.batch.batch_env import BatchEnv as BatchEnv
    from agents.tools.batch.mock_environment import MockEnvironment as MockEnvironment
    from agents.tools.errors import Cancelled as Cancelled
    from agents.tools.errors import ConfigError as ConfigError
    from agents.tools.errors import EnvError as EnvError
    from agents.tools.errors import UserError as UserError
    from agents.tools.graph import programs as programs
    from agents.tools.graph import random as random
    from agents.tools.graph.backend import keras as keras
    from agents.tools.graph.backend import tf as tf
    from agents.tools.graph.in_graph_batch_env import InGraphBatchEnv as InGraphBatchEnv
    from agents.tools.graph.in_graph_env import InGraphEnv as InGraphEnv
    from agents.tools.graph.mock_algorithm import MockAlgorithm as MockAlgorithm
    from agents.tools.graph.simulation import simulate as simulate
    from agents.tools.graph.streaming_mean import StreamingMean as StreamingMean
    from agents.tools.graph.weights import count_weights as count_weights
    from agents.tools.runs.loop import Loop as Loop
    from agents.tools.transition import Transition as Transition
    from agents.tools.vector.parallel_games import ParallelGames as ParallelGames
    from agents.tools.vector.vector_slice import VectorSlice as VectorSlice
    from agents.tools.workers.external_process import ExternalProcess as ExternalProcess
else:
    __getattr__, __dir__ = lazy.exports(
        __name__,
        {
            'AttrDict': 'attr_dict',
            'BatchEnv': 'batch.batch_env',
            'Cancelled': 'errors',
            'ConfigError': 'errors',
            'EnvError': 'errors',
            'ExternalProcess': 'workers.external_process',
            'InGraphBatchEnv': 'graph.in_graph_batch_env',
            'InGraphEnv': 'graph.in_graph_env',
            'Loop': 'runs.loop',
            'MockAlgorithm': 'graph.mock_algorithm',
            'MockEnvironment': 'batch.mock_environment',
            'ParallelGames': 'vector.parallel_games',
            'StreamingMean': 'graph.streaming_mean',
            'Transition': 'transition',
            'UserError': 'errors',
            'VectorSlice': 'vector.vector_slice',
            'count_weights': 'graph.weights',
            'nested': 'nested',
            'programs': 'graph.programs',
            'random': 'graph.random',
            'keras': 'graph.backend',
            'simulate': 'graph.simulation',
            'tf': 'graph.backend',
            'wrappers': 'batch.wrappers',
        },
    )
