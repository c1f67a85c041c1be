"""What algorithms share that learn from rollouts of their own policy."""

import math
from typing import Any, NamedTuple

from agents.algorithms.algorithm import Task
from agents.algorithms.collector import Collecting, Collector, ForeseeingCollector
from agents.algorithms.learner import Learner, MinibatchLearner
from agents.parts import layers, minibatches, moments, normalize, returns
from agents.parts.critic import Predictor
from agents.parts.frames import look_up
from agents.parts.policy import Policy
from agents.parts.record import Record, Rollout
from agents.tools import errors, nested, spaces
from agents.tools.graph import state
from agents.tools.graph.backend import around_networks, piece, tf
from agents.tools.graph.devices import together

# How many steps of a rollout a summary is of.
SUMMARY_STEPS = 4096


class Chances(NamedTuple):
    """What an update depends on beside the rollout.

    Not read where it is used, as the value may be learnt on another device,
    which cannot read the variables.

    Attributes:
        policy_key: Random key for learning the policy.
        value_key: Random key for learning the value.
        learning_rate_scale: What the schedule makes of the learning rate.
    """

    policy_key: tf.Tensor
    value_key: tf.Tensor
    learning_rate_scale: tf.Tensor


class OnPolicy(Collecting):
    """Collects a rollout, and lets a policy and a critic learn from it.

    The statistics of the observations change only between rollouts, so that
    acting and learning see the same inputs.

    Args:
        policy: The policy.
        learner: Improves the policy.
        critic: Learns which return to expect.
        task: What the algorithm is made for.
    """

    def __init__(self, policy: Policy, learner: Learner, critic: Predictor, task: Task):
        super().__init__()
        config, ranks = task.config, task.ranks
        if policy.encoder is not None and not learner.learns_value:
            raise errors.ConfigError(
                f'The network shares an encoder, which {config.algorithm} does '
                'not learn. Return two models, or choose PPO with '
                'shared_encoder=True.'
            )
        # Messages of two threads would reach other ranks in any order.
        assert ranks.size == 1 or task.critic_device is None
        self.policy = policy
        self.learner = learner
        self.critic = critic
        self.convolutional = layers.has_convolutions(policy.network, policy.encoder, critic.network)
        # Only who learns both looks frames up.
        self.keeps_frames = task.stacks_frames and learner.learns_value
        self.collector = self._define_collector(task)
        self.reward_normalizer = normalize.NormalizeReward(
            task.num_agents, config.normalize_reward, config.discount, config.reward_clip, ranks
        )
        self._config = config
        self._observ_shape = spaces.shape(task.observ_space)
        self._ranks = ranks
        self._rewards = task.rewards
        self._in_step = (
            ranks.size > 1
            and not task.averages_by_epoch
            and not learner.learns_value
            and isinstance(learner, MinibatchLearner)
        )
        self._critic_device = task.critic_device
        # Steps of a rollout, of all ranks together.
        shape = config.update_every, task.num_agents
        self._rollout_steps = ranks.size * math.prod(shape)
        # Whether what was recorded can be learnt from.
        self._sound = tf.Variable(True, trainable=False)
        # What the last rollout came to, for the log.
        names = 'reward', 'value', 'advantage', 'returns'
        self._log = state.variables({name: tf.zeros(shape) for name in names})

    def update(self) -> dict[str, tf.Tensor]:
        """Make a rollout of the record, and learn from it."""
        record, chances = self._take_record()
        with tf.device(self._critic_device):
            value, advantage, target = self._expect_returns(record)
        rollout = Rollout(
            inputs=record.observ,
            begins=record.begins,
            action=record.action,
            reward=record.reward,
            lost=record.lost,
            state=record.state,
            value=value,
            advantage=advantage,
            returns=target,
            output=record.foreseen.output if record.foreseen else (),
            frames=record.frames,
        )
        metrics = self._learn(rollout, chances)
        return {**metrics, **self._conclude(rollout, chances)}

    def is_sound(self) -> tf.Tensor:
        return self._sound.read_value()

    def failure(self) -> Exception | None:
        if not self._sound:
            return self.collector.failure() or errors.ElsewhereError(
                'What another rank has recorded cannot be learnt from.'
            )
        return self.learner.failure() or self.critic.failure()

    def summary(self) -> dict[str, tf.Tensor]:
        """Tensors by name that are worth a histogram.

        The policy, as it is after the update, is applied to the last rollout
        once more, so that nothing has to be computed, or even compiled, where
        it is not asked for.
        """
        count = max(1, SUMMARY_STEPS // self._config.update_every)
        last = self.collector.last()
        before = nested.map(lambda x: x[:count], last.state)
        others = {'state': (), 'value_state': (), 'frames': ()}
        record = nested.map(lambda x: x[:, :count], last._replace(**others))
        observ = record.observ
        if self.keeps_frames:
            observ = look_up(last.frames, observ, self._observ_shape)
        inputs = self.policy.prepare(observ)
        actions = self.policy.unroll(inputs, record.begins, before)
        names = nested.names(inputs.visible, 'observ')
        leaves = nested.flatten(inputs.visible)
        pairs = zip(names, leaves, strict=True)
        return {
            # Not of pixels, of which there are too many to be told anything by.
            **{name: leaf for name, leaf in pairs if leaf.dtype != tf.uint8},
            'action': record.action,
            'mode': actions.mode,
            'log_prob': actions.log_prob(record.action),
            'entropy': actions.entropy(),
            **state.read(self._log),
            **self.learner.summary(),
            **self.critic.summary(),
        }

    def _define_collector(self, task: Task) -> Any:
        if task.collect is not None:
            return task.collect(self.policy)
        if not (self.convolutional or self.learner.learns_value):
            return Collector(self.policy, task)
        task = task._replace(stacks_frames=self.keeps_frames)
        return ForeseeingCollector(self.policy, self.critic, task)

    def of_agents(self) -> list[Any]:
        parts = self.collector, self.critic, self.reward_normalizer
        return [part.of_agents() for part in parts]

    def saved(self) -> dict[str, Any]:
        return {
            'collector': self.collector,
            'value': self.critic,
            'learner': self.learner,
            'reward_normalizer': self.reward_normalizer,
        }

    @around_networks
    def _take_record(self) -> tuple[Record, Chances]:
        """Take the record and normalize it, its rewards after its own scale."""
        rollouts = self.collector.rollouts
        sound = ~self._ranks.any(~self.collector.is_sound())
        self._sound.assign(sound)
        record = self.collector.take()
        reward = self._rewards(record)
        limit = self._config.reward_limit
        if limit is not None:
            reward = tf.clip_by_value(reward, -limit, limit)
        self.reward_normalizer.update(reward, record.begins, sound, record.lost)
        reward = self.reward_normalizer.transform(reward)
        normalized = record._replace(
            observ=self.policy.prepare(record.observ),
            # So that nothing is learnt, as such gradients are not applied.
            reward=tf.where(sound, reward, math.nan),
        )
        if not record.foreseen:
            after = self.policy.prepare(record.next_observ)
            normalized = normalized._replace(next_observ=after)
        return normalized, self._define_chances(rollouts)

    def _define_chances(self, rollouts: tf.Tensor) -> Chances:
        """What an update depends on, given how many rollouts came before."""
        scale = tf.constant(1.0)
        if self._config.learning_rate_schedule == 'linear':
            steps = tf.cast(rollouts, tf.float32) * self._rollout_steps
            scale = tf.maximum(1.0 - steps / self._config.steps, 0.0)
        define_key = self.collector.define_key
        return Chances(
            define_key('policy', rollouts * self.learner.draws),
            define_key('value', rollouts * self.critic.draws),
            scale,
        )

    @around_networks
    def _expect_returns(self, record: Record) -> tuple[tf.Tensor, ...]:
        """Let the critic tell which actions were better than expected.

        Returns:
            The values, the advantages and the returns.
        """
        value, next_value = self._predict(record)
        # A lost step has the return that was expected: its advantage is zero,
        # and the return of the step before goes on with its value.
        lost = record.lost
        advantage = piece(returns.lambda_advantage)(
            tf.where(lost, value, record.reward),
            value,
            next_value,
            record.terminated | lost,
            record.done,
            self._config.discount,
            self._config.gae_lambda,
        )
        return value, advantage, value + advantage

    def _predict(self, record: Record) -> tuple[tf.Tensor, tf.Tensor]:
        """The values of observations and of their successors."""
        if not record.foreseen:
            return self.critic.advance(
                self.policy.encode_all(record.observ.visible),
                record.begins,
                self.policy.encode_all(record.next_observ.visible),
            )
        self.critic.skip(record.value_state)
        _, value, next_value = record.foreseen
        later = tf.concat([value[1:], next_value[-1:]], 0)
        return value, tf.where(record.done, next_value, later)

    def _learn(self, rollout: Rollout, chances: Chances) -> dict[str, tf.Tensor]:
        """Improve the policy and the critic, at the same time if they can."""
        scale = chances.learning_rate_scale
        if self.learner.learns_value:
            policy = self._learn_policy(rollout, chances.policy_key, scale)
            value: dict[str, tf.Tensor] = {}
        elif self._in_step:
            policy, value = self._learn_in_step(rollout, chances)
        else:
            policy, value = together(
                lambda: self._learn_policy(rollout, chances.policy_key, scale),
                lambda: self._learn_value(rollout, chances.value_key, scale),
                self._critic_device,
            )
        skipped = policy.pop('skipped', 0) + value.pop('skipped', 0)
        return {
            **_label(policy, 'policy'),
            **_label(value, 'value'),
            'skipped': tf.cast(skipped, tf.float32),
        }

    @around_networks
    def _learn_in_step(self, rollout: Rollout, chances: Chances) -> list[dict[str, tf.Tensor]]:
        """Improve both by a minibatch of each at a time.

        So their gradients go to other ranks in one message.
        """
        scale = chances.learning_rate_scale
        assert isinstance(self.learner, MinibatchLearner)
        begun = [
            self.learner.begin(rollout, chances.policy_key, scale),
            self.critic.begin(rollout, chances.value_key, scale),
        ]
        every = [passes for passes, _ in begun]
        if minibatches.fit_together(every):
            found = minibatches.train_in_step(every, self._ranks)
        else:
            found = [minibatches.train(each, self._ranks) for each in every]
        return [conclude(metrics) for (_, conclude), metrics in zip(begun, found, strict=True)]

    @around_networks
    def _learn_policy(
        self, rollout: Rollout, key: tf.Tensor, scale: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        return self.learner.update(rollout, key, scale)

    @around_networks
    def _learn_value(
        self, rollout: Rollout, key: tf.Tensor, scale: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        return self.critic.update(rollout, key, scale)

    @around_networks
    def _conclude(self, rollout: Rollout, chances: Chances) -> dict[str, tf.Tensor]:
        """Make ready for the next rollout; returns numbers for the log."""
        self.policy.adapt(self.collector.last().observ, self._sound)
        log = rollout._asdict()
        state.assign(self._log, {name: log[name] for name in self._log})
        _, variance = moments.mean_and_variance(rollout.advantage, ranks=self._ranks)
        return {
            'advantage_std': tf.cast(tf.sqrt(variance), tf.float32),
            'learning_rate': self._config.learning_rate * chances.learning_rate_scale,
        }


def _label(metrics: dict[str, tf.Tensor], owner: str) -> dict[str, tf.Tensor]:
    """Tell whose loss and whose gradient it is."""
    return {
        f'{owner}_{name}' if name in ('loss', 'gradient_norm') else name: value
        for name, value in metrics.items()
    }
