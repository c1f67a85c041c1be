from agents.algorithms.reinforce.reinforce import REINFORCE

__all__ = ['REINFORCE']
