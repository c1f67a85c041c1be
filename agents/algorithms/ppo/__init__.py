from agents.algorithms.ppo.ppo import PPO

__all__ = ['PPO']
