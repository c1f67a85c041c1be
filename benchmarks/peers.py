"""What a user could take instead, timed at the same settings.

Every peer runs in a process of its own, by the interpreter that has it
installed:

    pip install -e '.[bench]'
    python -m benchmarks.peers sb3 HalfCheetah-v5 8 256 64 64
"""

import importlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

ENV = 'HalfCheetah-v5'
STEPS = 40_000
STEPPING_SECONDS = 3.0
ATARI_UPDATES = 4


class Training(NamedTuple):
    """What is trained.

    Attributes:
        env: Name of the environment.
        agents: Number of environments.
        steps: Steps of each of them in a rollout.
        rows: Rows of a minibatch.
        units: Units of both hidden layers of both networks.
    """

    env: str
    agents: int
    steps: int
    rows: int
    units: int


class Peer(NamedTuple):
    """What of a library is trained.

    Attributes:
        module: Its name.
        algorithm: Name of the class.
        settings: What differs from its defaults.
        normalizes: Whether observations and rewards are normalized.
    """

    module: str
    algorithm: str
    settings: Mapping[str, Any] = {}
    normalizes: bool = False


PEERS = {
    'sb3': Peer('stable_baselines3', 'PPO'),
    'sbx': Peer('sbx', 'PPO'),
    'sb3_contrib': Peer('sb3_contrib', 'TRPO'),
    # As tuned in the Zoo of Stable-Baselines3.
    'sb3_zoo': Peer(
        'sb3_contrib',
        'TRPO',
        {'cg_max_steps': 25, 'n_critic_updates': 20, 'target_kl': 0.04},
        normalizes=True,
    ),
}


def training(library: str, task: Training) -> float:
    """Training steps per second of one of the peers."""
    peer = PEERS[library]
    kind = getattr(importlib.import_module(peer.module), peer.algorithm)
    if library != 'sbx':
        import torch

        # More than one makes small networks slower.
        torch.set_num_threads(1 if task.units < 128 else os.cpu_count() or 1)
    from stable_baselines3.common import env_util, vec_env

    env = env_util.make_vec_env(task.env, task.agents, seed=0)
    if peer.normalizes:
        env = vec_env.VecNormalize(env)
    units = [task.units] * 2
    model = kind(
        'MlpPolicy',
        env,
        n_steps=task.steps,
        policy_kwargs={'net_arch': {'pi': units, 'vf': units}},
        seed=0,
        device='cpu',
        batch_size=task.rows,
        **peer.settings,
    )
    model.learn(task.agents * task.steps)  # Compiles, if there is something.
    started = time.perf_counter()
    model.learn(STEPS)
    return model.num_timesteps / (time.perf_counter() - started)


def atari(task: Training) -> float:
    """Training steps per second from the frames of a game, settings as usual.

    The environment's own score and frames are those of the peer's wrappers.
    """
    import ale_py
    import stable_baselines3
    import torch
    from stable_baselines3.common import env_util, vec_env

    gym.register_envs(ale_py)
    torch.set_num_threads(os.cpu_count() or 1)
    once = {'frameskip': 1, 'repeat_action_probability': 0.25}
    games = env_util.make_atari_env(task.env, task.agents, seed=0, env_kwargs=once)
    model = stable_baselines3.PPO(
        'CnnPolicy',
        vec_env.VecFrameStack(games, 4),
        n_steps=task.steps,
        batch_size=task.rows,
        n_epochs=4,
        learning_rate=2.5e-4,
        clip_range=0.1,
        ent_coef=0.01,
        seed=0,
        device='cpu',
    )
    rollout = task.agents * task.steps
    model.learn(rollout)
    started = time.perf_counter()
    model.learn(ATARI_UPDATES * rollout)
    return model.num_timesteps / (time.perf_counter() - started)


