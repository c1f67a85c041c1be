"""From environments to the graph to the loop, in three rooms.

    envs    what runs environments: workers, the batch, what they say
    graph   what a graph is made of, and `simulate()` that steps it
    runs    the loop of phases, and what a run leaves behind

Only some of these need TensorFlow, and it is imported with the first of them.
"""

from agents import lazy

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
