from agents.algorithms.behaviour_cloning.behaviour_cloning import BehaviourCloning

__all__ = ['BehaviourCloning']
