"""Generative adversarial imitation learning."""

from collections.abc import Callable
from typing import Any

from agents.algorithms import pieces
from agents.algorithms.algorithm import Algorithm, Networks, Task, Wrapper
from agents.algorithms.gail.discriminator import Discriminator
from agents.algorithms.gail.rewards import FORMS
from agents.parts.cloning import Cloner
from agents.parts.expert import Expert, Steps, given_action
from agents.parts.record import Rollout
from agents.tools import nested
from agents.tools.graph import loops, random, state
from agents.tools.graph.backend import compile_unless_conv, tf

# How much of what is known of the ends of episodes an update keeps.
DECAY = 0.9

LOGGED = ('discriminator_loss', 'accuracy_policy', 'accuracy_expert', 'learnt_reward')


class GAIL(Wrapper):
    """Trains another algorithm on rewards of a discriminator.

    The discriminator learns to tell steps of the policy from demonstrations, and its output
    replaces the rewards of the environments. Any algorithm can be trained so.

    See the README beside this file for the paper and the deviations from it.

    Args:
        define: Function that makes the algorithm of networks and a task.
        networks: Networks of the algorithm.
        task: Spaces, number of agents, settings and ranks.
    """

    def __init__(self, define: Callable[..., Algorithm], networks: Networks, task: Task):
        super().__init__()
        config = task.config
        self.algorithm = define(networks, task._replace(rewards=self._judge))
        self.policy = self.algorithm.policy
        self.expert = Expert(config, task.observ_space, task.action_space)
        self.discriminator = Discriminator(task)
        self._cloner: Cloner | None = None
        if config.clone_steps:
            optimizer = pieces.define_optimizer(self.policy.weights, task)
            self._cloner = Cloner(self.policy, self.expert, optimizer, config.clone_batch_size)
        self._config = config
        self._actions = task.action_space
        self._ranks = task.ranks
        seed = random.seed_of(config.seed, task.ranks.rank)
        self._seed = tf.Variable(seed, trainable=False)
        self._updates = tf.Variable(0, trainable=False)
        # Ends of the policy's episodes and its steps, of which the last ones
        # count most.
        self._ends = tf.Variable(0.0, trainable=False)
        self._steps = tf.Variable(0.0, trainable=False)
        self._log = state.variables(dict.fromkeys(LOGGED, tf.zeros(())))

    def update(self) -> dict[str, tf.Tensor]:
        metrics = self.algorithm.update()
        if self._cloner is not None:
            self._clone_once(self._cloner)
        return {**metrics, **state.read(self._log)}

    def failure(self) -> Exception | None:
        return self.algorithm.failure() or self.discriminator.optimizer.failure()

    def summary(self) -> dict[str, tf.Tensor]:
        return {**self.algorithm.summary(), **self.discriminator.optimizer.summary('discriminator')}

    def saved(self) -> dict[str, Any]:
        cloner = self._cloner and self._cloner.optimizer
        return {
            **self.algorithm.saved(),
            # Together, as the algorithm may have the same names.
            'gail': {
                'discriminator': self.discriminator,
                'cloner': {'optimizer': cloner},
                'updates': self._updates,
                'episodes': {'ends': self._ends, 'steps': self._steps},
            },
        }

    @compile_unless_conv
    def _clone_once(self, cloner: Cloner) -> None:
        """Clone the demonstrations once, after the first update.

        By then the normalizer has statistics of observations.
        """
        count = self._config.clone_steps
        key = random.key(self._seed, 'clone', 0)

        def clone() -> tf.Tensor:
            return cloner.update(key, count)['loss']

        tf.cond(self._updates == 1, clone, lambda: 0.0)

    def _judge(self, rollout: Rollout) -> tf.Tensor:
        """Return the rewards to learn from, `[time, agent]`."""
        steps = self._define_steps(rollout)
        sound = ~self._ranks.any(~self._are_sound(steps))
        metrics = self._learn(steps, sound)
        logits = tf.reshape(self.discriminator.logits(steps), rollout.reward.shape)
        form = FORMS[self._config.rewards]
        reward = form(logits)
        discount = self._config.discount
        # What would have followed is worth as much as being at an end, forever.
        end = form(self._judge_end(rollout.terminated))
        end *= discount / max(1.0 - discount, 1e-3)
        mean = self._ranks.mean(tf.reduce_mean(reward))
        state.assign(self._log, {**metrics, 'learnt_reward': mean})
        return reward + tf.where(rollout.terminated, end, 0.0)

    def _define_steps(self, rollout: Rollout) -> Steps:
        """Return the steps of a rollout as rows for the discriminator."""
        count = rollout.reward.shape.num_elements()
        action = given_action(rollout.action, self._actions)

        def merge(x: tf.Tensor) -> tf.Tensor:
            return tf.reshape(x, [count, *x.shape[2:]])

        return nested.map(merge, Steps(rollout.observ, action))

    def _are_sound(self, steps: Steps) -> tf.Tensor:
        """Return whether all numbers are finite."""
        sums = [tf.reduce_sum(tf.cast(leaf, tf.float32)) for leaf in nested.flatten(steps)]
        return tf.math.is_finite(tf.add_n(sums))

    def _learn(self, steps: Steps, sound: tf.Tensor) -> dict[str, tf.Tensor]:
        """Train the discriminator on a rollout; returns metrics."""
        config = self._config
        count, size = (config.discriminator_steps, config.discriminator_batch)
        rows = nested.flatten(steps)[0].shape[0]
        number = self._updates * count
        self._updates.assign_add(1)

        def key(purpose: str, step: tf.Tensor) -> tf.Tensor:
            return random.key(self._seed, purpose, number + step)

        zero = tf.constant(0)
        self.discriminator.see(steps, sound)
        seen = self.expert.draw(key('discriminator_statistics', zero), rows)
        self.discriminator.see(seen, sound)

        def step(index: tf.Tensor) -> dict[str, tf.Tensor]:
            uniform = random.uniform(key('discriminator_rows', index), (size,))
            chosen = tf.cast(uniform * rows, tf.int32)
            return self.discriminator.learn(
                nested.map(lambda x: tf.gather(x, chosen), steps),
                self.expert.draw(key('discriminator_expert', index), size),
                random.uniform(key('discriminator_mixture', index), (size, 1)),
                sound,
            )

        sums = loops.add_up(step, count)
        means = nested.map(lambda x: x / count, sums)
        return {
            'discriminator_loss': means['loss'],
            'accuracy_policy': means['accuracy_policy'],
            'accuracy_expert': means['accuracy_expert'],
        }

    def _judge_end(self, terminated: tf.Tensor) -> tf.Tensor:
        """Return the logit of the discriminator for the end of an episode.

        Terminal states have no features, so that only their frequency can be compared: it is the
        logarithm of the frequency of the expert over that of the policy.
        """
        ranks = self._ranks
        share = tf.reduce_mean(tf.cast(terminated, tf.float32))
        count = ranks.size * terminated.shape.num_elements()
        self._ends.assign(DECAY * self._ends + count * ranks.mean(share))
        self._steps.assign(DECAY * self._steps + count)
        expert = (self.expert.deaths + 0.5) / (self.expert.steps + 1.0)
        policy = (self._ends + 0.5) / (self._steps + 1.0)
        return tf.math.log(expert / policy)
