"""Algorithms by the name that a configuration gives them.

A new one is a folder and a line here.
"""

import importlib

from agents.tools import errors

ALGORITHMS = {
    'acktr': 'ACKTR',
    'ppo': 'PPO',
    'reinforce': 'REINFORCE',
    'trpo': 'TRPO',
}


def find(name: str) -> type:
    """The class of an algorithm, from the folder of its name."""
    errors.require_known('algorithm', name, ALGORITHMS)
    module = importlib.import_module(f'agents.algorithms.{name}')
    return getattr(module, ALGORITHMS[name])
