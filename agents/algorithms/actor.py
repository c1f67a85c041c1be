"""Agents that act without learning."""

from agents.algorithms.algorithm import Algorithm
from agents.parts import distributions, sequences
from agents.parts.policy import Policy
from agents.tools.graph import state
from agents.tools.graph.backend import tf
from agents.tools.nested import Nest


class Actor(Algorithm):
    """Performs the most probable action, for evaluation and after training.

    Has a recurrent state of its own, so that evaluations do not disturb training.

    Args:
        policy: Policy to act by, shared with the algorithm that trains it.
        num_agents: Number of agents.
    """

    def __init__(self, policy: Policy, num_agents: int):
        super().__init__()
        self.convolutional = policy.convolutional
        self._policy = policy
        self._state = state.variables(sequences.zero_state(policy.network, num_agents))

    def begin_episode(self, begins: tf.Tensor) -> None:
        state.assign(self._state, sequences.forget(self._state, begins))

    def perform(self, observ: Nest) -> tf.Tensor:
        distribution, new = self._policy.step(observ, state.read(self._state))
        state.assign(self._state, new)
        return distributions.unflatten(self._policy.action_space, distribution.mode)
