from agents.algorithms.gail.gail import GAIL

__all__ = ['GAIL']
