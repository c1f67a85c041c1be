"""Training on several ranks where only the first one learns.

Each rank acts by its copy of the networks and sends its rollout to the first rank, which learns
from all of them as if it had all agents itself and sends the networks back. Works with any
algorithm.
"""

from collections.abc import Callable
from typing import Any

from agents.algorithms import pieces
from agents.algorithms.algorithm import Algorithm, Networks, Task, Wrapper
from agents.algorithms.collector import Collecting, Collector
from agents.parts.policy import Policy
from agents.parts.record import Rollout
from agents.parts.sequences import Network
from agents.tools import nested
from agents.tools.graph import state, weights
from agents.tools.graph.backend import compiled, tf
from agents.tools.graph.communicator import ALONE, Communicator


def define(
    define_algorithm: Callable[[Networks, Task], Algorithm], networks: Networks, task: Task
) -> Algorithm:
    """Make the algorithm of this rank: the learner, or an actor for it.

    Args:
        define_algorithm: Function that makes the algorithm of networks and a task.
        networks: Networks of the algorithm.
        task: Task of this rank, with its own number of agents and the settings of all ranks.
    """
    if task.ranks.rank:
        return Follower(networks, task)
    count = task.num_agents * task.ranks.size
    whole = task._replace(
        num_agents=count,
        config=task.config.copy(num_agents=count),
        ranks=ALONE,
        collect=lambda policy, value_network, _: GatheringCollector(policy, value_network, task),
    )
    return Leader(define_algorithm(networks, whole), task.ranks)


class GatheringCollector(Collector):
    """Acts for the agents of a rank; the first rank gets the rollouts of all.

    Args:
        policy: Policy to act by.
        value_network: Network that predicts returns.
        task: Spaces, number of agents and settings of this rank.
    """

    def __init__(self, policy: Policy, value_network: Network, task: Task):
        super().__init__(policy, value_network, task)
        self._ranks = task.ranks
        self._whole: Any = None
        if self._ranks.rank == 0:
            count = task.ranks.size
            mine = super().last()
            self._whole = state.variables(_join([mine] * count))

    def take(self) -> Rollout:
        mine = super().take()
        every = self._ranks.gather(mine, root=0)
        if not every:
            return mine
        whole = _join(every)
        state.assign(self._whole, whole)
        return whole

    def last(self) -> Rollout:
        return state.read(self._whole)

    def is_finite(self) -> tf.Tensor:
        return ~self._ranks.any(~super().is_finite())


class Leader(Wrapper):
    """First rank, which learns.

    Args:
        algorithm: Algorithm that learns from the rollouts of all ranks.
        ranks: All ranks.
    """

    def __init__(self, algorithm: Algorithm, ranks: Communicator):
        super().__init__()
        self.algorithm = algorithm
        self.policy = algorithm.policy
        value_network = _find_on_policy(algorithm).value_network
        self._sharing = _Sharing(self.policy, value_network, ranks)

    def update(self) -> dict[str, tf.Tensor]:
        metrics = self.algorithm.update()
        self._sharing.share(self.algorithm.is_finite())
        return metrics

    def per_agent_variables(self) -> list[Any]:
        # What else is known of agents is known of all of them here.
        return _find_on_policy(self.algorithm).collector.per_agent_variables()

    def variables_of_all_agents(self) -> list[Any]:
        return self.algorithm.per_agent_variables()


class Follower(Collecting):
    """Rank that acts by the networks that the first one has learnt.

    Args:
        networks: Networks of the algorithm.
        task: Spaces, number of agents and settings of this rank.
    """

    def __init__(self, networks: Networks, task: Task):
        super().__init__()
        self.policy = pieces.define_policy(networks, task)
        self.convolutional = networks.are_convolutional
        self.collector = GatheringCollector(self.policy, networks.value, task)
        self._sharing = _Sharing(self.policy, networks.value, task.ranks)
        self._sound = tf.Variable(True, trainable=False)

    def update(self) -> dict[str, tf.Tensor]:
        self._send_record()
        self._sound.assign(self._sharing.share(tf.constant(True)))
        return {}

    def is_finite(self) -> tf.Tensor:
        return self._sound.read_value()

    def failure(self) -> Exception | None:
        return None if self._sound else self.describe_record()

    def saved(self) -> dict[str, Any]:
        return {'collector': self.collector}

    def per_agent_variables(self) -> list[Any]:
        return self.collector.per_agent_variables()

    @compiled
    def _send_record(self) -> None:
        """Take part in the collective operations of the first rank, in its order."""
        self.collector.is_finite()
        self.collector.take()


class _Sharing:
    """Copies the policy and the value network of the first rank to all.

    No module, as the networks belong to the algorithm.
    """

    def __init__(self, policy: Policy, value_network: Network, ranks: Communicator):
        self._variables = weights.named_variables({'policy': policy, 'value': value_network})
        self._ranks = ranks

    @compiled
    def share(self, sound: tf.Tensor) -> tf.Tensor:
        """Share the networks, and whether the first rank has learnt."""
        mine = state.read(self._variables), sound
        values, sound = self._ranks.broadcast(mine)
        state.assign(self._variables, values)
        return sound


def _find_on_policy(algorithm: Any) -> Any:
    """Return the algorithm that has a collector, or the one that it is wrapped in."""
    while not hasattr(algorithm, 'collector'):
        algorithm = algorithm.algorithm
    return algorithm


def _join(rollouts: list[Rollout]) -> Rollout:
    """Concatenate the agents of several rollouts."""
    states = [rollout.state for rollout in rollouts]
    rest = [rollout._replace(state=()) for rollout in rollouts]
    joined = nested.map(lambda *parts: tf.concat(parts, 1), *rest)
    return joined._replace(state=nested.map(lambda *parts: tf.concat(parts, 0), *states))
