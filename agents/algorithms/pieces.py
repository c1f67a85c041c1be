"""The pieces that most algorithms are put together from, for a task."""

from collections.abc import Sequence
from typing import Any

from agents.algorithms.algorithm import Networks, Task
from agents.algorithms.value_learner import ValueLearner
from agents.parts import adam, policy
from agents.parts.adam import Adam
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


def define_value_learner(
    networks: Networks, task: Task, batch_size: int, epochs: int
) -> ValueLearner:
    """Make the learner of the value network, on its device.

    Args:
        networks: Networks of the algorithm.
        task: Spaces, settings and ranks.
        batch_size: Steps of a minibatch.
        epochs: Passes over a rollout.
    """
    config, network = task.config, networks.learnt_value
    rate = config.value_learning_rate
    rate = config.learning_rate if rate is None else rate
    with tf.device(task.value_device):
        optimizer = adam.define(
            network.trainable_variables, rate, config, task.ranks, task.averages_by_epoch
        )
        return ValueLearner(network, optimizer, batch_size, epochs, task)
