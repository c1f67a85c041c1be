"""The pieces that most algorithms are put together from, for a task."""

from collections.abc import Sequence
from typing import Any

from agents.algorithms.algorithm import Networks, Task
from agents.parts import adam, policy
from agents.parts.adam import Adam
from agents.parts.critic import Critic
from agents.parts.policy import Policy
from agents.tools.graph.backend import tf


def define_policy(networks: Networks, task: Task) -> Policy:
    """Make the policy."""
    return policy.define(
        networks.policy,
        task.observ_space,
        task.action_space,
        task.config,
        task.ranks,
        networks.encoder,
    )


def define_optimizer(weights: Sequence[Any], task: Task, in_epochs: bool = False) -> Adam:
    """Make the optimizer of the weights of a policy, and maybe others.

    Args:
        weights: The weights.
        task: What the algorithm is made for.
        in_epochs: Whether it goes through a rollout in epochs.
    """
    return adam.define(
        weights,
        task.config.learning_rate,
        task.config,
        task.ranks,
        in_epochs and task.averages_by_epoch,
    )


def define_critic(networks: Networks, task: Task, batch_size: int, epochs: int) -> Critic:
    """Make the critic, on its device.

    Args:
        networks: The networks.
        task: What the algorithm is made for.
        batch_size: Steps of a minibatch.
        epochs: How often to go through a rollout.
    """
    config = task.config
    rate = config.value_learning_rate
    rate = config.learning_rate if rate is None else rate
    with tf.device(task.critic_device):
        return Critic(
            networks.value,
            adam.define(
                networks.value.trainable_variables, rate, config, task.ranks, task.averages_by_epoch
            ),
            task.num_agents,
            batch_size,
            epochs,
            config.value_clip,
            task.ranks,
        )
