"""Update of the algorithms that learn from rollouts of their own policy."""

import functools
import math
from typing import Any, NamedTuple

from agents.algorithms.algorithm import Task
from agents.algorithms.collector import Collecting, Collector
from agents.algorithms.learner import Learner
from agents.algorithms.value_learner import ValueLearner
from agents.parts import layers, moments, normalize, returns
from agents.parts.losses import explained_variance
from agents.parts.policy import Policy
from agents.parts.record import Rollout
from agents.parts.sequences import Network
from agents.tools import errors, nested
from agents.tools.graph import state
from agents.tools.graph.backend import compile_part, compile_unless_conv, tf
from agents.tools.graph.devices import run_concurrently

# Number of steps of a rollout that a summary describes.
SUMMARY_STEPS = 4096


class UpdateInputs(NamedTuple):
    """Values that an update needs beside the rollout.

    They are passed instead of read where they are used, as the value may be learnt on another
    device, which cannot read the variables of this one.

    Attributes:
        policy_key: Random key for learning the policy.
        value_key: Random key for learning the value.
        learning_rate_scale: Factor of the learning rate by its schedule.
        value_weights: Weights of the value network if a copy is learnt on another device; else ().
    """

    policy_key: tf.Tensor
    value_key: tf.Tensor
    learning_rate_scale: tf.Tensor
    value_weights: Any


