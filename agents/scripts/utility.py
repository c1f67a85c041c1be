"""Parts of a training, to build one's own from them."""

from agents.training.simulation_graph import (
    SimulationGraph,
    define_batch_env,
    define_native_batch_envs,
    define_simulation_graph,
)
from agents.training.storage import define_saver, load_spaces, save_spaces

__all__ = [
    'SimulationGraph',
    'define_batch_env',
    'define_native_batch_envs',
    'define_saver',
    'define_simulation_graph',
    'load_spaces',
    'save_spaces',
]
