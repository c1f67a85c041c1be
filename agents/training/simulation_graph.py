"""Graph of a training: environments, algorithm and their variables."""

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from agents import algorithms, tools
from agents.parts import encodings
from agents.tools import cpu, errors, world
from agents.tools.attr_dict import AttrDict
from agents.training import env_setup

if TYPE_CHECKING:  # These import TensorFlow.
    from agents.algorithms.algorithm import Algorithm
    from agents.parts.policy import Policy
    from agents.tools.graph.graph_env import GraphEnv
    from agents.tools.graph.in_graph_batch_env import InGraphBatchEnv

# Rows of a rollout from which on several threads share an operation.
MANY_ROWS = 16_384


def define_batch_env(
    constructor: Callable[[], gym.Env], num_agents: int, env_processes: bool = True, **settings: Any
) -> 'InGraphBatchEnv':
    """Make a batch of Gymnasium environments in the graph, see `env_setup.start`.

    They step in worker processes or in this process.
    """
    envs = env_setup.start(constructor, num_agents, env_processes, **settings)
    return tools.InGraphBatchEnv(tools.BatchEnv(envs))


def use_threads(
    config: AttrDict, observ_space: gym.Space, ranks: world.World = world.ALONE
) -> None:
    """Import TensorFlow and set its number of threads."""
    from agents.tools.graph import devices

    cores = len(cpu.cores())
    if encodings.has_large_images(observ_space, config):
        devices.use_threads(cores)
        return
    if ranks.size == 1:
        # The policy and the value are learnt on threads of their own.
        cores = max(1, cores // 2)
    rows = config.num_agents * config.update_every
    if config.distribute == 'gather':
        rows *= ranks.size
    devices.use_threads(cores if rows > MANY_ROWS else 1)


def define_native_batch_envs(config: AttrDict, ranks: world.World = world.ALONE) -> list[Any]:
    """Make the batches of a native environment for training and evaluation."""
    from agents.environments.native_batch_env import NativeBatchEnv
    from agents.tools.graph import mpi

    env = env_setup.native(config)
    use_threads(config, env.observation_space, ranks)
    speaking = mpi.define(ranks)
    limit = env_setup.lowest(config.max_length, env.max_length)
    return [
        NativeBatchEnv(env, count, limit, config.seed, purpose, speaking)
        for purpose, count in (('train', config.num_agents), ('eval', config.eval_episodes))
    ]


def define_native_steps(config: AttrDict, num_agents: int) -> Any:
    """Make a native environment to be stepped from Python."""
    from agents.environments.native_batch_env import NativeBatchEnv
    from agents.environments.native_steps import NativeSteps

    env = env_setup.native(config)
    limit = env_setup.lowest(config.max_length, env.max_length)
    return NativeSteps(NativeBatchEnv(env, num_agents, limit, config.seed, 'play'))


def define_simulation_graph(
    batch_env: 'GraphEnv',
    eval_env: 'GraphEnv',
    config: AttrDict,
    one_program: bool = False,
    ranks: world.World = world.ALONE,
) -> 'SimulationGraph':
    """Build the algorithm of a configuration with its operations.

    Args:
        batch_env: Environments to train in.
        eval_env: Environments to evaluate in.
        config: Settings of this rank.
        one_program: Compile rollouts and updates as one program, see
            `agents.tools.graph.simulation.training`.
        ranks: All ranks.
    """
    from agents.algorithms.algorithm import Task
    from agents.tools.graph import mpi
    from agents.tools.graph.devices import SECOND_DEVICE
    from agents.training import networks

    alone = ranks.size == 1
    device = SECOND_DEVICE if alone and not one_program else None
    spaces = batch_env.observation_space, batch_env.action_space
    made = networks.define(*spaces, config, device)
    device = device if made.are_apart else None
    task = Task(
        *spaces,
        len(batch_env),
        config,
        device,
        mpi.define(ranks),
    )
    algo = algorithms.define(made, task)
    return SimulationGraph(algo, batch_env, eval_env, config, one_program, ranks)


class SimulationGraph:
    """Algorithm with its environments, and the operations of the phases.

    Attributes:
        algo: Algorithm.
        variables: Contents of a checkpoint by name, without state within a rollout, as checkpoints
            are written between rollouts.
        per_agent_variables: Variables of the agents of this rank, with the axis of the agents.
        agent_axes: Axis of the agents by name, for the agents of all ranks.
        batch_envs: Environments of each phase.

    Args:
        algo: Algorithm.
        batch_env: Environments to train in.
        eval_env: Environments to evaluate in.
        config: Settings.
        one_program: Compile rollouts and updates as one program.
        ranks: All ranks.
    """

    def __init__(
        self,
        algo: 'Algorithm',
        batch_env: 'GraphEnv',
        eval_env: 'GraphEnv',
        config: AttrDict,
        one_program: bool = False,
        ranks: world.World = world.ALONE,
    ):
        from agents.algorithms.actor import Actor
        from agents.tools.graph import mpi, simulation
        from agents.tools.graph.backend import tf
        from agents.tools.graph.episode_scores import EpisodeScores

        speaking = mpi.define(ranks)
        self._ranks, self._speaking = ranks, speaking
        self.algo = algo
        gathers = config.distribute == 'gather'
        self._alike = 'policy/' if gathers else ('policy/', 'algo/')
        self._batch_env, self._eval_env = batch_env, eval_env
        self.batch_envs = {'train': batch_env, 'eval': eval_env}
        self._scores = EpisodeScores(len(batch_env), speaking)
        self._train = simulation.training(
            batch_env, algo, self._scores, config.update_every, one_program
        )
        actor = Actor(algo.policy, len(eval_env))
        eval_scores = EpisodeScores(len(eval_env), speaking)
        self._every_scores = self._scores, eval_scores
        longest = env_setup.limit(config) or env_setup.ENDLESS

        whole = simulation.can_compile(eval_env, actor)

        @tf.function(autograph=False, jit_compile=whole)
        def evaluate() -> dict[str, tf.Tensor]:
            simulation.evaluation(eval_env, actor, eval_scores, longest)
            eval_env.end_evaluation()
            return eval_scores.clear()

        self._evaluate = evaluate
        self.variables = self._name_variables()
        self.per_agent_variables = self._list_of_agents()
        self.agent_axes = self._name_agent_axes()

    def train(self, rollouts: int = 1) -> dict[str, float]:
        """Collect rollouts and learn from each; returns mean metrics."""
        before = self._ranks.seconds
        numbers = self._call(
            functools.partial(self._train, rollouts), self._batch_env, self.algo.failure
        )
        if self._ranks.size > 1:
            numbers['rank_seconds'] = self._ranks.seconds - before
        return numbers

    def eval(self) -> dict[str, float]:
        """Play an episode of each environment; returns mean metrics."""
        self._eval_env.begin_evaluation()
        return self._call(self._evaluate, self._eval_env)

    def learnt(self) -> list[Any]:
        """Variables that must be equal on all ranks."""
        parts = [variable for variable, _ in self.per_agent_variables]
        return [
            variable
            for name, variable in self.variables.items()
            if name.startswith(self._alike) and not any(variable is part for part in parts)
        ]

    def longest_episode(self) -> int:
        """Return the length of the longest unfinished episode."""
        return max(int(scores.length.numpy().max()) for scores in self._every_scores)

    def restart(self) -> None:
        """Restart all episodes of the training."""
        self._batch_env.reset()
        self._scores.restart()
        self.algo.restart()

    def count_on(self, rollouts: int) -> None:
        """Set the number of rollouts, for random keys and schedules."""
        for name, variable in self.variables.items():
            if name.endswith('collector/rollouts'):
                variable.assign(rollouts)

    def _call(
        self,
        operation: Callable[[], Mapping[str, Any]],
        batch_env: 'GraphEnv',
        find_failure: Callable[[], Exception | None] = lambda: None,
    ) -> dict[str, float]:
        """Run an operation; raises errors from within the graph.

        Args:
            operation: Returns metrics by name.
            batch_env: Environments of the operation.
            find_failure: Returns the error that ends the training, or None.
        """
        from agents.tools.graph import programs
        from agents.tools.graph.backend import tf

        failure = batch_env.failure()
        if failure is not None:
            raise failure
        before = batch_env.seconds
        try:
            try:
                results = operation()
            except tf.errors.OpError as error:
                if not programs.give_up_cache(error):
                    raise
                if self._ranks.size > 1:  # Others may be ahead.
                    raise errors.UserError('Start again.') from error
                self.restart()
                results = operation()
        except Exception:
            failure = batch_env.failure() or self._speaking.failure()
            if failure is None:
                raise
            raise failure from None
        failure = find_failure()
        if failure is not None:
            raise failure
        numbers = {name: float(value) for name, value in results.items()}
        numbers['env_seconds'] = batch_env.seconds - before
        return numbers

    def _name_variables(self) -> dict[str, Any]:
        from agents.tools.graph import weights

        parts = {
            'algo': self.algo,
            'scores': self._scores,
            'env': self._batch_env,
            'eval_env': self._eval_env,
        }
        policy = name_policy(self.algo.policy)
        others = policy.values()
        return {**policy, **weights.named_variables(parts, others=others)}

    def _list_of_agents(self) -> list[tuple[Any, int]]:
        parts = self.algo, self._batch_env, self._eval_env
        found = [part.per_agent_variables() for part in parts]
        first = [(variable, 0) for variable in tools.nested.flatten(found)]
        return [*first, (self._scores.per_agent_variables(), 1)]

    def _name_agent_axes(self) -> dict[str, int]:
        axes = {id(variable): axis for variable, axis in self.per_agent_variables}
        for variable in tools.nested.flatten(self.algo.variables_of_all_agents()):
            axes[id(variable)] = 0
        return {
            name: axes[id(variable)]
            for name, variable in self.variables.items()
            if id(variable) in axes
        }


def name_policy(policy: 'Policy') -> dict[str, Any]:
    """Return the variables of a policy by their names in checkpoints.

    The names do not depend on the algorithm.
    """
    from agents.tools.graph import weights

    return weights.named_variables(policy, 'policy')
