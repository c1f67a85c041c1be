"""Names that users import, where they look for them."""

import importlib

import pytest

NAMES = {
    'agents': [
        *['train', 'load', 'check', 'evaluate', 'results', 'plot'],
        *['visualize', 'record', 'sweep', 'export', 'configs', 'callbacks'],
    ],
    'agents.tools': [
        *['AttrDict', 'BatchEnv', 'count_weights', 'ExternalProcess'],
        *['InGraphBatchEnv', 'InGraphEnv', 'Loop', 'MockAlgorithm'],
        *['MockEnvironment', 'nested', 'simulate', 'StreamingMean'],
        'wrappers',
    ],
    'agents.tools.wrappers': ['ExternalProcess'],
    'agents.scripts.configs': ['pendulum', 'debug', 'ppo'],
    'agents.scripts.networks': ['feed_forward', 'recurrent', 'compose'],
    'agents.scripts.train': ['main'],
    'agents.scripts.visualize': ['main'],
    'agents.scripts.utility': [*['define_batch_env', 'define_simulation_graph', 'define_saver']],
    'agents.algorithms.ppo': ['PPO'],
}


@pytest.mark.parametrize('home', NAMES)
def test_names_are_where_users_look_for_them(home):
    package, _, last = home.rpartition('.')
    try:
        module = importlib.import_module(home)
    except ModuleNotFoundError:  # A name of a package that is a module.
        module = getattr(importlib.import_module(package), last)
    assert [n for n in NAMES[home] if not hasattr(module, n)] == []
