"""Whole updates, compiled, on every kind of observation and action."""

import gymnasium as gym
import numpy as np
import pytest

import agents
from agents.scripts import configs

OBSERVS = {
    'Box': gym.spaces.Box(-1, 1, (), np.float32),
    'Dict': gym.spaces.Dict(
        b=gym.spaces.Box(-1, 1, (2,), np.float32), a=gym.spaces.Discrete(3, start=1)
    ),
    'Tuple': gym.spaces.Tuple(
        [gym.spaces.Box(-1, 1, (2, 2), np.float32), gym.spaces.MultiBinary(2)]
    ),
    'bytes': gym.spaces.Box(0, 255, (3, 3), np.uint8),
    'MultiDiscrete': gym.spaces.MultiDiscrete([2, 3]),
}
OBSERVS['all'] = gym.spaces.Dict(OBSERVS)
OBSERVS['image'] = gym.spaces.Box(0, 255, (6, 5), np.uint8)
# Small enough to be compiled, and large enough not to be.
OBSERVS['images'] = gym.spaces.Dict(
    small=gym.spaces.Box(0, 255, (2, 6, 6), np.uint8),
    large=gym.spaces.Box(0, 255, (2, 36, 40, 1), np.uint8),
    vector=gym.spaces.Box(-1, 1, (2,), np.float32),
)
OBSERVS['empty part'] = gym.spaces.Dict(
    {
        'nothing': gym.spaces.Box(-1, 1, (0,), np.float32),
        'no image': gym.spaces.Box(0, 255, (0, 3, 3), np.uint8),
        'a/b': gym.spaces.Box(1, 1, (2,), np.float64),
    }
)
ACTIONS = {
    'Box': gym.spaces.Box(-2, 2, (2, 1), np.float32),
    'scalar Box': gym.spaces.Box(-2, 2, (), np.float32),
    'Discrete': gym.spaces.Discrete(3, start=-1),
    'MultiDiscrete': gym.spaces.MultiDiscrete([[2, 3]], start=[[5, 0]]),
    'MultiBinary': gym.spaces.MultiBinary((2, 1)),
}


class Random(gym.Env):
    """Observations and rewards at random; insists on valid actions."""

    def __init__(self, observs, actions):
        self.observation_space = OBSERVS[observs]
        self.action_space = ACTIONS[actions]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert np.asarray(action) in self.action_space
        over = bool(self.np_random.random() < 0.2)
        reward = float(self.np_random.normal())
        return self.observation_space.sample(), reward, over, False, {}


def run(observs, actions, network='feed_forward', define=configs.ppo, **settings):
    """Train for two updates and evaluate; returns the scores."""
    config = define(
        env=Random,
        env_kwargs={'observs': observs, 'actions': actions},
        network=network,
        num_agents=2,
        steps=32,
        update_every=8,
        eval_every=32,
        log_every=32,
        eval_episodes=2,
        max_length=5,
        policy_layers=[4],
        value_layers=[4],
        recurrent_units=4,
        **settings,
    )
    return [*agents.train(config, env_processes=False)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ('observs', 'actions', 'network'),
    [
        ('all', 'Box', 'feed_forward'),
        ('all', 'MultiDiscrete', 'recurrent'),
        ('image', 'Discrete', 'feed_forward'),
        ('images', 'Box', 'recurrent'),
    ],
)
def test_ppo(observs, actions, network):
    scores = run(observs, actions, network, batch_size=8, update_epochs=2)
    assert np.isfinite(scores).all()
    assert [score.report.phase for score in scores] == ['train', 'eval']


@pytest.mark.slow
def test_reinforce():
    scores = run(
        'Box', 'MultiBinary', 'recurrent', configs.reinforce, value_batch_size=8, value_epochs=2
    )
    assert np.isfinite(scores).all()


PAIRS = [*zip(OBSERVS, ACTIONS), ('empty part', 'scalar Box')]
EACH = [
    pytest.param(*pair, marks=pytest.mark.slow) if number % 2 else pair
    for number, pair in enumerate(PAIRS)
]


@pytest.mark.parametrize(('observs', 'actions'), EACH)
@pytest.mark.parametrize(
    'kind', ['feed_forward', pytest.param('recurrent', marks=pytest.mark.slow)]
)
@pytest.mark.usefixtures('eagerly')
def test_each_without_compiling(observs, actions, kind):
    scores = run(observs, actions, kind, batch_size=8, update_epochs=1)
    assert np.isfinite(scores).all()
