"""The numbers of a plan, by hand."""

import gymnasium as gym
import numpy as np
import pytest

from agents.scripts import configs, plan
from agents.tools import errors


def make(native=False, begun=0, **settings):
    small = {
        'num_agents': 4,
        'update_every': 50,
        'steps': 2000,
        'eval_every': 1000,
        'eval_episodes': 3,
        'max_length': 20,
    }
    return plan.make(configs.ppo(**{**small, **settings}), native, begun)


def test_numbers_that_divide():
    # A rollout is 4 × 50 = 200 steps, of which 5 make 1000 and 10 make 2000.
    # An evaluation takes at most 3 × 20 steps.
    phases = make()
    assert (phases.rollout, phases.train, phases.cycles) == (200, 1000, 2)
    assert phases.evaluation == 60
    assert phases.steps == 2000
    assert phases.last_step == 2 * (1000 + 60)


@pytest.mark.parametrize(
    'settings, updates, cycles',
    [
        # 2100 / 200 = 10.5, which rounds to the even 10.
        ({'steps': 2100}, 5, 2),
        # 2200 / 200 = 11 updates, 2200 / 1000 rounds to 2 evaluations; halves
        # of 11 updates round to 6.
        ({'steps': 2200}, 6, 2),
        # An evaluation every 300 steps would be 6.7 in 2000 steps; 7 of them
        # have 10 / 7 updates each, about 1.
        ({'eval_every': 300}, 1, 7),
        # An evaluation cannot come within a rollout.
        ({'eval_every': 1}, 1, 10),
        # Evaluation takes place at least once, at the end.
        ({'eval_every': 10_000}, 10, 1),
        # There is at least one update.
        ({'steps': 1}, 1, 1),
        ({'steps': 200, 'eval_every': 200}, 1, 1),
    ],
)
def test_numbers_that_are_rounded(settings, updates, cycles):
    phases = make(**settings)
    assert phases.train == 200 * updates
    assert phases.cycles == cycles
    assert phases.steps == 200 * updates * cycles


@pytest.mark.parametrize(
    'begun, together',
    # Phases of 12 updates of 1000 steps. Calls end where a phase does, from
    # wherever it is gone on.
    [(0, 12), (24_000, 12), (12_000 + 8_000, 4), (3_000, 3), (4_999, 1)],
)
def test_rest_of_a_phase_is_divided_into_calls(begun, together):
    phases = make(
        native=True,
        begun=begun,
        num_agents=10,
        update_every=100,
        steps=36_000,
        eval_every=12_000,
    )
    assert phases.train == 12_000
    assert phases.call == 1000 * together


@pytest.mark.parametrize(
    'updates, together',
    [
        # Calls of at most 32,768 steps, with rollouts of 1000 at most 32
        # updates, and of those a divisor of the updates in a phase.
        (10, 10),
        (32, 32),
        (33, 11),
        (37, 1),
        (64, 32),
    ],
)
def test_native_call_comprises_several_updates(updates, together):
    phases = make(
        native=True,
        num_agents=10,
        update_every=100,
        steps=1000 * updates,
        eval_every=1000 * updates,
    )
    assert (phases.rollout, phases.call) == (1000, 1000 * together)
    assert phases.train == 1000 * updates


def test_native_call_has_at_least_one_update():
    phases = make(native=True, num_agents=1000, update_every=100)
    assert phases.call == phases.rollout == 100_000


def test_call_of_external_environments_is_one_update():
    phases = make()
    assert phases.call == phases.rollout


def test_description_has_all_numbers():
    config = configs.ppo(
        num_agents=10,
        update_every=500,
        steps=1_000_000,
        eval_every=100_000,
        eval_episodes=7,
    )
    assert plan.describe(config, plan.make(config)) == (
        '10 agents × 500 steps → update of 5,000 rows; 200 updates = '
        '1,000,000 steps; evaluation of 7 episodes every 100,000'
    )


def test_network_of_the_user_is_told_as_theirs():
    def mine(observ_space, action_space, config):
        raise AssertionError('It is not made for that.')

    config = configs.ppo(network=mine)
    told = plan.describe_network(None, None, config)
    assert told == ['mine, a function of yours']


def test_observations_too_large_for_networks_or_memory_are_refused():
    large = gym.spaces.Discrete(10**7)
    vector = gym.spaces.Box(-1, 1, (2**17,), np.float32)
    image = gym.spaces.Box(0, 255, (4000, 4000), np.uint8)
    spaces = gym.spaces
    config = configs.ppo(num_agents=4, update_every=50)
    for space, changes, message in [
        (spaces.Box(0, 255, (640, 480, 3), np.uint8), {}, None),
        (large, {}, r'262,144 .*, got 10,000,000, .* of observation, Discrete'),
        (spaces.MultiDiscrete([200_000] * 2), {}, 'got 400,000'),
        (spaces.MultiBinary(300_000), {}, 'got 300,000'),
        (spaces.Dict(a=vector, b=vector), {}, None),
        (spaces.Dict(a=vector, b=vector, c=vector), {}, 'got 393,216.*ation a'),
        (large, {'network': lambda: None}, None),
        (image, {'update_every': 10**6}, r'got 64,000.0 GB .*= 4,000,000'),
    ]:
        given = space, spaces.Discrete(2), config.copy(**changes)
        if message is None:
            plan.require_room(*given)
            continue
        with pytest.raises(errors.ConfigError, match=message):
            plan.require_room(*given)
