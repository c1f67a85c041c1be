"""Algorithms by the name that a configuration gives them.

A new one is a folder and a line here; one of a user's is a class that a config
has in place of a name.
"""

import importlib
from typing import Any

from agents.tools import errors

ALGORITHMS = {
    'ppo': 'PPO',
    'reinforce': 'REINFORCE',
    'trpo': 'TRPO',
    'acktr': 'ACKTR',
    'behaviour_cloning': 'BehaviourCloning',
}


def find(name: str) -> type:
    """The class of an algorithm, from the folder of its name."""
    errors.require_known('algorithm', name, ALGORITHMS)
    module = importlib.import_module(f'agents.algorithms.{name}')
    return getattr(module, ALGORITHMS[name])


def define(networks: Any, task: Any) -> Any:
    """Make the algorithm of a task, for several ranks as it says."""
    if task.ranks.size > 1 and task.config.distribute == 'gather':
        gathering = importlib.import_module('agents.algorithms.gathering')
        return gathering.define(_define, networks, task)
    return _define(networks, task)


def _define(networks: Any, task: Any) -> Any:
    """Make the algorithm of a task, with rewards from where it says."""
    given = task.config.algorithm
    kind = given if callable(given) else find(given)
    if task.config.rewards == 'environment':
        return kind(networks, task)
    gail = importlib.import_module('agents.algorithms.gail')
    return gail.GAIL(kind, networks, task)
