from agents.algorithms.trpo.trpo import TRPO

__all__ = ['TRPO']
