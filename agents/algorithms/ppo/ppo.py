"""Proximal policy optimization."""

from agents.algorithms import pieces
from agents.algorithms.algorithm import Networks, Task
from agents.algorithms.on_policy import OnPolicy
from agents.algorithms.ppo.joint_learner import define_joint_parts
from agents.algorithms.ppo.proximal_learner import ProximalLearner
from agents.config import sizes
from agents.parts import sequences


class PPO(OnPolicy):
    """Takes several gradient steps on a rollout without straying far from it.

    See the README beside this file for the paper and the deviations from it,
    and `agents.algorithms.on_policy` for how the rollout comes about.
    """

    def __init__(self, networks: Networks, task: Task):
        config = task.config
        recurrent = any(map(sequences.is_recurrent, networks))
        sizes.require_minibatches(config, recurrent)
        policy = pieces.define_policy(networks, task)
        if networks.encoder is not None:
            parts = define_joint_parts(policy, networks, task)
            super().__init__(policy, *parts, task)
            return
        optimizer = pieces.define_optimizer(policy.weights, task, in_epochs=True)
        critic = pieces.define_critic(networks, task, config.batch_size, config.update_epochs)
        learner = ProximalLearner(policy, optimizer, task)
        super().__init__(policy, learner, critic, task)
