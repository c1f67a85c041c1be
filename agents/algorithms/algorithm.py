"""Interface of an algorithm."""

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym

from agents.parts import layers
from agents.parts.policy import Policy
from agents.parts.record import Rollout
from agents.parts.sequences import Network
from agents.tools.attr_dict import AttrDict
from agents.tools.graph import weights
from agents.tools.graph.backend import tf
from agents.tools.graph.communicator import ALONE, Communicator
from agents.tools.nested import Nest
from agents.tools.transition import Transition


class Networks(NamedTuple):
    """Networks of an algorithm; see `agents.training.networks`.

    Attributes:
        policy: Parametrizes the action distributions.
        value: Predicts the return.
        encoder: Encoder that policy and value share, or None.
        value_copy: Copy of the value network on the device where the value is learnt, or None
            if that is the device of the others.
    """

    policy: Network
    value: Network
    encoder: Network | None = None
    value_copy: Network | None = None

    @property
    def learnt_value(self) -> Any:
        """Value network to train: the copy if there is one."""
        return self.value if self.value_copy is None else self.value_copy

    @property
    def are_convolutional(self) -> bool:
        """True if there are convolutions, so that XLA does not compile them."""
        return layers.has_convolutions(*self)

    @property
    def are_apart(self) -> bool:
        """True if policy and value can be learnt on different devices."""
        return self.encoder is None and not self.are_convolutional


class Task(NamedTuple):
    """Arguments of an algorithm.

    Attributes:
        observ_space: Space of the observations.
        action_space: Space of the actions.
        num_agents: Number of agents of this rank.
        config: Settings, see `agents.scripts.configs`.
        value_device: Device where the value is learnt, at the same time as the policy; None to
            learn it after the policy, on the same device, as with several ranks.
        ranks: Ranks that train together.
        rewards: Function of a rollout that returns the rewards to learn from, `[time, agent]`;
            by default those of the environments. Called in the graph once an update, so that
            GAIL can learn its rewards from the rollout as well.
        collect: Makes the collector of a policy, a value network and a task; by default
            `Collector`.
    """

    observ_space: gym.Space
    action_space: gym.Space
    num_agents: int
    config: AttrDict
    value_device: str | None = None
    ranks: Communicator = ALONE
    rewards: Callable[[Rollout], tf.Tensor] = lambda rollout: rollout.reward
    collect: Callable[..., Any] | None = None

    @property
    def averages_by_epoch(self) -> bool:
        """True if ranks average weights after an epoch instead of gradients."""
        return self.config.distribute == 'average_epochs'


class Algorithm(tf.Module):
    """Base class of algorithms, as `agents.tools.simulate` and the phases of training use them.

    An algorithm is made of `Networks` and a `Task`, and then called in this order:

        for _ in range(update_every):                   # agents.tools.rollout
            algo.begin_episode(batch_env.begins)        # agents.tools.simulate
            action = algo.perform(batch_env.observ)
            batch_env.simulate(action)
            algo.experience(observ, action, batch_env.transition)
            algo.end_episode(batch_env.transition.done)
        algo.update()

    All of it runs in the graph and is compiled: state is in variables, shapes are static, and
    agents are selected by boolean masks `[agent]`. External and native environments look the same.

    Attributes:
        policy: Policy to evaluate, save and load.
        convolutional: Whether networks have convolutions, so that XLA does not compile around them.
    """

    policy: Policy
    convolutional = False

    def restart(self) -> None:
        """Forget unfinished episodes, which will not be continued."""

    def begin_episode(self, begins: tf.Tensor) -> None:
        """Reset the state of agents whose episode begins, where the mask is true."""

    def perform(self, observ: Nest) -> tf.Tensor:
        """Choose actions `[agent, ...]` for observations `[agent, ...]`."""
        raise NotImplementedError

    def experience(self, observ: Nest, action: tf.Tensor, transition: Transition) -> None:
        """Observe the outcome of the actions."""

    def end_episode(self, done: tf.Tensor) -> None:
        """Observe the end of episodes, where the mask is true."""

    def update(self) -> dict[str, tf.Tensor]:
        """Learn from the experience since the last update.

        Returns:
            Metrics for the log by name, as 32-bit floats.
        """
        return {}

    def is_finite(self) -> tf.Tensor:
        """Return whether a program of several updates may continue."""
        return tf.constant(True)

    def failure(self) -> Exception | None:
        """Return the error that ends the training, or None; asked after each update."""
        return None

    def summary(self) -> dict[str, tf.Tensor]:
        """Return tensors for histograms, by name."""
        return {}

    def saved(self) -> dict[str, Any]:
        """Return the contents of a checkpoint by name.

        Variables, modules, networks and nests of them; the policy is saved in any case. Checkpoints
        are written between updates, so that state within a rollout can be left out. By default all
        variables, named by attributes.
        """
        return weights.attributes(self)

    def per_agent_variables(self) -> list[Any]:
        """Variables of the agents of this rank, `[agent, ...]`, in nests.

        Saved together for all ranks, so that a run can resume with another number of ranks.
        """
        return []

    def variables_of_all_agents(self) -> list[Any]:
        """Variables of the agents of all ranks, if this rank has them."""
        return []


class Wrapper(Algorithm):
    """Algorithm that forwards to another one; a base for algorithms that add to it.

    Attributes:
        algorithm: Wrapped algorithm.
    """

    algorithm: Algorithm

    @property
    def convolutional(self) -> bool:  # type: ignore[override]
        return self.algorithm.convolutional

    def restart(self) -> None:
        self.algorithm.restart()

    def begin_episode(self, begins: tf.Tensor) -> None:
        self.algorithm.begin_episode(begins)

    def perform(self, observ: Nest) -> tf.Tensor:
        return self.algorithm.perform(observ)

    def experience(self, observ: Nest, action: tf.Tensor, transition: Transition) -> None:
        self.algorithm.experience(observ, action, transition)

    def end_episode(self, done: tf.Tensor) -> None:
        self.algorithm.end_episode(done)

    def update(self) -> dict[str, tf.Tensor]:
        return self.algorithm.update()

    def is_finite(self) -> tf.Tensor:
        return self.algorithm.is_finite()

    def failure(self) -> Exception | None:
        return self.algorithm.failure()

    def summary(self) -> dict[str, tf.Tensor]:
        return self.algorithm.summary()

    def per_agent_variables(self) -> list[Any]:
        return self.algorithm.per_agent_variables()

    def saved(self) -> dict[str, Any]:
        return self.algorithm.saved()
