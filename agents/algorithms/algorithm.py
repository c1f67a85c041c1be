"""The contract of an algorithm."""

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
    """The networks of an algorithm; see `agents.training.networks`.

    Attributes:
        policy: Describes the actions.
        value: Predicts the return.
        encoder: What both of them see observations by, or None if they see
            these themselves.
        value_copy: Copy of the value network on the device where the value is learnt, or None
            if that is the device of the others.
    """

    policy: Network
    value: Network
    encoder: Network | None = None
    value_copy: Network | None = None

    @property
    def learnt_value(self) -> Any:
        """Value network to learn: its copy if there is one."""
        return self.value if self.value_copy is None else self.value_copy

    @property
    def are_convolutional(self) -> bool:
        """Whether programs are not to be compiled around them."""
        return layers.has_convolutions(*self)

    @property
    def are_apart(self) -> bool:
        """Whether they can be learnt on different devices."""
        return self.encoder is None and not self.are_convolutional


class Task(NamedTuple):
    """What an algorithm is made for.

    Attributes:
        observ_space: Space of the observations.
        action_space: Space of the actions.
        num_agents: Number of agents of this rank.
        config: Settings, see `agents.scripts.configs`.
        value_device: Device where the value is learnt, at the same time as the policy; None to
            learn it after the policy, on the same device, as with several ranks.
        ranks: Those that learn together.
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
        """Whether ranks average weights after an epoch, not gradients in it."""
        return self.config.distribute == 'average_epochs'


class Algorithm(tf.Module):
    """What `agents.tools.simulate` and a phase of training ask for.

    One is made of `Networks` and a `Task`, and then:

        for _ in range(update_every):                   # agents.tools.rollout
            algo.begin_episode(batch_env.begins)        # agents.tools.simulate
            action = algo.perform(batch_env.observ)
            batch_env.simulate(action)
            algo.experience(observ, action, batch_env.transition)
            algo.end_episode(batch_env.transition.done)
        algo.update()

    All of it runs in the graph and is compiled: state is in variables, shapes
    are static, and agents are told apart by boolean masks `[agent]`. Nothing
    here knows whether the environments are external or native.

    Attributes:
        policy: The policy, to evaluate, to save and to load again.
        convolutional: Whether there are convolutions in what it computes, so
            that programs are not compiled around it.
    """

    policy: Policy
    convolutional = False

    def restart(self) -> None:
        """Forget the episodes under way, which will not be continued."""

    def begin_episode(self, begins: tf.Tensor) -> None:
        """Forget the episode before, where the mask is true."""

    def perform(self, observ: Nest) -> tf.Tensor:
        """Choose actions `[agent, ...]` for observations `[agent, ...]`."""
        raise NotImplementedError

    def experience(self, observ: Nest, action: tf.Tensor, transition: Transition) -> None:
        """Take in what came of the actions."""

    def end_episode(self, done: tf.Tensor) -> None:
        """Conclude the episode, where the mask is true."""

    def update(self) -> dict[str, tf.Tensor]:
        """Learn from the experience since the last update.

        Returns:
            Numbers by name for the log, as 32-bit floats.
        """
        return {}

    def is_finite(self) -> tf.Tensor:
        """Whether to go on within a program of several updates."""
        return tf.constant(True)

    def failure(self) -> Exception | None:
        """Why to give up, if there is reason to; asked after each update."""
        return None

    def summary(self) -> dict[str, tf.Tensor]:
        """Tensors by name that are worth a histogram."""
        return {}

    def saved(self) -> dict[str, Any]:
        """Return what a checkpoint holds, by name.

        Variables, modules, networks and nests of them; the policy is saved
        anyhow. Checkpoints are written between updates, so that what only
        matters within a rollout can be left out. By default all variables, by
        the names of attributes.
        """
        return weights.attributes(self)

    def per_agent_variables(self) -> list[Any]:
        """Variables of the agents of this rank, `[agent, ...]`, in nests.

        Those of all ranks are saved together, so that a run goes on with
        another number of ranks.
        """
        return []

    def variables_of_all_agents(self) -> list[Any]:
        """The same of all ranks' agents, where this one has them all."""
        return []


class Wrapper(Algorithm):
    """Lets another algorithm do everything, to be done with something beside.

    Attributes:
        algorithm: The other one.
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
