"""Tasks that can only be solved by what is seen, and runs that repeat."""

import gymnasium as gym
import numpy as np
import pytest

import agents
from agents.scripts import configs
from agents.training import simulation_graph

SIZE = 8


class Look(gym.Env):
    """Shows a bright column on one side, and rewards what it asks for.

    Args:
        kind: What has to be answered: the side, the side unless a vector says
            otherwise, the direction in which the column moves, or how bright
            it is.
        length: Steps until an answer is asked for; meanwhile there is nothing
            to be seen.
    """

    def __init__(self, kind='side', length=1):
        self.kind, self.length = kind, length
        self.image = gym.spaces.Box(0, 255, (2, SIZE, SIZE), np.uint8)
        self.observation_space = self.image
        if kind == 'vector':
            vector = gym.spaces.Box(-1, 1, (1,), np.float32)
            self.observation_space = gym.spaces.Dict(image=self.image, vector=vector)
        self.action_space = gym.spaces.Discrete(2)
        if kind == 'brightness':
            self.action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        self.side, self.sign = self.np_random.integers(2, size=2)
        self.brightness = self.np_random.integers(256)
        image = np.zeros(self.image.shape, np.uint8)
        if self.kind == 'motion':
            place = self.np_random.integers(1, SIZE - 1)
            image[0, :, place] = 255
            image[1, :, place + 2 * self.side - 1] = 255
        elif self.kind == 'brightness':
            image[:] = self.brightness
        else:
            image[:, :, self.side * (SIZE - 1)] = 255
        return self.observ(image), {}

    def step(self, action):
        self.time += 1
        over = self.time == self.length
        observ = self.observ(np.zeros(self.image.shape, np.uint8))
        return observ, self.judge(action) if over else 0.0, over, False, {}

    def judge(self, action):
        if self.kind == 'brightness':
            return -float((action[0] - (self.brightness / 127.5 - 1)) ** 2)
        flips = self.kind == 'vector' and self.sign
        return 1.0 if action == self.side ^ flips else -1.0

    def observ(self, image):
        if self.kind != 'vector':
            return image
        return {'image': image, 'vector': np.float32([2 * self.sign - 1])}


def look(kind, length=1, **changes):
    return configs.ppo(
        env=Look,
        env_kwargs={'kind': kind, 'length': length},
        **{
            'max_length': length,
            'num_agents': 32,
            'steps': 8_192,
            'update_every': 16,
            'update_epochs': 4,
            'batch_size': 128,
            'eval_every': 8_192,
            'eval_episodes': 64,
            'learning_rate': 3e-3,
            'discount': 0.9,
            'recurrent_units': 16,
            'policy_layers': [32],
            'value_layers': [32],
            # Strided, so that it is TensorFlow that computes them.
            'convolutions': [[8, 4, 2]],
            'image_units': 32,
            **changes,
        },
    )


def final_score(*arguments, **changes):
    """The mean score of an evaluation after the training."""
    *_, score = agents.train(look(*arguments, **changes), env_processes=False)
    return score


@pytest.mark.slow
def test_image_and_vector_that_are_both_needed():
    assert final_score('vector') > 0.9


@pytest.mark.slow
def test_image_with_a_box_of_actions():
    # Always to choose the middle scores −⅓.
    assert final_score('brightness', init_std=0.5) > -0.1


@pytest.mark.slow
def test_image_with_a_memory():
    assert final_score('side', 3, network='recurrent') > 0.9


@pytest.mark.slow
def test_frames_before_height_and_width():
    assert final_score('motion') > 0.9


@pytest.mark.slow
def test_run_with_convolutions_repeats_and_resumes_bit_for_bit(tmp_path):
    def run(name, steps):
        config = configs.ppo(
            env='native:Catch-v0',
            network='recurrent',
            convolutions=[[8, 4, 2]],
            max_length=9,
            num_agents=4,
            steps=steps,
            update_every=8,
            batch_size=16,
            eval_every=64,
            eval_episodes=2,
            update_epochs=2,
        )
        scores = [*agents.train(config, tmp_path / name)]
        return [float(score) for score in scores], agents.load(tmp_path / name)

    scores, whole = run('whole', 256)
    first, _ = run('parts', 128)
    second, parts = run('parts', 256)
    np.testing.assert_array_equal(first + second, scores)
    expected, found = map(simulation_graph.name_policy, (whole._policy, parts._policy))
    assert found.keys() == expected.keys()
    for name, variable in found.items():
        np.testing.assert_array_equal(variable, expected[name])
    assert len(found) > 4
