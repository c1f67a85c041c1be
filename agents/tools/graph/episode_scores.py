"""Scores and lengths of the episodes of a batch."""

from typing import Any

from agents.tools.graph.backend import tf
from agents.tools.graph.communicator import ALONE, Communicator

# More episodes than there ever are.
UNLIMITED = 1e30

# Beyond every score, and finite, as nothing else is saved.
BEYOND = 1e300

# The totals of no episodes.
NOTHING = 0.0, 0.0, 0.0, 0.0, BEYOND, -BEYOND


class EpisodeScores(tf.Module):
    """Sums rewards and counts steps of each episode of a batch.

    Args:
        num_agents: Number of environments in the batch.
        ranks: Ranks whose episodes are reported together.
    """

    def __init__(self, num_agents: int, ranks: Communicator = ALONE):
        super().__init__()
        self._ranks = ranks
        # The score, the length and the number of episodes left of each agent.
        self._running = tf.Variable(tf.zeros((3, num_agents)), trainable=False)
        # Of the episodes that ended: how many there were, the sums of their
        # lengths, of their scores and of the squares of these, the lowest
        # score and the highest. In 64 bits, as the squares of scores that are
        # large beside their spread would lose it. These are two variables
        # rather than nine, as each makes a compiled call slower.
        totals = tf.constant(NOTHING, tf.float64)
        self._totals = tf.Variable(totals, trainable=False)
        self.restart()

    def saved(self) -> dict[str, tf.Variable]:
        """Return the contents of a checkpoint by name."""
        return {'running': self._running, 'totals': self._totals}

    @property
    def counting(self) -> tf.Tensor:
        """Mask of the agents that have episodes left to count."""
        return self._running[2] > 0

    @property
    def length(self) -> tf.Tensor:
        """Steps of the current episode of each agent."""
        return self._running[1]

    def restart(self, episodes: float = UNLIMITED) -> None:
        """Start new episodes, of which `episodes` count for each agent; None for all."""
        zeros = tf.zeros_like(self._running[0])
        self._running.assign(tf.stack([zeros, zeros, zeros + float(episodes)]))

    def submit(self, reward: tf.Tensor, done: tf.Tensor, lost: tf.Tensor) -> None:
        """Add one step of the batch.

        Episodes whose last step was lost do not count.
        """
        score, length, left = tf.unstack(self._running)
        score, length = score + reward, length + 1
        whole = done & ~lost
        self._add(score, length, whole & (left > 0))
        score, length = tf.where(done, 0.0, score), tf.where(done, 0.0, length)
        left -= tf.cast(whole, tf.float32)
        self._running.assign(tf.stack([score, length, left]))

    def end_all(self) -> None:
        """Count unfinished episodes as if they had ended."""
        score, length, left = tf.unstack(self._running)
        self._add(score, length, left > 0)

    def clear(self) -> dict[str, tf.Tensor]:
        """Return the statistics of the episodes since the last call, and reset them.

        Returns:
            Over all ranks the number of `episodes`, the means of `score` and `length`, and
            `score_std`, `score_min` and `score_max`; zeros if there were none.
        """
        totals = self._gather_totals()
        episodes, length, score, squares, low, high = tf.unstack(totals)
        self._totals.assign(tf.constant(NOTHING, tf.float64))
        some = tf.maximum(episodes, 1.0)
        mean = score / some
        # Rounding must not make it negative.
        variance = tf.maximum(squares / some - mean**2, 0.0)
        results = {
            'episodes': episodes,
            'score': mean,
            'score_std': tf.sqrt(variance),
            'score_min': tf.where(episodes > 0, low, 0.0),
            'score_max': tf.where(episodes > 0, high, 0.0),
            'length': length / some,
        }
        return {name: tf.cast(value, tf.float32) for name, value in results.items()}

    def per_agent_variables(self) -> Any:
        """Variable of the agents of this rank, `[number, agent]`."""
        return self._running

    def _gather_totals(self) -> tf.Tensor:
        mine = self._totals.read_value()
        if self._ranks.size == 1:
            return mine
        every = tf.stack(self._ranks.gather(mine))
        return tf.concat(
            [
                tf.reduce_sum(every[:, :4], 0),
                tf.reduce_min(every[:, 4:5], 0),
                tf.reduce_max(every[:, 5:], 0),
            ],
            0,
        )

    def _add(self, score: tf.Tensor, length: tf.Tensor, ended: tf.Tensor) -> None:
        """Add the episodes `[agent]` that ended to the totals."""
        score, length = tf.cast(score, tf.float64), tf.cast(length, tf.float64)
        terms = tf.stack([tf.ones_like(score), length, score, score**2])
        sums = tf.reduce_sum(tf.where(ended, terms, 0.0), -1)
        low = tf.reduce_min(tf.where(ended, score, BEYOND))
        high = tf.reduce_max(tf.where(ended, score, -BEYOND))
        totals = self._totals.read_value()
        low, high = tf.minimum(totals[4], low), tf.maximum(totals[5], high)
        self._totals.assign(tf.concat([totals[:4] + sums, [low, high]], 0))
