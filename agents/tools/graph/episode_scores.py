"""Scores and lengths of the episodes of a batch."""

from agents.tools.graph.backend import tf

# More episodes than there ever are.
UNLIMITED = 1e30


class EpisodeScores(tf.Module):
    """Sums the rewards and counts the steps of each episode of a batch.

    Args:
        num_agents: Number of environments in the batch.
    """

    def __init__(self, num_agents: int):
        super().__init__()
        # The score, the length and the number of episodes left of each agent,
        # and the sums over all episodes that ended with how many there were.
        # Two variables rather than six, as each makes a compiled call slower.
        self._running = tf.Variable(tf.zeros((3, num_agents)), trainable=False)
        self._totals = tf.Variable(tf.zeros(3), trainable=False)
        self.restart()

    @property
    def counting(self) -> tf.Tensor:
        """Which agents have episodes left that count."""
        return self._running[2] > 0

    @property
    def length(self) -> tf.Tensor:
        """The steps that the episode of each agent has taken so far."""
        return self._running[1]

    def restart(self, episodes: float = UNLIMITED) -> None:
        """Begin new episodes, so many of which count for each agent."""
        zeros = tf.zeros_like(self._running[0])
        self._running.assign(tf.stack([zeros, zeros, zeros + float(episodes)]))

    def submit(
        self, reward: tf.Tensor, done: tf.Tensor, lost: tf.Tensor
    ) -> None:
        """Take in one step of the batch.

        Episodes whose last step was lost do not count.
        """
        score, length, left = tf.unstack(self._running)
        score, length = score + reward, length + 1
        ended = tf.stack([score, length, tf.ones_like(score)])
        whole = done & ~lost
        counts = whole & (left > 0)
        self._totals.assign_add(tf.reduce_sum(tf.where(counts, ended, 0.0), -1))
        score, length = tf.where(done, 0.0, score), tf.where(done, 0.0, length)
        left -= tf.cast(whole, tf.float32)
        self._running.assign(tf.stack([score, length, left]))

    def clear(self) -> dict[str, tf.Tensor]:
        """Take the number of episodes since the last time, and their means."""
        score, length, episodes = tf.unstack(self._totals)
        self._totals.assign(tf.zeros_like(self._totals))
        some = tf.maximum(episodes, 1.0)
        return {
            'episodes': episodes, 'score': score / some, 'length': length / some
        }  # fmt: skip
