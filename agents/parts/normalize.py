"""Normalization by running statistics."""

from typing import Any

import gymnasium as gym

from agents.parts import moments, returns
from agents.tools import nested, spaces
from agents.tools.graph.backend import tf
from agents.tools.graph.communicator import ALONE, Communicator
from agents.tools.nested import Nest


class StreamingNormalize(tf.Module):
    """Centers and scales values by their running mean and standard deviation.

    The statistics change in `update` only. While they are empty, values are only clipped. The mean
    and the distance from it are float64: near 1e6, a mean in float32 is off by up to 1/32.

    Args:
        shape: Shape of one value.
        center: Subtract the mean.
        scale: Divide by the standard deviation.
        clip: Limit of the absolute result, or None.
        ranks: Ranks whose values are in the statistics, equally many of each.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        center: bool = True,
        scale: bool = True,
        clip: float | None = 10.0,
        ranks: Communicator = ALONE,
    ):
        super().__init__()
        self._center, self._scale, self._clip = center, scale, clip
        self._ranks = ranks
        zeros = tf.zeros(shape, tf.float64)
        self._count = tf.Variable(tf.zeros((), tf.float64), trainable=False)
        self._mean = tf.Variable(zeros, trainable=False)
        self._squares = tf.Variable(zeros, trainable=False)

    @property
    def clip(self) -> float | None:
        """Limit of the absolute result, or None."""
        return self._clip

    @property
    def count(self) -> tf.Tensor:
        """Number of values in the statistics."""
        return self._count.read_value()

    @property
    def mean(self) -> tf.Tensor:
        return self._mean.read_value()

    @property
    def std(self) -> tf.Tensor:
        """Standard deviation; 1 while there are no values.

        Slightly above zero for constants, as distances from the mean are divided by it.
        """
        return deviation(self.count, self._squares.read_value())

    def transform(self, value: tf.Tensor) -> tf.Tensor:
        """Normalize values `[..., *shape]`."""
        if self._center:
            distance = tf.cast(value, tf.float64) - self._mean
            value = tf.cast(distance, tf.float32)
        if self._scale:
            value = value / tf.cast(self.std, tf.float32)
        if self._clip is not None:
            value = tf.clip_by_value(value, -self._clip, self._clip)
        return value

    def update(
        self, value: tf.Tensor, sound: tf.Tensor | bool = True, counts: tf.Tensor | None = None
    ) -> None:
        """Add values `[..., *shape]` to the statistics if `sound`.

        For scalars, a mask `counts` can select values.

        With n values of mean m and sum of squared distances S before, and k new values with mean
        μ and sum of squared distances Σ:

            m ← m + (μ − m) k / (n + k)
            S ← S + Σ + (μ − m)² n k / (n + k)

        Chan, Golub and LeVeque 1979, Updating formulae and a pairwise algorithm for computing
        sample variances.
        """
        mean, variance = moments.mean_and_variance(value, self._mean.shape, self._ranks, counts)
        rank = value.shape.rank - mean.shape.rank
        count = self._ranks.size * value.shape[:rank].num_elements()
        new = tf.constant(count, tf.float64)
        if counts is not None:
            new *= moments.share(counts, self._ranks)
        total = tf.maximum(self._count + new, 1.0)
        delta = mean - self._mean
        between = delta**2 * self._count / total
        # Selects, as what is not sound would not even be zero times zero.
        for variable, change in (
            (self._squares, (variance + between) * new),
            (self._mean, delta * new / total),
            (self._count, new),
        ):
            variable.assign_add(tf.where(sound, change, tf.zeros_like(change)))

    def saved(self) -> dict[str, Any]:
        """Return the contents of a checkpoint by name."""
        return {'count': self._count, 'mean': self._mean, 'squares': self._squares}

    def summary(self) -> dict[str, tf.Tensor]:
        """Return the statistics by name, for the log."""
        return {'mean': self.mean, 'std': self.std}


def deviation(count: Any, squares: Any) -> tf.Tensor:
    """Return the standard deviation, 1 if there are no values.

    Args:
        count: Number of values.
        squares: Sum of their squared distances from the mean.
    """
    variance = squares / tf.maximum(count, 1)
    return tf.where(count > 0, tf.sqrt(variance + 1e-8), 1)


class NormalizeObserv(tf.Module):
    """Normalizes the floating-point leaves of observations, elementwise.

    Args:
        space: Space of the observations.
        enabled: Whether to normalize.
        clip: Limit of the absolute result.
        ranks: Ranks whose observations are in the statistics.
    """

    def __init__(self, space: gym.Space, enabled: bool, clip: float, ranks: Communicator = ALONE):
        super().__init__()
        self._specs = spaces.specs(space)
        self._normalizers = {
            name: StreamingNormalize(spec.shape, clip=clip, ranks=ranks)
            for name, spec in self._named(self._specs).items()
            if enabled and spec.dtype == 'float32'
        }

    @property
    def of_leaves(self) -> list[StreamingNormalize | None]:
        """Normalizers of the leaves, in the order of `nested`."""
        names = nested.names(self._specs, 'observ')
        return [self._normalizers.get(name) for name in names]

    def transform(self, observ: Nest) -> Nest:
        names = iter(nested.names(self._specs, 'observ'))

        def one(spec: Any, leaf: tf.Tensor) -> tf.Tensor:
            normalizer = self._normalizers.get(next(names))
            return normalizer.transform(leaf) if normalizer else leaf

        return nested.map(one, self._specs, observ)

    def parts(self) -> Nest:
        """Nest of normalizers; None for leaves that are not normalized."""
        names = iter(nested.names(self._specs, 'observ'))
        return nested.map(lambda _: self._normalizers.get(next(names)), self._specs)

    def update(self, observ: Nest, sound: tf.Tensor | bool = True) -> None:
        leaves = self._named(observ)
        for name, normalizer in self._normalizers.items():
            normalizer.update(leaves[name], sound)

    def saved(self) -> dict[str, Any]:
        """Return the contents of a checkpoint by name."""
        return self._normalizers

    def _named(self, nest: Nest) -> dict:
        names = nested.names(self._specs, 'observ')
        return dict(zip(names, nested.flatten(nest), strict=True))


class NormalizeReward(tf.Module):
    """Scales rewards by the standard deviation of the discounted return.

    The discounted sum of past rewards in an episode has a scale that does not depend on the length
    of episodes. The rewards of a rollout are scaled by statistics that include them.

    Args:
        num_agents: Number of agents.
        enabled: Whether to scale.
        discount: Discount factor γ.
        clip: Limit of the absolute result.
        ranks: Ranks whose rewards are in the statistics.
    """

    def __init__(
        self,
        num_agents: int,
        enabled: bool,
        discount: float,
        clip: float,
        ranks: Communicator = ALONE,
    ):
        super().__init__()
        self._enabled, self._discount = enabled, discount
        self._statistics = StreamingNormalize((), center=False, clip=clip, ranks=ranks)
        self._past = tf.Variable(tf.zeros(num_agents), trainable=False)

    def update(
        self,
        reward: tf.Tensor,
        begins: tf.Tensor,
        sound: tf.Tensor | bool = True,
        lost: tf.Tensor | bool = False,
    ) -> None:
        """Add the rewards of a rollout to the statistics if `sound`, without lost steps."""
        if not self._enabled:
            return
        past = returns.discounted_past(reward, begins, self._discount, self._past)
        self._past.assign(tf.where(sound, past[-1], self._past))
        counts = tf.logical_not(tf.broadcast_to(lost, past.shape))
        self._statistics.update(past, sound, counts)

    def saved(self) -> dict[str, Any]:
        """Return the contents of a checkpoint by name."""
        return {'statistics': self._statistics, 'returns': self._past}

    def per_agent_variables(self) -> Nest:
        """Variables of the agents of this rank, `[agent, ...]`."""
        return self._past

    def transform(self, reward: tf.Tensor) -> tf.Tensor:
        return self._statistics.transform(reward) if self._enabled else reward
