"""An algorithm of one's own, complete: advantage actor-critic.

    agents train --config=examples/actor_critic.py:cartpole

Mnih et al. 2016, Asynchronous methods for deep reinforcement learning, in
batches and without the asynchrony. Made of `agents.parts` and explained in
docs/own_algorithm.md.
"""

from agents import configs
from agents.algorithms import pieces
from agents.algorithms.algorithm import Algorithm
from agents.parts import distributions, returns, sequences
from agents.parts.record import Recorder
from agents.tools import errors, random, tf
from agents.tools.graph.backend import compiled


class ActorCritic(Algorithm):
    """Takes one step of policy and value on each rollout."""

    def __init__(self, networks, task):
        super().__init__()
        if any(map(sequences.is_recurrent, networks)) or networks.encoder:
            raise errors.ConfigError('ActorCritic needs network=feed_forward and no images.')
        self.policy = pieces.define_policy(networks, task)
        self._value = networks.value
        weights = [*self.policy.weights, *networks.value.trainable_variables]
        self._optimizer = pieces.define_optimizer(weights, task)
        spaces = task.observ_space, task.action_space
        steps = task.config.update_every
        self._recorder = Recorder(*spaces, steps, task.num_agents, before=())
        self._draws = tf.Variable(0, trainable=False)
        self._seed = random.seed_of(task.config.seed, task.ranks.rank)
        self._config, self._ranks = task.config, task.ranks

    def perform(self, observ):
        distribution, _ = self.policy.step(observ, ())
        key = random.key(self._seed, 'action', self._draws)
        self._draws.assign_add(1)
        action = distribution.sample(key)
        return distributions.unflatten(self.policy.action_space, action)

    def experience(self, observ, action, transition):
        action = distributions.flatten(self.policy.action_space, action)
        self._recorder.append(observ, action, transition)

    @compiled
    def update(self):
        record = self._recorder.take(())
        inputs = self.policy.prepare(record.observ)
        after = self.policy.prepare(record.next_observ)
        value = self._predict(inputs)
        advantage = returns.lambda_advantage(
            record.reward,
            value,
            self._predict(after),
            record.terminated,
            record.done,
            self._config.discount,
            self._config.gae_lambda,
        )
        steps = {
            'inputs': inputs,
            'action': record.action,
            'begins': record.begins,
            'advantage': returns.normalized(advantage, self._ranks),
            'returns': value + advantage,
        }
        metrics = self._optimizer.minimize(self._loss, steps)
        self.policy.adapt(record.observ)  # The statistics of observations.
        return metrics

    def restart(self):
        self._recorder.restart()

    def failure(self):
        return self._optimizer.failure()

    def of_agents(self):
        return [self._recorder.of_agents()]

    def saved(self):
        return {'recorder': self._recorder, 'value': self._value, 'optimizer': self._optimizer}

    def _loss(self, steps):
        policy = self.policy.unroll(steps['inputs'], steps['begins'], ())
        score = policy.log_prob(steps['action']) * steps['advantage']
        error = (steps['returns'] - self._predict(steps['inputs'])) ** 2
        entropy = tf.reduce_mean(policy.entropy())
        bonus = self._config.entropy_bonus * entropy
        loss = 0.5 * tf.reduce_mean(error) - tf.reduce_mean(score) - bonus
        return {'loss': loss, 'entropy': entropy}

    def _predict(self, inputs):
        value, _ = sequences.step_all(self._value, inputs.visible, ())
        return value[..., 0]


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
