"""Multi-agent games with a shared policy, as a vector environment."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from agents.tools import errors
from agents.tools.batch.infos import LAST_INFO, LAST_OBSERV, LOST, MASK
from agents.tools.nested import Nest


class ParallelGames(gym.vector.VectorEnv):
    """Makes each agent of parallel games an environment.

    A game is a parallel environment of PettingZoo, or has its interface; all agents have equal
    spaces:

        def make(num_envs):
            return ParallelGames(pistonball_v6.parallel_env, num_envs, 125)

        config = configs.ppo(env=make, num_agents=20)

    The agents of a game come one after another, then those of the next game. A game continues until
    none of its agents is left, and restarts in the same step. An agent that left earlier waits for
    that: it keeps its last observation, its actions are ignored and its steps are lost, so that
        nothing
    is learnt from them. The same holds for agents that join later. Infos are per agent.

    Args:
        constructor: Function that makes a game.
        num_envs: Number of agents in all games together.
        max_length: Steps after which a game is truncated, or None.
        kwargs: Arguments of the constructor.
    """

    def __init__(
        self,
        constructor: Callable[..., Any],
        num_envs: int,
        max_length: int | None = None,
        **kwargs: Any,
    ):
        self.games = [constructor(**kwargs)]
        first = self.games[0]
        self._agents = list(first.possible_agents)
        size = len(self._agents)
        if num_envs % size:
            raise errors.EnvError(
                f'The game has {size} agents, of which num_envs={num_envs} are '
                f'no whole number of games. Choose multiples of {size} for '
                'num_agents and eval_episodes.'
            )
        self.games += [constructor(**kwargs) for _ in range(num_envs // size - 1)]
        self.metadata = {
            **getattr(first, 'metadata', {}),
            'autoreset_mode': AutoresetMode.SAME_STEP,
        }
        self.render_mode = getattr(first, 'render_mode', None)
        self.num_envs = num_envs
        self.single_observation_space = self._require_equal('observation_space')
        self.single_action_space = self._require_equal('action_space')
        self._max_length = max_length
        self._lengths = np.zeros(len(self.games), int)
        # What each agent has observed last, and whether it is in its game.
        self._observs: list[Any] = [None] * num_envs
        self._playing = np.zeros(num_envs, bool)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        told: list[Any] = [{}] * self.num_envs
        for number in range(len(self.games)):
            self._begin(number, told, None if seed is None else seed + number)
        return self._batch(), _as_vector(told)

    def step(self, actions: Nest) -> tuple:
        rewards = np.zeros(self.num_envs)
        flags = np.zeros((2, self.num_envs), bool)
        told: list[Any] = [{}] * self.num_envs
        lost = ~self._playing
        for number in range(len(self.games)):
            self._step_game(number, actions, rewards, flags, told)
        terminated, truncated = flags
        ended = terminated | truncated
        # Who left a game that goes on has its last observation for longer.
        last = _as_objects([observ if over else None for observ, over in zip(self._observs, ended)])
        last_told = [part if over else {} for part, over in zip(told, ended)]
        for number in range(len(self.games)):
            if not self._playing[self._rows(number)].any():
                self._begin(number, told)
        info = {**_as_vector(told), LAST_OBSERV: last, LAST_INFO: _as_vector(last_told), LOST: lost}
        return self._batch(), rewards, terminated, truncated, info

    def render(self) -> tuple:
        """Return the frame of the game of each agent."""
        return tuple(game.render() for game in self.games for _ in self._agents)

    def close_extras(self, **kwargs: Any) -> None:
        for game in self.games:
            game.close()

    def _step_game(
        self, number: int, actions: Nest, rewards: np.ndarray, flags: np.ndarray, told: list[Any]
    ) -> None:
        """Step a game, and write the results of its agents."""
        game = self.games[number]
        rows = dict(zip(self._agents, range(self.num_envs)[self._rows(number)]))
        given = {
            agent: _row(self.single_action_space, actions[row])
            for agent, row in rows.items()
            if self._playing[row]
        }
        observs, reward, terminated, truncated, infos = game.step(given)
        self._lengths[number] += 1
        over = self._max_length == self._lengths[number]
        for agent in given:
            if agent not in observs:
                raise errors.EnvError(
                    f'The agent {agent!r} has left its game with neither an '
                    'observation nor a sign that it is terminated or '
                    'truncated.'
                )
            row = rows[agent]
            rewards[row] = reward[agent]
            flags[:, row] = terminated[agent], truncated[agent]
            flags[1, row] |= over and not terminated[agent]
        for agent, observ in observs.items():
            row = rows[agent]
            if self._playing[row] or agent in game.agents:
                self._observs[row] = observ
                told[row] = infos.get(agent, {})
            self._playing[row] = agent in game.agents and not flags[:, row].any() and not over

    def _begin(self, number: int, told: list[Any], seed: int | None = None) -> None:
        """Reset a game, and write the infos of its agents."""
        game, rows = self.games[number], self._rows(number)
        observs, infos = game.reset(seed=seed)
        if not observs:
            raise errors.EnvError('A game has begun without any agent.')
        # For those that join later something of another; nobody learns from it.
        one = next(iter(observs))
        self._lengths[number] = 0
        for row, agent in enumerate(self._agents, rows.start):
            seen = agent if agent in observs else one
            self._observs[row], told[row] = observs[seen], infos.get(seen, {})
            self._playing[row] = agent in observs

    def _rows(self, number: int) -> slice:
        size = len(self._agents)
        return slice(number * size, (number + 1) * size)

    def _batch(self) -> Nest:
        space = self.single_observation_space
        out: Any = gym.vector.utils.create_empty_array(space, self.num_envs)
        return gym.vector.utils.concatenate(space, self._observs, out)

    def _require_equal(self, name: str) -> gym.Space:
        """Return the space of all agents; refuses different ones."""
        find = getattr(self.games[0], name)
        first, *others = self._agents
        for other in others:
            if find(other) != find(first):
                raise errors.EnvError(
                    'Agents that share a policy need equal spaces, but the '
                    f'{name} of {other!r} is {find(other)} where that of '
                    f'{first!r} is {find(first)}. Wrap the game, by those of '
                    'SuperSuit for example.'
                )
        return find(first)


def _row(space: gym.Space, action: Nest) -> Nest:
    """Return the action of one agent; discrete ones as integers."""
    return int(action) if isinstance(space, gym.spaces.Discrete) else action


def _as_vector(infos: Sequence[Mapping]) -> dict[str, Any]:
    """Convert infos of environments to the form of vector infos."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys(name for info in infos for name in info):
        present = np.array([name in info for info in infos])
        parts = [info[name] for info in infos if name in info]
        if all(isinstance(part, Mapping) for part in parts):
            found[name] = _as_vector([info.get(name, {}) for info in infos])
        else:
            found[name] = _as_objects([info.get(name) for info in infos])
        found[f'{MASK}{name}'] = present
    return found


def _as_objects(values: list[Any]) -> np.ndarray:
    """Return an array whose elements are arrays of any shape."""
    array = np.full(len(values), None, object)
    for index, value in enumerate(values):
        array[index] = value
    return array
