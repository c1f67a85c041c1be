from agents.algorithms.acktr.acktr import ACKTR

__all__ = ['ACKTR']
