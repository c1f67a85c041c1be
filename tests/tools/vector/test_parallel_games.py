"""Games of several agents as a vector, and as a batch."""

import gymnasium as gym
import numpy as np
import pytest

from agents.tools import errors, nested
from agents.tools.batch.batch_env import BatchEnv
from agents.tools.vector.parallel_games import ParallelGames
from agents.tools.vector.vector_slice import VectorSlice


class Race:
    """A game of PettingZoo's parallel interface, for three runners.

    A runner observes the number of the race, its own and how far it is, and
    goes as far as its action says, which is the reward. It is terminated once
    it is 4 or farther, and the race is over after 3 steps.
    """

    metadata = {'render_fps': 7}  # noqa: RUF012
    possible_agents = ['a', 'b', 'c']  # noqa: RUF012
    render_mode = 'rgb_array'

    def __init__(self, late=()):
        self.races, self.seeds, self.closed, self.late = 0, [], False, late

    def observation_space(self, agent):
        return gym.spaces.Box(0.0, 100.0, (3,), np.float32)

    def action_space(self, agent):
        return gym.spaces.Discrete(5)

    def reset(self, seed=None, options=None):
        self.seeds.append(seed)
        self.races += 1
        self.time = 0
        self.place = dict.fromkeys(self.possible_agents, 0)
        self.agents = [x for x in self.possible_agents if x not in self.late]
        return self.observe(self.agents), {x: {} for x in self.agents}

    def step(self, actions):
        assert set(actions) == set(self.agents)
        assert all(type(action) is int for action in actions.values())
        self.time += 1
        for agent, action in actions.items():
            self.place[agent] += action
        terminated = {x: self.place[x] >= 4 for x in actions}
        truncated = {x: self.time >= 3 and not terminated[x] for x in actions}
        over = {x: terminated[x] or truncated[x] for x in actions}
        joined = [x for x in self.late if self.time == 1]
        self.agents = [x for x in self.agents if not over[x]] + joined
        observs = self.observe([*actions, *joined])
        rewards = {x: float(action) for x, action in actions.items()}
        return observs, rewards, terminated, truncated, {}

    def observe(self, agents):
        return {x: np.float32([self.races, ord(x) - ord('a'), self.place[x]]) for x in agents}

    def render(self):
        return np.full((2, 2, 3), self.races, np.uint8)

    def close(self):
        self.closed = True


@pytest.fixture
def start():
    def run(constructor=Race, count=3, of_slice=None, **settings):
        games = ParallelGames(constructor, count, **settings)
        member = VectorSlice(lambda: games, seed=4, **(of_slice or {}))
        return BatchEnv([member]), games

    return run


def play(batch, actions):
    """Step a batch; returns its reply, with observations as lists."""
    reply = batch._unpack(batch.step_packed(np.array(actions)))
    return nested.map(lambda part: np.asarray(part).tolist(), reply)


def test_agents_that_leave_wait_for_the_end_of_the_game(start):
    batch, _ = start()
    assert batch.reset().tolist() == [[1, 0, 0], [1, 1, 0], [1, 2, 0]]
    # The first one arrives, the second is slow, the third arrives later.
    reply = play(batch, [4, 1, 2])
    assert reply['reward'] == [4, 1, 2]
    assert reply['terminated'] == [True, False, False]
    assert reply['lost'] == [False] * 3
    assert reply['next_observ'] == [[1, 0, 4], [1, 1, 1], [1, 2, 2]]
    assert reply['observ'] == [[1, 0, 4], [1, 1, 1], [1, 2, 2]]
    # Its action is ignored now.
    reply = play(batch, [3, 1, 2])
    assert reply['reward'] == [0, 1, 2]
    assert reply['terminated'] == [False, False, True]
    assert reply['lost'] == reply['truncated'] == [True, False, False]
    assert reply['begins'] == [True, False, True]
    assert reply['next_observ'] == [[1, 0, 4], [1, 1, 2], [1, 2, 4]]
    # The second is truncated, and all of them begin anew.
    reply = play(batch, [3, 1, 3])
    assert reply['reward'] == [0, 1, 0]
    assert reply['terminated'] == [False] * 3
    assert reply['truncated'] == [True] * 3
    assert reply['lost'] == [True, False, True]
    assert reply['next_observ'] == [[1, 0, 4], [1, 1, 3], [1, 2, 4]]
    assert reply['observ'] == [[2, 0, 0], [2, 1, 0], [2, 2, 0]]
    reply = play(batch, [1, 1, 1])
    assert reply['lost'] == [False] * 3 and reply['reward'] == [1] * 3


def test_games_do_not_wait_for_each_other(start):
    batch, games = start(count=6)
    batch.reset()
    reply = play(batch, [4, 4, 4, 0, 1, 2])
    assert reply['terminated'] == [True] * 3 + [False] * 3
    assert [row[0] for row in reply['observ']] == [2, 2, 2, 1, 1, 1]
    assert reply['next_observ'][2] == [1, 2, 4]
    reply = play(batch, [1, 2, 3, 4, 4, 4])
    assert reply['lost'] == [False] * 6
    assert reply['reward'] == [1, 2, 3, 4, 4, 4]
    assert [game.seeds for game in games.games] == [[4, None], [5, None]]
    frames = batch.call('render')
    assert [frame[0, 0, 0] for frame in frames] == [2] * 6
    assert batch.metadata['render_fps'] == 7
    batch.close()
    assert all(game.closed for game in games.games)


