"""What a user of the package writes, for `test_style` to look over."""

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from typing_extensions import assert_type

import agents
from agents import algorithms, configs, environments, tools
from agents.algorithms.algorithm import Algorithm, Networks, Task
from agents.algorithms.reinforce import REINFORCE
from agents.environments.native_env import NativeEnv
from agents.tools import AttrDict, BatchEnv, UserError, keras, random, tf
from agents.tools.runs.loop import Report
from agents.training import networks

Observ = npt.NDArray[np.float32]
Info = dict[str, Any]


class Walk(gym.Env[Observ, np.int64]):
    """An environment."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, length: int = 5):
        self._length = length

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Observ, Info]:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: np.int64) -> tuple[Observ, float, bool, bool, Info]:
        return np.zeros(2, np.float32), 1.0, False, False, {}


class Hover(NativeEnv):
    """An environment in TensorFlow."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, key: tf.Tensor, count: int) -> tf.Tensor:
        return random.uniform(key, (count, 2))

    def step(
        self, state: tf.Tensor, action: tf.Tensor, key: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        height, speed = tf.unstack(state + action, axis=-1)
        return tf.stack([height, speed], -1), 1 - height**2, height > 2

    def observe(self, state: tf.Tensor) -> tf.Tensor:
        return state


def my_network(
    observ_space: gym.Space[Any], action_space: gym.Space[Any], config: AttrDict
) -> Networks:
    """Networks."""
    usual = networks.feed_forward(observ_space, action_space, config)
    return Networks(usual.policy, keras.Sequential([keras.layers.Dense(1)]))


class Mine(REINFORCE):
    """An algorithm that changes another one."""

    def __init__(self, networks: Networks, task: Task):
        super().__init__(networks, task)
        self.count = tf.Variable(0)

    def update(self) -> dict[str, tf.Tensor]:
        self.count.assign_add(1)
        return {**super().update(), 'updates': self.count}


class Own(Algorithm):
    """An algorithm from scratch."""

    def perform(self, observ: tf.Tensor) -> tf.Tensor:
        return tf.zeros(observ.shape[:1], tf.int32)


def walk() -> AttrDict:
    """A config."""
    return configs.ppo(env=Walk, env_kwargs={'length': 3}, network=my_network)


def train(logdir: str) -> None:
    """A training, from Python."""
    config = walk().copy(seed=3)
    with config.unlocked:
        config.num_agents = 4
    try:
        for score in agents.train(config, logdir):
            assert_type(score.report.phase, str)
            assert_type(score.report.step, int)
            assert_type(score + 1, float)
    except UserError as error:
        print(error)


def play(logdir: str) -> float:
    """An episode with what was learnt."""
    policy, env = agents.load(logdir), Walk()
    observ, _ = env.reset()
    policy.reset()
    _, reward, _, _, _ = env.step(policy(observ))
    return reward


def follow(report: Report) -> dict[str, float]:
    """What is told at every report, besides."""
    return {'per_step': report.score / report.length}


def judge(logdir: str) -> float:
    """What there is to do with a run."""
    stop = agents.callbacks.stop_at(195)
    training = agents.train(walk(), logdir, callbacks=[follow, stop])
    training.run()
    found = agents.evaluate(logdir, num_episodes=3, checkpoint='best')
    low, _ = found.interval
    steps = agents.results(logdir).phase('eval')['step']
    agents.plot(logdir, 'curves.svg', statistic='iqm')
    agents.export(logdir, 'policy.npz')
    swept = agents.sweep('pendulum', seeds=range(2), jobs=1)
    return found.mean + low + float(steps[-1]) + len(swept.failed)


def look() -> list[str]:
    """A check of an environment."""
    check = agents.check(Walk, steps=100)
    return [str(check), *check.train, agents.__version__]


def step(count: int) -> None:
    """A batch of environments."""
    envs = [tools.ExternalProcess(Walk) for _ in range(count)]
    batch_env = BatchEnv(envs)
    batch_env.step([env.action_space.sample() for env in envs])
    batch_env.close()
    assert_type(algorithms.find('ppo'), type)
    assert_type(environments.find('CartPole-v1'), type)


def mistakes() -> None:
    """A checker finds these, or says that there is nothing to ignore."""
    agents.trian  # type: ignore[attr-defined]  # noqa: B018
    tools.BatchEnvs  # type: ignore[attr-defined]  # noqa: B018
    agents.load()  # type: ignore[call-arg]
    agents.train(walk(), logdir=3)  # type: ignore[arg-type]
    agents.load('logdir').reste()  # type: ignore[attr-defined]
    agents.check(Walk, steps='100')  # type: ignore[arg-type]
    BatchEnv([lambda: Walk()])  # type: ignore[list-item]
    configs.ppoo()  # type: ignore[attr-defined]
