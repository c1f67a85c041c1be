"""A task that can be solved with a memory and cannot without."""

import gymnasium as gym
import numpy as np
import pytest

import agents
from agents.scripts import configs

LENGTH = 4


class Recall(gym.Env):
    """The first observation is the action to give in the last step."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cue, self.time = int(self.np_random.integers(2)), 0
        return self.observ(2 * self.cue - 1), {}

    def step(self, action):
        self.time += 1
        over = self.time == LENGTH
        reward = (1.0 if action == self.cue else -1.0) if over else 0.0
        return self.observ(0), reward, over, False, {}

    def observ(self, cue):
        return np.array([cue, self.time == LENGTH - 1], np.float32)


def final_score(network):
    """The mean score of an evaluation after the training."""
    config = configs.ppo(
        env=Recall,
        network=network,
        max_length=LENGTH,
        num_agents=16,
        steps=5_000,
        update_every=16,
        update_epochs=4,
        batch_size=64,
        eval_every=5_000,
        eval_episodes=64,
        learning_rate=1e-2,
        recurrent_units=8,
        policy_layers=[8],
        value_layers=[8],
    )
    *_, score = agents.train(config, env_processes=False)
    return score


@pytest.mark.slow
def test_recurrent_network_solves_it():
    assert final_score('recurrent') > 0.9


@pytest.mark.slow
def test_feed_forward_network_cannot():
    # Guessing scores 0 on average, with a deviation of ⅛.
    assert abs(final_score('feed_forward')) < 0.6


@pytest.mark.slow
@pytest.mark.parametrize('name', ['memory_native', 'catch_native'])
def test_native_games_are_learnt(name):
    config = getattr(configs, name)().copy(steps=30_000, eval_every=30_000)
    *_, score = agents.train(config)
    assert score > 0.8


@pytest.mark.slow
def test_first_command_of_the_readme_learns():
    """Chance is near -1200; five seeds have reached -161 in the mean."""
    config = configs.pendulum()
    config = config.copy(eval_every=config.steps, eval_episodes=50)
    *_, score = agents.train(config)
    assert score > -250
