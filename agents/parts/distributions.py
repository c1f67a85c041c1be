"""Action distributions, as nests of their parameters.

Each has `mode`, `sample`, `log_prob`, `entropy` and `kl`. The dimensions of an action are summed
over; those before are the batch.

Infinite logits make actions impossible, as a network that masks them may do: such actions are
never chosen and add nothing to entropies, divergences and gradients. Action masks of observations
use a finite logit with the same effect, so that every log-probability is finite.
"""

import math
from typing import Any, NamedTuple

import gymnasium as gym

from agents.tools import spaces
from agents.tools.graph import random
from agents.tools.graph.backend import tf
from agents.tools.nested import Nest

# The logit of what is masked: its probability is zero, to the last bit.
IMPOSSIBLE = -1e9


class Gaussian(NamedTuple):
    """Diagonal Gaussian, `[..., dimension]`."""

    mean: tf.Tensor
    log_std: tf.Tensor

    @property
    def mode(self) -> tf.Tensor:
        return self.mean

    def sample(self, key: tf.Tensor) -> tf.Tensor:
        noise = random.normal(key, self.mean.shape)
        return self.mean + tf.exp(self.log_std) * noise

    def log_prob(self, value: tf.Tensor) -> tf.Tensor:
        """−½ Σ ((x − μ) / σ)² − Σ ln σ − ½ d ln 2π."""
        distance = (value - self.mean) * tf.exp(-self.log_std)
        each = -0.5 * (distance**2 + math.log(2 * math.pi)) - self.log_std
        return tf.reduce_sum(each, -1)

    def entropy(self) -> tf.Tensor:
        """Σ ln σ + ½ d ln 2πe."""
        each = self.log_std + 0.5 * math.log(2 * math.pi * math.e)
        return tf.reduce_sum(tf.broadcast_to(each, self.mean.shape), -1)

    def kl(self, other: Any) -> tf.Tensor:
        """Σ ln σ₂/σ₁ + (σ₁² + (μ₁ − μ₂)²) / 2σ₂² − ½."""
        log_ratio = other.log_std - self.log_std
        distance = (self.mean - other.mean) * tf.exp(-other.log_std)
        squares = tf.exp(-2 * log_ratio) + distance**2
        return tf.reduce_sum(log_ratio + 0.5 * (squares - 1), -1)


class Categorical(NamedTuple):
    """Categorical distribution, `[..., choice]`; a logit of −∞ is impossible."""

    logits: tf.Tensor

    @property
    def mode(self) -> tf.Tensor:
        return self._choose(self.logits)

    def sample(self, key: tf.Tensor) -> tf.Tensor:
        """Sample by the Gumbel-max trick."""
        uniform = random.uniform(key, self.logits.shape)
        noise = -tf.math.log(-tf.math.log(uniform + 1e-20) + 1e-20)
        return self._choose(self.logits + noise)

    def _choose(self, scores: tf.Tensor) -> tf.Tensor:
        """Return the index of the highest score, -1 where a logit is NaN.

        -1 is in no action space, so that it is never taken for a choice.
        """
        possible = tf.reduce_any(self.logits > -math.inf, -1)
        numbers = ~tf.reduce_any(tf.math.is_nan(self.logits), -1)
        return tf.where(possible & numbers, tf.argmax(scores, -1, tf.int32), -1)

    def log_prob(self, value: tf.Tensor) -> tf.Tensor:
        log_probs = tf.nn.log_softmax(self.logits)
        # Selected, as zero times the infinity of an impossible one is NaN.
        chosen = tf.one_hot(value, log_probs.shape[-1], True, False)
        return tf.reduce_sum(tf.where(chosen, log_probs, 0.0), -1)

    def entropy(self) -> tf.Tensor:
        """−Σ p ln p."""
        log_probs = tf.nn.log_softmax(self.logits)
        return -tf.reduce_sum(_weigh(log_probs, tf.exp(log_probs)), -1)

    def kl(self, other: Any) -> tf.Tensor:
        """Σ p₁ (ln p₁ − ln p₂)."""
        log_probs = tf.nn.log_softmax(self.logits)
        log_ratio = log_probs - tf.nn.log_softmax(other.logits)
        return tf.reduce_sum(_weigh(log_ratio, tf.exp(log_probs)), -1)


