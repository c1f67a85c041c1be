"""Environments written in TensorFlow, by name.

`env='native:CartPole-v1'` chooses one; a new one is a file and a line here.
"""

import importlib

from agents.tools import errors

ENVIRONMENTS = {
    'CartPole-v1': 'cartpole.CartPole',
    'Pendulum-v1': 'pendulum.Pendulum',
    'Acrobot-v1': 'acrobot.Acrobot',
    'MountainCar-v0': 'mountain_car.MountainCar',
    'MountainCarContinuous-v0': 'mountain_car.MountainCarContinuous',
    'Memory-v0': 'memory.Memory',
    'Catch-v0': 'catch.Catch',
}


def require_known(name: str) -> None:
    errors.require_known('native environment', name, ENVIRONMENTS)


def find(name: str) -> type:
    """Return the class of an environment."""
    require_known(name)
    module, _, kind = ENVIRONMENTS[name].partition('.')
    return getattr(importlib.import_module(f'{__name__}.{module}'), kind)