class OnPolicy(Collecting):
    """Collects a rollout, computes its advantages and lets learners improve the networks by it.

    The statistics of the observations change only between rollouts, so that acting and learning
    see the same inputs.

    Args:
        policy: Policy to act by.
        value_network: Network that predicts returns.
        learner: Improves the policy, and the value network if there is no value learner.
        value_learner: Improves the value network, or None.
        task: Spaces, number of agents and settings.
    """

    def __init__(
        self,
        policy: Policy,
        value_network: Network,
        learner: Learner,
        value_learner: ValueLearner | None,
        task: Task,
    ):
        super().__init__()
        config, ranks = task.config, task.ranks
        if policy.encoder is not None and value_learner is not None:
            raise errors.ConfigError(
                f'The network shares an encoder, which {config.algorithm} does '
                'not learn. Return two models, or choose PPO with '
                'shared_encoder=True.'
            )
        # Messages of two threads would reach other ranks in any order.
        assert ranks.size == 1 or task.value_device is None
        self.policy = policy
        self.value_network = value_network
        self.learner = learner
        self.value_learner = value_learner
        self.convolutional = layers.has_convolutions(policy.network, policy.encoder, value_network)
        define_collector = task.collect or Collector
        self.collector = define_collector(policy, value_network, task)
        self.reward_normalizer = normalize.NormalizeReward(
            task.num_agents, config.normalize_reward, config.discount, config.reward_clip, ranks
        )
        self._config = config
        self._ranks = ranks
        self._rewards = task.rewards
        self._critic_device = task.value_device
        # Steps of a rollout, of all ranks together.
        shape = config.update_every, task.num_agents
        self._rollout_steps = ranks.size * math.prod(shape)
        # Whether the last rollout is finite, so that it can be learnt from.
        self._sound = tf.Variable(True, trainable=False)
        # Numbers of the last rollout, for summaries.
        names = 'reward', 'value', 'advantage', 'returns'
        self._log = state.variables({name: tf.zeros(shape) for name in names})

    def update(self) -> dict[str, tf.Tensor]:
        """Take the rollout and learn from it; returns metrics."""
        rollout, update_inputs = self._take_rollout()
        metrics, value_weights = self._learn(rollout, update_inputs)
        return {**metrics, **self._finish(rollout, update_inputs, value_weights)}

    def is_finite(self) -> tf.Tensor:
        return self._sound.read_value()

    def failure(self) -> Exception | None:
        if not self._sound:
            return self.describe_record()
        value_learner = self.value_learner
        return self.learner.failure() or (value_learner and value_learner.failure())

    def summary(self) -> dict[str, tf.Tensor]:
        """Return tensors for histograms, by name.

        The policy, as it is after the update, is applied to the last rollout here, so that
        nothing is computed or compiled for summaries that nobody asks for.
        """
        count = max(1, SUMMARY_STEPS // self._config.update_every)
        last = self.collector.last()
        before = nested.map(lambda x: x[:count], last.state.policy)
        some = nested.map(lambda x: x[:, :count], last._replace(state=()))
        inputs = self.policy.normalize(some.observ)
        actions = self.policy.unroll(inputs, some.begins, before)
        names = nested.names(inputs.visible, 'observ')
        leaves = nested.flatten(inputs.visible)
        pairs = zip(names, leaves, strict=True)
        return {
            # Not of pixels, of which there are too many to be told anything by.
            **{name: leaf for name, leaf in pairs if leaf.dtype != tf.uint8},
            'action': some.action,
            'mode': actions.mode,
            'log_prob': actions.log_prob(some.action),
            'entropy': actions.entropy(),
            **state.read(self._log),
            **self.learner.summary('policy'),
            **(self.value_learner.summary('value') if self.value_learner else {}),
        }

    def per_agent_variables(self) -> list[Any]:
        parts = self.collector, self.reward_normalizer
        return [part.per_agent_variables() for part in parts]

    def saved(self) -> dict[str, Any]:
        value = self.value_learner.saved() if self.value_learner else {}
        return {
            'collector': self.collector,
            'value': {'network': self.value_network, **value},
            'learner': self.learner,
            'reward_normalizer': self.reward_normalizer,
        }

    @compile_unless_conv
    def _take_rollout(self) -> tuple[Rollout, UpdateInputs]:
        """Take the rollout, normalize it and compute its advantages and returns."""
        rollouts = self.collector.rollouts
        sound = ~self._ranks.any(~self.collector.is_finite())
        self._sound.assign(sound)
        rollout = self.collector.take()
        inputs = self.policy.normalize(rollout.observ)
        reward = self._rewards(rollout)
        limit = self._config.reward_limit
        if limit is not None:
            reward = tf.clip_by_value(reward, -limit, limit)
        self.reward_normalizer.update(reward, rollout.begins, sound, rollout.lost)
        reward = self.reward_normalizer.transform(reward)
        # Nothing is learnt from an unsound rollout, as gradients of NaN are not applied.
        reward = tf.where(sound, reward, math.nan)
        _, value, cut_value = rollout.predictions
        advantage = compile_part(self._define_advantage)(reward, value, cut_value, rollout)
        rollout = rollout._replace(
            observ=(), inputs=inputs, reward=reward, advantage=advantage, returns=value + advantage
        )
        return rollout, self._define_inputs(rollouts)

    def _define_advantage(
        self, reward: tf.Tensor, value: tf.Tensor, cut_value: tf.Tensor, rollout: Rollout
    ) -> tf.Tensor:
        """Compute generalized advantage estimates.

        A lost step has the predicted return as its return: its advantage is zero, and the return
        of the step before continues with its value.
        """
        lost, done = rollout.lost, rollout.done
        return returns.lambda_advantage(
            tf.where(lost, value, reward),
            value,
            returns.successor_value(value, cut_value, done),
            rollout.terminated | lost,
            done,
            self._config.discount,
            self._config.gae_lambda,
        )

    def _define_inputs(self, rollouts: tf.Tensor) -> UpdateInputs:
        """Return what an update needs, given the number of rollouts before."""
        scale = tf.constant(1.0)
        if self._config.learning_rate_schedule == 'linear':
            steps = tf.cast(rollouts, tf.float32) * self._rollout_steps
            scale = tf.maximum(1.0 - steps / self._config.steps, 0.0)
        draws = self.value_learner.draws if self.value_learner else 0
        define_key = self.collector.define_key
        return UpdateInputs(
            define_key('policy', rollouts * self.learner.draws),
            define_key('value', rollouts * draws),
            scale,
            state.read(_variables(self.value_network)) if self._critic_device else (),
        )

    def _learn(
        self, rollout: Rollout, update_inputs: UpdateInputs
    ) -> tuple[dict[str, tf.Tensor], Any]:
        """Improve the policy and the value network, at the same time if there are two devices.

        Returns:
            Metrics, and the weights of the value network if a copy of it has learnt.
        """
        if self.value_learner is None:
            policy = self._learn_policy(rollout, update_inputs)
            value: dict[str, tf.Tensor] = {}
            weights: Any = ()
        else:
            policy, (value, weights) = run_concurrently(
                functools.partial(self._learn_policy, rollout, update_inputs),
                functools.partial(self._learn_value, rollout, update_inputs),
                self._critic_device,
            )
        skipped = policy.pop('skipped', 0) + value.pop('skipped', 0)
        metrics = {
            **_label(policy, 'policy'),
            **_label(value, 'value'),
            'skipped': tf.cast(skipped, tf.float32),
        }
        return metrics, weights

    @compile_unless_conv
    def _learn_policy(self, rollout: Rollout, update_inputs: UpdateInputs) -> dict[str, tf.Tensor]:
        return self.learner.update(
            rollout, update_inputs.policy_key, update_inputs.learning_rate_scale
        )

    @compile_unless_conv
    def _learn_value(
        self, rollout: Rollout, update_inputs: UpdateInputs
    ) -> tuple[dict[str, tf.Tensor], Any]:
        assert self.value_learner is not None
        arguments = rollout, update_inputs.value_key, update_inputs.learning_rate_scale
        if self._critic_device is None:
            return self.value_learner.update(*arguments), ()
        copy = _variables(self.value_learner.network)
        state.assign(copy, update_inputs.value_weights)
        return self.value_learner.update(*arguments), state.read(copy)

    @compile_unless_conv
    def _finish(
        self, rollout: Rollout, update_inputs: UpdateInputs, value_weights: Any
    ) -> dict[str, tf.Tensor]:
        """Prepare for the next rollout; returns metrics."""
        if self._critic_device:
            state.assign(_variables(self.value_network), value_weights)
        self.policy.update_statistics(self.collector.last().observ, self._sound)
        value = rollout.predictions.value
        log = {**rollout._asdict(), 'value': value}
        state.assign(self._log, {name: log[name] for name in self._log})
        _, variance = moments.mean_and_variance(rollout.advantage, ranks=self._ranks)
        return {
            'advantage_std': tf.cast(tf.sqrt(variance), tf.float32),
            'explained_variance': explained_variance(value, rollout.returns, self._ranks),
            'learning_rate': self._config.learning_rate * update_inputs.learning_rate_scale,
        }


def _variables(network: Network) -> list[tf.Variable]:
    return [weight.value for weight in network.weights]


def _label(metrics: dict[str, tf.Tensor], owner: str) -> dict[str, tf.Tensor]:
    """Prefix the owner to the loss and the norm of the gradient."""
    return {
        f'{owner}_{name}' if name in ('loss', 'gradient_norm') else name: value
        for name, value in metrics.items()
    }
