"""What algorithms share that learn from rollouts of their own policy."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from agents.algorithms.algorithm import Algorithm
from agents.parts import (
    distributions,
    memory,
    moments,
    normalize,
    policy,
    returns,
    sequences,
    soundness,
)
from agents.parts.critic import Critic, explained_variance
from agents.parts.optimizer import Optimizer
from agents.tools import errors, layout, nested, spaces
from agents.tools.attr_dict import AttrDict
from agents.tools.graph import random, state
from agents.tools.graph.backend import compiled, tf, together
from agents.tools.transition import Transition

# How many steps of a rollout a summary is of.
SUMMARY_STEPS = 4096

# How many gradients in a row may be useless.
MAX_SKIPPED = 20


class Networks(NamedTuple):
    """The two networks of an algorithm; see `agents.scripts.networks`."""

    policy: Any
    value: Any


class Rollout(NamedTuple):
    """A rollout as algorithms learn from it, leaves `[time, agent, ...]`.

    Observations are normalized, rewards have become advantages and returns.
    The scalars are the seed of the run and how many rollouts came before. They
    are part of it because the value may be learnt on another device, which
    cannot read the variables.
    """

    seed: tf.Tensor
    number: tf.Tensor
    observ: Any
    begins: tf.Tensor
    action: tf.Tensor
    value: tf.Tensor
    advantage: tf.Tensor
    returns: tf.Tensor
    lost: tf.Tensor


class OnPolicy(Algorithm):
    """Acts, records a rollout, and hands it to `learn`.

    The horizon is fixed: a rollout has `update_every` steps of every agent,
    and episodes run on across updates. The statistics of the observations
    change only between rollouts, so that acting and learning see the same
    inputs.

    Args:
        networks: Networks for the policy and the value.
        observ_space: Space of the observations.
        action_space: Space of the actions.
        num_agents: Number of agents.
        config: Settings, see `agents.scripts.configs`.
        critic_device: Where the value network is, and the value is learnt, at
            the same time as the policy; None if after it, and where it is.
    """

    def __init__(
        self,
        networks: Networks,
        observ_space: gym.Space,
        action_space: gym.Space,
        num_agents: int,
        config: AttrDict,
        critic_device: str | None = None,
    ):
        super().__init__()
        self.config = config
        self.policy = policy.define(
            networks.policy, observ_space, action_space, config
        )
        self.optimizer = _optimizer(
            networks.policy, config.learning_rate, config
        )
        self.critic_device = critic_device
        with tf.device(critic_device):
            rate = config.value_learning_rate
            rate = config.learning_rate if rate is None else rate
            optimizer = _optimizer(networks.value, rate, config)
            self.critic = Critic(
                networks.value, optimizer, num_agents, config.value_clip
            )
        self.reward_normalizer = normalize.NormalizeReward(
            num_agents,
            config.normalize_reward,
            config.discount,
            config.reward_clip,
        )
        self.memory = memory.RolloutMemory(
            _record_specs(observ_space, action_space),
            config.update_every,
            num_agents,
        )
        self._seed = tf.Variable(config.seed % 2**31, trainable=False)
        # The number of updates so far, and where the rollout that is being
        # recorded, and the one that is learnt from, began with a new episode.
        self._updates = tf.Variable(0, trainable=False)
        everywhere = tf.ones(num_agents, bool)
        self._begins = tf.Variable(everywhere, trainable=False)
        self._first_begins = tf.Variable(everywhere, trainable=False)
        self._counts_actions = spaces.count(action_space) is not None
        # Whether what was recorded can be learnt from.
        self._sound = tf.Variable(True, trainable=False)
        # The recurrent state now, before the rollout that is learnt from, and
        # before the one that is being recorded.
        zero = sequences.zero_state(networks.policy, num_agents)
        self._state = state.variables(zero)
        self._first_state = state.variables(zero)
        self._next_state = state.variables(zero)
        # What the last rollout came to, for the log.
        shape = (config.update_every, num_agents)
        self._log = state.variables(
            {
                name: tf.zeros(shape)
                for name in ('value', 'advantage', 'returns')
            }
        )

    def restart(self) -> None:
        self.memory.clear()
        self._begins.assign(tf.ones_like(self._begins))

    def begin_episode(self, begins: tf.Tensor) -> None:
        state.assign(self._state, sequences.forget(self._state, begins))

    def perform(self, observ: Any) -> tf.Tensor:
        distribution, new = self.policy.step(observ, state.read(self._state))
        state.assign(self._state, new)
        count = self._updates * self.config.update_every + self.memory.length
        action = distribution.sample(random.key(self._seed, 'action', count))
        return distributions.unflatten(self.policy.action_space, action)

    def experience(
        self, observ: Any, action: tf.Tensor, transition: Transition
    ) -> None:
        action = distributions.flatten(self.policy.action_space, action)
        self.memory.append((observ, action, transition))

    def update(self) -> dict[str, tf.Tensor]:
        """Make a rollout of the record, and learn from it."""
        record = self._read_record()
        with tf.device(self.critic_device):
            rollout = self._evaluate(*record)
        metrics = self.learn(rollout)
        return {**metrics, **self._conclude(rollout)}

    def learn(self, rollout: Rollout) -> dict[str, tf.Tensor]:
        """Improve the policy and the critic; returns numbers for the log."""
        raise NotImplementedError

    def learn_both(
        self,
        rollout: Rollout,
        learn_policy: Callable[[Rollout], dict[str, tf.Tensor]],
        batch_size: int,
        epochs: int,
    ) -> dict[str, tf.Tensor]:
        """Improve the policy and the critic at the same time.

        Args:
            rollout: What to learn from.
            learn_policy: Improves the policy; returns its `loss`,
                `gradient_norm`, `skipped` and other numbers for the log.
            batch_size: Steps of a minibatch for the critic.
            epochs: Passes over the rollout for the critic.
        """
        metrics, value = together(
            lambda: learn_policy(rollout),
            lambda: self._learn_value(rollout, batch_size, epochs),
            self.critic_device,
        )
        skipped = metrics.pop('skipped') + value['skipped']
        return {
            'policy_loss': metrics.pop('loss'),
            'value_loss': value['loss'],
            'policy_gradient_norm': metrics.pop('gradient_norm'),
            'value_gradient_norm': value['gradient_norm'],
            'skipped': tf.cast(skipped, tf.float32),
            **metrics,
        }

    def policy_advantage(self, rollout: Rollout) -> tf.Tensor:
        """The advantages by which the policy is improved; zero where lost."""
        if not self.config.normalize_advantage:
            return rollout.advantage
        normalized = returns.normalized(rollout.advantage)
        return tf.where(rollout.lost, 0.0, normalized)

    @compiled
    def _learn_value(
        self, rollout: Rollout, batch_size: int, epochs: int
    ) -> dict[str, tf.Tensor]:
        return self.critic.fit(
            rollout.observ,
            rollout.begins,
            rollout.value,
            rollout.returns,
            batch_size,
            epochs,
            self.key('value', rollout, epochs),
            self.learning_rate_scale(rollout),
        )

    def is_sound(self) -> tf.Tensor:
        return self._sound.read_value()

    def failure(self) -> Exception | None:
        if not self._sound:
            return self._complaint()
        for optimizer in (self.optimizer, self.critic.optimizer):
            if int(optimizer.skipped) >= MAX_SKIPPED:
                return errors.UserError(
                    f'{int(optimizer.skipped)} gradients in a row were not '
                    f'finite, the last at the weight {optimizer.culprit()!r}. '
                    'They have not been applied, but there is no way on. '
                    'Lower the learning rate, or look at the scale of the '
                    'rewards and of what the network computes.'
                )
        return None

    def _complaint(self) -> Exception:
        """What of the rollout cannot be learnt from."""
        observ, action, transition = nested.map(np.asarray, self.memory.data())
        before, after = map(nested.flatten, (observ, transition.next_observ))
        chosen = action
        if self._counts_actions:
            chosen = np.where(action < 0, math.nan, action)
        leaves = [*before, chosen, transition.reward, *after]
        time, number, agent = soundness.first_unsound(leaves)
        if number == len(before):
            return errors.EnvError(
                f'The action {action[time, agent]} for environment {agent} is '
                'none, as what the network puts out is not finite. Nothing was '
                'learnt from it.'
            )
        what = 'reward' if number == len(before) + 1 else 'observation'
        return errors.EnvError(
            f'Environment {agent} returned the {what} '
            f'{leaves[number][time, agent]}, given the action '
            f'{action[time, agent]}. Numbers have to be finite, and so do '
            'their squares in 32 bits. Nothing was learnt from it.'
        )

    def summary(self) -> dict[str, tf.Tensor]:
        """Tensors by name that are worth a histogram.

        The policy is applied to the last rollout once more, so that nothing
        has to be computed, or even compiled, where it is not asked for.
        """
        agents = slice(0, max(1, SUMMARY_STEPS // self.config.update_every))
        record = nested.map(lambda x: x[:, agents], self.memory.data())
        observ, action, transition = record
        observ = self.policy.normalizer.transform(observ)
        begins = tf.concat(
            [self._first_begins[None, agents], transition.done[:-1]], 0
        )
        before = nested.map(lambda x: x[agents], state.read(self._first_state))
        actions = self.policy.unroll(observ, begins, before)
        names = nested.names(observ, 'observ')
        leaves = zip(names, nested.flatten(observ), strict=True)
        return {
            **dict(leaves),
            'action': action,
            'mode': actions.mode,
            'log_prob': actions.log_prob(action),
            'entropy': actions.entropy(),
            'reward': self.reward_normalizer.transform(transition.reward),
            **state.read(self._log),
            'weights/policy': self.optimizer.weights(),
            'weights/value': self.critic.optimizer.weights(),
            'gradients/policy': self.optimizer.gradient(),
            'gradients/value': self.critic.optimizer.gradient(),
        }

    def key(self, purpose: str, rollout: Rollout, draws: int) -> tf.Tensor:
        """A random key for a rollout, of which so many follow each other."""
        return random.key(rollout.seed, purpose, rollout.number * draws)

    def learning_rate_scale(self, rollout: Rollout) -> tf.Tensor:
        """What the schedule makes of the learning rate at this point."""
        if self.config.learning_rate_schedule == 'constant':
            return tf.constant(1.0)
        steps = math.prod(rollout.value.shape)
        progress = (
            tf.cast(rollout.number, tf.float32) * steps / self.config.steps
        )
        return tf.maximum(1.0 - progress, 0.0)

    @compiled
    def _read_record(self) -> tuple:
        """Normalize the record; updates the statistics of the rewards."""
        observ, action, transition = self.memory.data()
        done = transition.done
        begins = tf.concat([self._begins[None], done[:-1]], 0)
        self._first_begins.assign(self._begins)
        self._begins.assign(done[-1])
        state.assign(self._first_state, state.read(self._next_state))
        state.assign(self._next_state, state.read(self._state))
        sound = self.memory.is_sound()
        if self._counts_actions:  # Others are floats, as those recorded.
            sound &= tf.reduce_min(action) >= 0
        self._sound.assign(sound)
        self.reward_normalizer.update(transition.reward, begins, sound)
        reward = self.reward_normalizer.transform(transition.reward)
        normalized = transition._replace(
            # So that nothing is learnt, as such gradients are not applied.
            reward=tf.where(sound, reward, math.nan),
            next_observ=self.policy.normalizer.transform(
                transition.next_observ
            ),
        )
        observ = self.policy.normalizer.transform(observ)
        scalars = self._seed.read_value(), self._updates.read_value()
        return *scalars, observ, begins, action, normalized

    @compiled
    def _evaluate(
        self,
        seed: tf.Tensor,
        number: tf.Tensor,
        observ: Any,
        begins: tf.Tensor,
        action: tf.Tensor,
        transition: Transition,
    ) -> Rollout:
        """Let the critic tell which actions were better than expected."""
        value, next_value = self.critic.evaluate(
            observ, begins, transition.next_observ
        )
        # A lost step has the return that was expected: its advantage is zero,
        # and the return of the step before goes on with its value.
        lost = transition.lost
        advantage = returns.lambda_advantage(
            tf.where(lost, value, transition.reward),
            value,
            next_value,
            transition.terminated | lost,
            transition.done,
            self.config.discount,
            self.config.gae_lambda,
        )
        target = value + advantage
        return Rollout(
            seed, number, observ, begins, action, value, advantage, target, lost
        )

    @compiled
    def _conclude(self, rollout: Rollout) -> dict[str, tf.Tensor]:
        """Make ready for the next rollout; returns numbers for the log."""
        observ, _, _ = self.memory.data()
        self.policy.normalizer.update(observ, self._sound)
        self.memory.clear()
        self._updates.assign_add(1)
        log = rollout._asdict()
        state.assign(self._log, {name: log[name] for name in self._log})
        _, variance = moments.mean_and_variance(rollout.advantage)
        return {
            'advantage_std': tf.cast(tf.sqrt(variance), tf.float32),
            'explained_variance': explained_variance(
                rollout.value, rollout.returns
            ),
            'learning_rate': self.config.learning_rate
            * self.learning_rate_scale(rollout),
        }


def _optimizer(
    network: Any, learning_rate: float, config: AttrDict
) -> Optimizer:
    return Optimizer(
        network.trainable_variables,
        learning_rate,
        config.gradient_clip,
        config.adam_epsilon,
    )


def _record_specs(observ_space: gym.Space, action_space: gym.Space) -> tuple:
    """What is recorded of each step: observation, action and transition."""
    observ = spaces.specs(observ_space)
    action = spaces.specs(action_space)
    if not isinstance(action_space, gym.spaces.Discrete):
        action = layout.Spec((math.prod(action.shape),), action.dtype)
    number, flag = layout.Spec((), 'float32'), layout.Spec((), 'bool')
    transition = Transition(number, flag, flag, observ, flag)
    return observ, action, transition
