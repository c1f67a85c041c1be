"""Behaviour cloning."""

from typing import Any

from agents.algorithms import pieces
from agents.algorithms.actor import Actor
from agents.algorithms.algorithm import Algorithm, Networks, Task
from agents.parts.cloning import Cloner
from agents.parts.expert import Expert
from agents.tools.graph import random
from agents.tools.graph.backend import compile_unless_conv, tf
from agents.tools.nested import Nest


class BehaviourCloning(Algorithm):
    """Learns to act as demonstrated; steps in the environments are for the score only."""

    def __init__(self, networks: Networks, task: Task):
        super().__init__()
        config = task.config
        self.policy = pieces.define_policy(networks, task)
        self.convolutional = self.policy.convolutional
        self._expert = Expert(config, task.observ_space, task.action_space)
        self._cloner = Cloner(
            self.policy,
            self._expert,
            pieces.define_optimizer(self.policy.weights, task),
            config.clone_batch_size,
        )
        self._actor = Actor(self.policy, task.num_agents)
        self._config = config
        seed = random.seed_of(config.seed, task.ranks.rank)
        self._seed = tf.Variable(seed, trainable=False)
        self._updates = tf.Variable(0, trainable=False)

    def begin_episode(self, begins: tf.Tensor) -> None:
        self._actor.begin_episode(begins)

    def perform(self, observ: Nest) -> tf.Tensor:
        return self._actor.perform(observ)

    def update(self) -> dict[str, tf.Tensor]:
        return self._update()

    def failure(self) -> Exception | None:
        return self._cloner.optimizer.failure()

    def summary(self) -> dict[str, tf.Tensor]:
        return self._cloner.optimizer.summary('policy')

    def saved(self) -> dict[str, Any]:
        return {'optimizer': self._cloner.optimizer, 'updates': self._updates}

    @compile_unless_conv
    def _update(self) -> dict[str, tf.Tensor]:
        count = self._config.clone_steps
        # Statistics of what is shown change once.
        self.policy.update_statistics(self._expert.read().observ, self._updates == 0)
        key = random.key(self._seed, 'clone', self._updates * count)
        self._updates.assign_add(1)
        means = self._cloner.update(key, count)
        return {
            'policy_loss': means['loss'],
            'policy_gradient_norm': means['gradient_norm'],
            'skipped': tf.cast(self._cloner.optimizer.skipped, tf.float32),
        }