class Bernoulli(NamedTuple):
    """Independent Bernoulli variables, `[..., dimension]`; logits of ±∞ are certain."""

    logits: tf.Tensor

    @property
    def mode(self) -> tf.Tensor:
        return self._choose(self.logits > 0)

    def sample(self, key: tf.Tensor) -> tf.Tensor:
        uniform = random.uniform(key, self.logits.shape)
        return self._choose(uniform < tf.sigmoid(self.logits))

    def _choose(self, yes: tf.Tensor) -> tf.Tensor:
        """Return 1 where true, 0 where false and -1 where the logit is NaN."""
        unknown = tf.math.is_nan(self.logits)
        return tf.where(unknown, -1, tf.cast(yes, tf.int32))

    def log_prob(self, value: tf.Tensor) -> tf.Tensor:
        """Σ x ln p + (1 − x) ln (1 − p)."""
        sign = 2 * tf.cast(value, tf.float32) - 1
        return tf.reduce_sum(tf.math.log_sigmoid(sign * self.logits), -1)

    def entropy(self) -> tf.Tensor:
        return tf.reduce_sum(self._mean_of(self.logits, self.logits), -1)

    def kl(self, other: Any) -> tf.Tensor:
        cross = self._mean_of(self.logits, other.logits)
        return tf.reduce_sum(cross, -1) - self.entropy()

    @staticmethod
    def _mean_of(logits: tf.Tensor, others: tf.Tensor) -> tf.Tensor:
        """Cross entropy −p₁ ln p₂ − (1 − p₁) ln (1 − p₂)."""
        yes = _weigh(tf.math.log_sigmoid(others), tf.sigmoid(logits))
        no = _weigh(tf.math.log_sigmoid(-others), tf.sigmoid(-logits))
        return -yes - no


class Product(NamedTuple):
    """Independent categoricals, one for each dimension of the action."""

    parts: tuple[Categorical, ...]

    @property
    def mode(self) -> tf.Tensor:
        return tf.stack([part.mode for part in self.parts], -1)

    def sample(self, key: tf.Tensor) -> tf.Tensor:
        keys = [key + tf.constant([index, 0]) for index in range(len(self.parts))]
        samples = [p.sample(k) for p, k in zip(self.parts, keys, strict=True)]
        return tf.stack(samples, -1)

    def log_prob(self, value: tf.Tensor) -> tf.Tensor:
        values = tf.unstack(value, axis=-1)
        return tf.add_n([p.log_prob(v) for p, v in zip(self.parts, values, strict=True)])

    def entropy(self) -> tf.Tensor:
        return tf.add_n([part.entropy() for part in self.parts])

    def kl(self, other: Any) -> tf.Tensor:
        pairs = zip(self.parts, other.parts, strict=True)
        return tf.add_n([mine.kl(others) for mine, others in pairs])


def _weigh(value: tf.Tensor, prob: tf.Tensor) -> tf.Tensor:
    """Multiply values by their probabilities; zero where the probability is zero.

    Also where the value is infinite, as the logarithm of zero is.
    """
    return prob * tf.where(prob > 0, value, 0.0)


Distribution = Gaussian | Categorical | Bernoulli | Product


def output_size(space: gym.Space) -> int:
    """Return the number of network outputs that an action space needs."""
    match space:
        case gym.spaces.Box():
            return 2 * math.prod(space.shape)
        case gym.spaces.Discrete():
            return int(space.n)
        case gym.spaces.MultiDiscrete():
            return int(space.nvec.sum())
        case gym.spaces.MultiBinary():
            return math.prod(space.shape)
    raise TypeError(f'There is no distribution over {space}.')


def from_output(space: gym.Space, output: tf.Tensor, mask: tf.Tensor | None = None) -> Distribution:
    """Return the distribution that outputs of a network parametrize.

    Args:
        space: Space of the actions.
        output: Tensor `[..., output_size(space)]`: for a box the means and then the logarithms of
            the standard deviations, else logits.
        mask: Mask of the possible choices, for logits.
    """
    output = tf.ensure_shape(output, [*output.shape[:-1], output_size(space)])
    if mask is not None:
        output = tf.where(mask, output, IMPOSSIBLE)
    match space:
        case gym.spaces.Box():
            return Gaussian(*tf.split(output, 2, -1))
        case gym.spaces.Discrete():
            return Categorical(output)
        case gym.spaces.MultiDiscrete():
            logits = tf.split(output, space.nvec.reshape(-1).tolist(), -1)
            return Product(tuple(map(Categorical, logits)))
    return Bernoulli(output)


def flatten(space: gym.Space, action: Nest) -> tf.Tensor:
    """Convert actions from the shape of the space to that of the distribution."""
    if isinstance(space, gym.spaces.Discrete):
        return action
    shape = spaces.shape(space)
    lead = action.shape[: action.shape.rank - len(shape)]
    return tf.reshape(action, [*lead, math.prod(shape)])


def unflatten(space: gym.Space, action: tf.Tensor) -> tf.Tensor:
    """Convert actions from the shape of the distribution to that of the space."""
    if isinstance(space, gym.spaces.Discrete):
        return action
    return tf.reshape(action, [*action.shape[:-1], *spaces.shape(space)])
