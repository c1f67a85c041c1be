"""Discriminator between steps of a policy and demonstrations."""

import math
from typing import Any

import gymnasium as gym

from agents.algorithms.algorithm import Task
from agents.parts import layers, masks, normalize
from agents.parts.expert import Steps
from agents.parts.optimizer import Adam
from agents.parts.sequences import Network
from agents.tools import nested, spaces
from agents.tools.graph.backend import keras, tf
from agents.tools.graph.flat import Weights
from agents.tools.nested import Nest


class Discriminator(tf.Module):
    """Network that outputs the logit of the probability that a step was demonstrated.

    Observations are normalized by statistics of the steps of policy and expert.

    Args:
        task: Spaces, settings and ranks.
    """

    def __init__(self, task: Task):
        super().__init__()
        config = task.config
        visible = masks.visible_space(task.observ_space, task.action_space)
        self._masked = masks.has_mask(task.observ_space, task.action_space)
        self._actions = task.action_space
        self._config = config
        self.normalizer = normalize.NormalizeObserv(visible, True, config.observ_clip, task.ranks)
        self._encoder = layers.Encoder(visible, config)
        self._flatten = layers.Flatten(task.action_space)
        self._network = keras.Sequential(
            [*layers.dense(config.discriminator_layers, 'tanh'), layers.output(1)]
        )
        self.logits(_nothing(task.observ_space, task.action_space))
        weights = Weights([*self._encoder.trainable_variables, *self._network.trainable_variables])
        self.optimizer = Adam(weights, config.discriminator_rate, ranks=task.ranks)

    def saved(self) -> dict[str, Any]:
        """Return the contents of a checkpoint by name."""
        return {
            'normalizer': self.normalizer,
            'encoder': self._encoder,
            'network': self._network,
            'optimizer': self.optimizer,
        }

    def see(self, steps: Steps, sound: tf.Tensor) -> None:
        """Add observations to the statistics if `sound`."""
        self.normalizer.update(self._visible(steps), sound)

    def logits(self, steps: Steps) -> tf.Tensor:
        """Return the logit of each step, `[row]`."""
        return self._network(self._features(steps))[:, 0]

    def learn(
        self, policy: Steps, expert: Steps, mixture: tf.Tensor, sound: tf.Tensor | bool = True
    ) -> dict[str, tf.Tensor]:
        """Take one gradient step.

        Args:
            policy: Steps of the policy.
            expert: As many demonstrated steps.
            mixture: Positions between policy and expert for the gradient penalty, `[row, 1]` in [0,
                1].
            sound: Whether the steps are finite.

        Returns:
            Metrics for the log.
        """

        def loss(rows: Nest) -> dict[str, tf.Tensor]:
            means = self._loss(*rows)
            # So that nothing is learnt, as such gradients are not applied.
            means['loss'] *= tf.where(sound, 1.0, math.nan)
            return means

        return self.optimizer.minimize(loss, (policy, expert, mixture))

    def _loss(self, policy: Steps, expert: Steps, mixture: tf.Tensor) -> dict[str, tf.Tensor]:
        """Cross entropy, minus an entropy bonus, plus a gradient penalty."""
        features = self._features(policy), self._features(expert)
        mine, shown = [self._network(x)[:, 0] for x in features]
        loss = cross_entropy(mine, shown)
        if self._config.discriminator_entropy:
            entropy = tf.reduce_mean(bernoulli_entropy(tf.concat([mine, shown], 0)))
            loss -= self._config.discriminator_entropy * entropy
        if self._config.gradient_penalty:
            between = mixture * features[0] + (1 - mixture) * features[1]
            penalty = slope_penalty(self._network, tf.stop_gradient(between))
            loss += self._config.gradient_penalty * penalty
        return {
            'loss': loss,
            'accuracy_policy': _mean_of(mine < 0),
            'accuracy_expert': _mean_of(shown > 0),
        }

    def _features(self, steps: Steps) -> tf.Tensor:
        observ = self.normalizer.transform(self._visible(steps))
        shape = spaces.shape(self._actions)
        action = tf.reshape(steps.action, [steps.action.shape[0], *shape])
        return tf.concat([self._encoder(observ), self._flatten(action)], -1)

    def _visible(self, steps: Steps) -> Any:
        if not self._masked:
            return steps.observ
        return masks.split(steps.observ)[0]


def cross_entropy(policy: tf.Tensor, expert: tf.Tensor) -> tf.Tensor:
    """−E[ln (1 − D)] for the policy − E[ln D] for the expert, by logits."""
    return tf.reduce_mean(tf.nn.softplus(policy)) + tf.reduce_mean(tf.nn.softplus(-expert))


def bernoulli_entropy(logits: tf.Tensor) -> tf.Tensor:
    """−D ln D − (1 − D) ln (1 − D), by logits."""
    return tf.nn.softplus(logits) - tf.sigmoid(logits) * logits


def slope_penalty(network: Network, features: tf.Tensor) -> tf.Tensor:
    """Gradient penalty E[(‖∇‖ − 1)²] of the output by the input.

    Gulrajani et al. 2017, Improved training of Wasserstein GANs.
    """
    with tf.GradientTape() as tape:
        tape.watch(features)
        total = tf.reduce_sum(network(features))
    slope = tape.gradient(total, features)
    norm = tf.sqrt(tf.reduce_sum(slope**2, -1) + 1e-8)
    return tf.reduce_mean((norm - 1) ** 2)


def _nothing(observ_space: gym.Space, action_space: gym.Space) -> Steps:
    """Return a step of zeros."""

    def zeros(spec: Any) -> tf.Tensor:
        return tf.zeros((1, *spec.shape), spec.dtype)

    action = zeros(spaces.specs(action_space))
    return Steps(
        nested.map(zeros, spaces.specs(observ_space)),
        tf.reshape(action, [1, math.prod(action.shape)])
        if not isinstance(action_space, gym.spaces.Discrete)
        else action,
    )


def _mean_of(flags: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(tf.cast(flags, tf.float32))