class Still(gym.Env):
    """Has spaces, and nothing happens.

    Args:
        kind: What a policy is for: numbers, memory, or images.
    """

    def __init__(self, kind: str):
        spaces = gym.spaces
        self.observation_space: gym.Space = spaces.Box(-10, 10, (17,))
        self.action_space: gym.Space = spaces.Box(-1, 1, (6,))
        if kind == 'images':
            self.observation_space = spaces.Box(0, 255, (4, 84, 84), np.uint8)
            self.action_space = spaces.Discrete(6)

    def reset(self, **_: Any) -> Any:
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), 0.0, False, False, {}


def predicting(kind: str) -> float | None:
    """Microseconds of a `predict`, as a rule, on one thread.

    Layers of 64 units, a memory of 128, or the convolutions of Atari.
    """
    import torch

    torch.set_num_threads(1)
    name = 'RecurrentPPO' if kind == 'memory' else 'PPO'
    library = 'sb3_contrib' if kind == 'memory' else 'stable_baselines3'
    if importlib.util.find_spec(library) is None:
        return None
    network = {'images': 'CnnPolicy', 'memory': 'MlpLstmPolicy'}
    settings = {'lstm_hidden_size': 128} if kind == 'memory' else {}
    env = Still(kind)
    model = getattr(importlib.import_module(library), name)(
        network.get(kind, 'MlpPolicy'),
        env,
        n_steps=16,
        batch_size=16,
        device='cpu',
        policy_kwargs=settings,
    )
    state = None

    def predict() -> None:
        nonlocal state
        given = {'state': state} if kind == 'memory' else {}
        _, state = model.predict(observ, deterministic=True, **given)

    observ = env.observation_space.sample()
    return typical_microseconds(predict)


def typical_microseconds(call: Any, calls: int = 1000) -> float:
    """The median of the times of a call, in microseconds."""
    times = []
    for _ in range(calls):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return 1e6 * statistics.median(times)


def stepping(agents: int) -> float:
    """Steps per second of Gymnasium's batch of processes."""
    env = gym.make_vec(ENV, num_envs=agents, vectorization_mode='async')
    env.reset(seed=0)
    action = env.action_space.sample()
    count, started = 0, time.perf_counter()
    while time.perf_counter() - started < STEPPING_SECONDS:
        env.step(action)
        count += agents
    rate = count / (time.perf_counter() - started)
    env.close()
    return rate


def one_core() -> float:
    """Steps per second of one environment in a bare loop."""
    env = gym.make(ENV, disable_env_checker=True)
    env.reset(seed=0)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(64)]
    count, started = 0, time.perf_counter()
    while time.perf_counter() - started < STEPPING_SECONDS:
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        count += len(actions)
    return count / (time.perf_counter() - started)


def start(python: str, *arguments: object) -> subprocess.Popen:
    """Start a measurement in another process."""
    command = [python, __file__, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def result(process: subprocess.Popen) -> float | None:
    """Wait for a measurement; None if the library is not installed."""
    output, error = process.communicate()
    if process.returncode:
        raise RuntimeError(f'{process.args!r} failed:\n{error}')
    return json.loads(output.splitlines()[-1])


def main(arguments: Sequence[str]) -> None:
    gym.logger.min_level = gym.logger.ERROR
    name, *numbers = arguments
    rate: float | None
    if name == 'sb3_atari':
        installed = importlib.util.find_spec('stable_baselines3') is not None
        task = Training(numbers[0], *map(int, numbers[1:]))
        rate = atari(task) if installed else None
    elif name in PEERS:
        installed = importlib.util.find_spec(PEERS[name].module) is not None
        task = Training(numbers[0], *map(int, numbers[1:]))
        rate = training(name, task) if installed else None
    elif name == 'predicting':
        rate = predicting(*numbers)
    elif name == 'stepping':
        rate = stepping(*map(int, numbers))
    else:
        rate = one_core()
    print(json.dumps(rate))


if __name__ == '__main__':
    main(sys.argv[1:])
