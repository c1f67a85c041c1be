"""The numbers of a plan, by hand."""

import gymnasium as gym
import numpy as np
import pytest

from agents.scripts import configs
from agents.tools import errors
from agents.training import plan


def make(native=False, **settings):
    small = {'num_agents': 4, 'update_every': 50, 'steps': 2000}
    return plan.make(configs.ppo(**{**small, **settings}), native)


@pytest.mark.parametrize('steps, trained', [(2000, 2000), (2001, 2200), (1999, 2000), (1, 200)])
def test_steps_are_rounded_up_to_whole_rollouts(steps, trained):
    for eval_every in (1, 300, 1000, 100_000):
        phases = make(steps=steps, eval_every=eval_every)
        assert (phases.rollout, phases.steps) == (200, trained)
        assert phases.eval_every == eval_every


def test_native_call_comprises_some_rollouts_if_they_are_small():
    # Calls of at most 32,768 steps, with rollouts of 200 at most 163.
    assert make(native=True).rollouts_at_once == 163
    assert make(native=True, num_agents=100).rollouts_at_once is None
    assert make().rollouts_at_once is None


def test_description_has_all_numbers():
    config = configs.ppo(
        num_agents=10, update_every=500, steps=1_000_000, eval_every=100_000, eval_episodes=7
    )
    assert plan.describe(config, plan.make(config)) == (
        '10 agents × 500 steps → update of 5,000 rows; 200 updates = '
        '1,000,000 steps; evaluation of 7 episodes every 100,000'
    )
    seldom = config.copy(eval_every=1e9, steps=4_999)
    assert plan.describe(seldom, plan.make(seldom)).endswith(
        'rows; 1 update = 5,000 steps; evaluation of 7 episodes every 5,000'
    )
    single = config.copy(num_agents=1, eval_episodes=1)
    text = plan.describe(single, plan.make(single))
    assert text.startswith('1 agent × ') and 'of 1 episode every' in text


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
