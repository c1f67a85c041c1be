"""Interface of a kind of environments."""

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from agents.tools.attr_dict import AttrDict
from agents.tools.checking.inspection_report import Report
from agents.tools.workers.restarts import Restarts
from agents.tools.world import World
from agents.training.reporter import Reporter

if TYPE_CHECKING:  # It imports TensorFlow.
    from agents.tools.graph.graph_env import GraphEnv


@dataclasses.dataclass(frozen=True)
class Request:
    """Request for the environments of a training.

    Attributes:
        config: Settings of this rank.
        env_processes: Use worker processes or not; None for whichever is faster.
        step: Training step at which the run starts or resumes. A resumed run plays other
            episodes than it did at its start.
        reporter: Prints progress.
        restarts: Budget for restarts of crashed workers.
        ranks: Ranks that have environments of their own.
    """

    config: AttrDict
    env_processes: bool | None
    step: int
    reporter: Reporter
    restarts: Restarts
    ranks: World


class EnvKind(abc.ABC):
    """Kind of environments: makes them for training and for other uses.

    Attributes:
        in_graph: Whether steps are operations of TensorFlow, so that a program can comprise several
            updates.
        may_have_images: Whether the settings may have to be chosen for images.
        most_agents: Maximum number of episodes that are played at the same time.
        inspected_agents: Number of agents whose steps a check measures together, or None for one.
    """

    in_graph = False
    may_have_images = True
    most_agents = 16
    inspected_agents: int | None = None

    @abc.abstractmethod
    def matches(self, config: AttrDict) -> bool:
        """Return whether a configuration asks for this kind."""

    @abc.abstractmethod
    def require(self, config: AttrDict) -> None:
        """Refuse invalid settings; makes no environment."""

    @abc.abstractmethod
    def start_training(self, request: Request) -> 'list[GraphEnv]':
        """Start the environments for training and those for evaluation."""

    @abc.abstractmethod
    def start_playing(
        self,
        config: AttrDict,
        num_agents: int,
        env_processes: bool | None = None,
        render_mode: str | None = None,
    ) -> Any:
        """Start environments that are stepped from Python, with the interface of `BatchEnv`.

        Args:
            config: Settings.
            num_agents: Number of environments.
            env_processes: Use worker processes, None for whichever is faster.
            render_mode: Render mode, or None.
        """

    @abc.abstractmethod
    def observation_space(self, config: AttrDict, env_processes: bool) -> gym.Space:
        """Return the observation space, of an environment made for this."""

    def inspection(self, config: AttrDict) -> tuple[Callable[..., Report], Callable[[], Any]]:
        """Return the function that inspects an environment, and one that makes it."""
        raise NotImplementedError

    def video_obstacle(self, config: AttrDict, render_modes: Sequence[str]) -> str | None:
        """Return why there can be no video, or None."""
        return None
