"""Builders of the parts that most algorithms have in common."""

from collections.abc import Sequence
from typing import Any

from agents.algorithms.algorithm import Networks, Task
from agents.algorithms.value_learner import ValueLearner
from agents.parts import policy
from agents.parts.optimizer import Adam, define_adam
from agents.parts.policy import Policy
from agents.tools.graph.backend import tf


def define_policy(networks: Networks, task: Task) -> Policy:
    """Make the policy of an algorithm."""
    return policy.define(
        networks.policy,
        task.observ_space,
        task.action_space,
        task.config,
        task.ranks,
        networks.encoder,
    )


def define_optimizer(weights: Sequence[Any], task: Task, in_epochs: bool = False) -> Adam:
    """Make an optimizer with the learning rate of the policy.

    Args:
        weights: Weights of the policy, and of other networks learnt with it.
        task: Spaces, settings and ranks of the algorithm.
        in_epochs: Whether the learner goes through a rollout in epochs.
    """
    return define_adam(
        weights,
        task.config.learning_rate,
        task.config,
        task.ranks,
        in_epochs and task.averages_by_epoch,
    )


def define_value_learner(
    networks: Networks, task: Task, batch_size: int, epochs: int
) -> ValueLearner:
    """Make the learner of the value network, on its device.

    Args:
        networks: Networks of the algorithm.
        task: Spaces, settings and ranks of the algorithm.
        batch_size: Steps of a minibatch.
        epochs: Passes over a rollout.
    """
    config, network = task.config, networks.learnt_value
    rate = config.value_learning_rate
    rate = config.learning_rate if rate is None else rate
    with tf.device(task.value_device):
        adam = define_adam(
            network.trainable_variables, rate, config, task.ranks, task.averages_by_epoch
        )
        return ValueLearner(network, adam, batch_size, epochs, task)
