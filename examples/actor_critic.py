"""An algorithm of one's own, complete: advantage actor-critic.

    agents train --config=examples/actor_critic.py:cartpole

Mnih et al. 2016, Asynchronous methods for deep reinforcement learning, in
batches and without the asynchrony. Made of `agents.parts` and explained in
docs/own_algorithm.md.
"""

from agents import configs
from agents.algorithms import pieces
from agents.algorithms.algorithm import Algorithm
from agents.algorithms.collector import Collector
from agents.parts import returns, sequences
from agents.tools import errors, tf
from agents.tools.graph.backend import compiled


class ActorCritic(Algorithm):
    """Takes one step of policy and value on each rollout."""

    def __init__(self, networks, task):
        super().__init__()
        if any(map(sequences.is_recurrent, networks)) or networks.encoder:
            raise errors.ConfigError('ActorCritic needs network=feed_forward and no images.')
        self.policy = pieces.define_policy(networks, task)
        self._value = networks.value
        self._collector = Collector(self.policy, networks.value, task)
        weights = [*self.policy.weights, *networks.value.trainable_variables]
        self._optimizer = pieces.define_optimizer(weights, task)
        self._config, self._ranks = task.config, task.ranks

    def perform(self, observ):
        return self._collector.perform(observ)

    def experience(self, observ, action, transition):
        self._collector.experience(observ, action, transition)

    @compiled
    def update(self):
        rollout = self._collector.take()
        _, value, cut_value = rollout.predictions
        advantage = returns.lambda_advantage(
            rollout.reward,
            value,
            returns.successor_value(value, cut_value, rollout.done),
            rollout.terminated,
            rollout.done,
            self._config.discount,
            self._config.gae_lambda,
        )
        steps = {
            'inputs': self.policy.normalize(rollout.observ),
            'action': rollout.action,
            'begins': rollout.begins,
            'advantage': returns.normalized(advantage, self._ranks),
            'returns': value + advantage,
        }
        metrics = self._optimizer.minimize(self._loss, steps)
        self.policy.update_statistics(rollout.observ)  # The statistics of observations.
        return metrics

    def restart(self):
        self._collector.restart()

    def failure(self):
        return self._optimizer.failure()

    def per_agent_variables(self):
        return self._collector.per_agent_variables()

    def saved(self):
        return {'collector': self._collector, 'value': self._value, 'optimizer': self._optimizer}

    def _loss(self, steps):
        policy = self.policy.unroll(steps['inputs'], steps['begins'], ())
        score = policy.log_prob(steps['action']) * steps['advantage']
        value, _ = sequences.step_all(self._value, steps['inputs'].visible, ())
        error = (steps['returns'] - value[..., 0]) ** 2
        entropy = tf.reduce_mean(policy.entropy())
        bonus = self._config.entropy_bonus * entropy
        loss = 0.5 * tf.reduce_mean(error) - tf.reduce_mean(score) - bonus
        return {'loss': loss, 'entropy': entropy}


def cartpole():
    return configs.reinforce(
        algorithm=ActorCritic,
        env='native:CartPole-v1',
        max_length=500,
        num_agents=16,
        steps=300_000,
        update_every=16,
        eval_every=60_000,
        discount=0.98,
        learning_rate=3e-3,
        learning_rate_schedule='linear',
    )