def test_game_is_truncated_after_a_while(start):
    batch, _ = start(max_length=2)
    batch.reset()
    assert play(batch, [4, 1, 0])['truncated'] == [False] * 3
    reply = play(batch, [0, 3, 0])
    assert reply['terminated'] == [False, True, False]
    assert reply['truncated'] == [True, False, True]
    assert reply['lost'] == [True, False, False]
    assert reply['next_observ'] == [[1, 0, 4], [1, 1, 4], [1, 2, 0]]
    assert [row[0] for row in reply['observ']] == [2, 2, 2]


def test_agent_that_joins_later_has_lost_what_was_before(start):
    batch, _ = start(lambda: Race(late=['b']))
    assert batch.reset()[:, 1].tolist() == [0, 0, 2]
    reply = play(batch, [1, 3, 1])
    assert reply['lost'] == [False, True, False]
    assert reply['reward'] == [1, 0, 1]
    assert reply['observ'][1] == [1, 1, 0]
    assert reply['begins'] == [False, True, False]
    reply = play(batch, [1, 3, 1])
    assert reply['lost'] == [False] * 3 and reply['reward'] == [1, 3, 1]


def test_agent_that_joins_as_the_game_is_truncated_begins_with_the_next(start):
    batch, _ = start(lambda: Race(late=['b']), max_length=1)
    batch.reset()
    reply = play(batch, [1, 3, 1])
    assert reply['truncated'] == [True] * 3
    assert [row[0] for row in reply['observ']] == [2, 2, 2]


def test_agent_that_has_left_is_gone_even_if_the_game_shows_it(start):
    class Showing(Race):
        def observe(self, agents):
            found = super().observe(self.possible_agents)
            return {agent: part + self.time for agent, part in found.items()}

    batch, _ = start(Showing)
    batch.reset()
    left = play(batch, [4, 1, 1])['observ'][0]
    reply = play(batch, [1, 1, 1])
    assert reply['lost'] == [True, False, False]
    assert reply['observ'][0] == left
    assert play(batch, [1, 1, 1])['lost'] == [True, False, False]


class Telling(Race):
    """Tells where each runner is, and by a mask how far it may go.

    The mask has one choice, by the place, and none at the end.
    """

    def reset(self, seed=None, options=None):
        observs, _ = super().reset(seed, options)
        return observs, {x: self.tell(x, 100) for x in observs}

    def step(self, actions):
        *values, _ = super().step(actions)
        infos = {x: self.tell(x, self.place[x]) for x in values[0]}
        for agent in set(infos) - set(self.agents):
            infos[agent]['action_mask'][:] = 0
        return *values, infos

    def tell(self, agent, place):
        mask = np.eye(5, dtype=np.int8)[self.place[agent] % 5]
        return {'at': {'place': place}, 'action_mask': mask}


def test_infos_of_agents_are_those_of_the_step(start):
    batch, _ = start(Telling, of_slice={'log_info': ['at/place', 'no']})
    batch.reset()
    for actions, expected in (
        ([4, 1, 2], [4, 1, 2]),
        ([0, 1, 2], [np.nan, 2, 4]),
        ([0, 1, 0], [np.nan, 3, np.nan]),
        ([1, 2, 3], [1, 2, 3]),
    ):
        play(batch, actions)
        np.testing.assert_array_equal(batch._infos[0][:, 0], expected)
    assert {*batch.info_names()} == {'at/place', 'action_mask'}


@pytest.mark.parametrize('late', [[], ['b']])
def test_masks_of_agents_are_those_of_the_state_to_act_on(start, late):
    batch, _ = start(lambda: Telling(late), of_slice={'action_masks': True})
    assert batch.reset()['action_mask'].argmax(1).tolist() == [0, 0, 0]
    for actions, places in (
        ([1, 0, 2], [1, 0, 2]),
        ([1, 1, 1], [2, 1, 3]),
        ([1, 1, 0], [0, 0, 0]),
        ([1, 1, 1], [1, 0 if late else 1, 1]),
    ):
        observ = play(batch, actions)['observ']['action_mask']
        assert np.argmax(observ, 1).tolist() == places
        assert np.sum(observ) == 3


def test_part_of_a_game_is_refused():
    with pytest.raises(errors.EnvError, match='3 agents.*num_envs=4'):
        ParallelGames(Race, 4)


def test_spaces_that_differ_are_refused():
    class Uneven(Race):
        def action_space(self, agent):
            return gym.spaces.Discrete(3 if agent == 'b' else 5)

    with pytest.raises(errors.EnvError, match="action_space of 'b' is Discr"):
        ParallelGames(Uneven, 3)


def test_agent_that_vanishes_is_an_error(start):
    class Vanishing(Race):
        def observe(self, agents):
            return super().observe([x for x in agents if x != 'c' or not self.time])

    batch, _ = start(Vanishing)
    batch.reset()
    with pytest.raises(errors.EnvError, match="agent 'c' has left its game"):
        play(batch, [1, 1, 1])
