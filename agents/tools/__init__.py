"""From environments to the graph to the loop; see the README's map.

Only some of these need TensorFlow, and it is imported with the first of them.
"""

from agents import lazy

__getattr__, __dir__ = lazy.exports(
    __name__,
    {
        'AttrDict': 'attr_dict',
        'BatchEnv': 'batch_env',
        'Cancelled': 'errors',
        'ConfigError': 'errors',
        'EnvError': 'errors',
        'ExternalProcess': 'external_process',
        'InGraphBatchEnv': 'in_graph_batch_env',
        'InGraphEnv': 'in_graph_env',
        'Loop': 'loop',
        'MockAlgorithm': 'mock_algorithm',
        'MockEnvironment': 'mock_environment',
        'StreamingMean': 'streaming_mean',
        'Transition': 'transition',
        'UserError': 'errors',
        'count_weights': 'weights',
        'nested': 'nested',
        'programs': 'programs',
        'simulate': 'simulation',
        'wrappers': 'wrappers',
    },
)
