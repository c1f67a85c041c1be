"""Ranks of which the first one learns from the rollouts of all.

Each acts by its copy of the policy, and sends what came of it to the first,
which learns from it as if it had all agents itself and sends back the policy.
The algorithm is whichever there is, and does not know.
"""

import functools
from collections.abc import Callable
from typing import Any

from agents.algorithms import pieces
from agents.algorithms.algorithm import Algorithm, Networks, Task, Wrapper
from agents.algorithms.collector import Collecting, Collector
from agents.parts.policy import Policy
from agents.parts.record import Record
from agents.tools import errors, nested
from agents.tools.graph import state, weights
from agents.tools.graph.backend import compiled, tf
from agents.tools.graph.communicator import ALONE, Communicator


def define(
    define_algorithm: Callable[[Networks, Task], Algorithm], networks: Networks, task: Task
) -> Algorithm:
    """Make what this rank is: the one that learns, or one that acts for it.

    Args:
        define_algorithm: Makes the algorithm of networks and a task.
        networks: Its networks.
        task: What this rank is to do, with its own number of agents and with
            settings for all of them.
    """
    if task.ranks.rank:
        return Follower(networks, task)
    count = task.num_agents * task.ranks.size
    whole = task._replace(
        num_agents=count,
        config=task.config.copy(num_agents=count),
        ranks=ALONE,
        collect=functools.partial(GatheringCollector, task=task),
    )
    return Leader(define_algorithm(networks, whole), task.ranks)


class GatheringCollector(Collector):
    """Acts for the agents of a rank; the first one gets the records of all.

    Args:
        policy: The policy.
        task: What this rank is to do.
    """

    def __init__(self, policy: Policy, task: Task):
        super().__init__(policy, task)
        self._ranks = task.ranks
        self._whole: Any = None
        if self._ranks.rank == 0:
            count = task.ranks.size
            mine = super().last()
            self._whole = state.variables(_join([mine] * count))

    def take(self) -> Record:
        mine = super().take()
        every = self._ranks.gather(mine, root=0)
        if not every:
            return mine
        whole = _join(every)
        state.assign(self._whole, whole)
        return whole

    def last(self) -> Record:
        return state.read(self._whole)

    def is_sound(self) -> tf.Tensor:
        return ~self._ranks.any(~super().is_sound())


class Leader(Wrapper):
    """The first rank, which learns.

    Args:
        algorithm: Learns from what its collector has gathered.
        ranks: All ranks.
    """

    def __init__(self, algorithm: Algorithm, ranks: Communicator):
        super().__init__()
        self.algorithm = algorithm
        self.policy = algorithm.policy
        self._sharing = _Sharing(self.policy, ranks)

    def update(self) -> dict[str, tf.Tensor]:
        metrics = self.algorithm.update()
        self._sharing.share(self.algorithm.is_sound())
        return metrics

    def of_agents(self) -> list[Any]:
        # What else is known of agents is known of all of them here.
        return _find_collector(self.algorithm).of_agents()

    def of_all_agents(self) -> list[Any]:
        return self.algorithm.of_agents()


class Follower(Collecting):
    """A rank that acts by the policy that the first one has learnt.

    Args:
        networks: The networks of the algorithm, of which it needs the policy.
        task: What this rank is to do.
    """

    def __init__(self, networks: Networks, task: Task):
        super().__init__()
        self.policy = pieces.define_policy(networks, task)
        self.convolutional = self.policy.convolutional
        self.collector = GatheringCollector(self.policy, task)
        self._sharing = _Sharing(self.policy, task.ranks)
        self._sound = tf.Variable(True, trainable=False)

    def update(self) -> dict[str, tf.Tensor]:
        self._send_record()
        self._sound.assign(self._sharing.share(tf.constant(True)))
        return {}

    def is_sound(self) -> tf.Tensor:
        return self._sound.read_value()

    def failure(self) -> Exception | None:
        if self._sound:
            return None
        return self.collector.failure() or errors.ElsewhereError(
            'What another rank has recorded cannot be learnt from.'
        )

    def saved(self) -> dict[str, Any]:
        return {'collector': self.collector}

    def of_agents(self) -> list[Any]:
        return self.collector.of_agents()

    @compiled
    def _send_record(self) -> None:
        """Tell the first rank, in the order in which it asks."""
        self.collector.is_sound()
        self.collector.take()


class _Sharing:
    """Lets all ranks have the policy of the first.

    No module, as the policy belongs to who has this.
    """

    def __init__(self, policy: Policy, ranks: Communicator):
        self._variables = weights.named_variables(policy)
        self._ranks = ranks

    @compiled
    def share(self, sound: tf.Tensor) -> tf.Tensor:
        """Share the policy, and whether it has learnt."""
        mine = state.read(self._variables), sound
        values, sound = self._ranks.broadcast(mine)
        state.assign(self._variables, values)
        return sound


def _find_collector(algorithm: Any) -> Collector:
    """The collector of an algorithm, or of the one that it is around."""
    while not hasattr(algorithm, 'collector'):
        algorithm = algorithm.algorithm
    return algorithm.collector


def _join(records: list[Record]) -> Record:
    """Put the agents of several records into one."""
    states = [record.state for record in records]
    rest = [record._replace(state=()) for record in records]
    joined = nested.map(lambda *parts: tf.concat(parts, 1), *rest)
    return joined._replace(state=nested.map(lambda *parts: tf.concat(parts, 0), *states))
