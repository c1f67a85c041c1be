"""Training steps per second of each algorithm, and of TRPO beside a peer.

    python -m benchmarks.algorithms

HalfCheetah-v5 as the configs have it, with the share of the update; TRPO
beside that of sb3-contrib with its settings; and native CartPole with 64 and
1024 agents. Compilation is left out; each number is the median of three.
Demonstrations are of random actions, which take as long to learn from as any.
"""

import argparse
import json
import pathlib
import sys
import tempfile
from typing import Any

import numpy as np

from agents import configs
from agents.tools.attr_dict import AttrDict
from agents.tools.runs import demonstrations
from agents.training import env_setup
from benchmarks import alone, peers, throughput

ALGORITHMS = 'ppo', 'reinforce', 'trpo', 'npg', 'acktr', 'gail'
AGENTS = 64, 1024
REPEATS = 3

# Settings of sb3-contrib where agents has others, by the peer: its defaults,
# with its one environment and with eight, and as they are tuned.
LIKE_PEER: dict[str, dict[str, Any]] = {
    'sb3_contrib': {'fisher_every': 1, 'value_epochs': 10},
    'sb3_zoo': {'fisher_every': 1, 'value_epochs': 20, 'conjugate_steps': 25, 'kl_target': 0.04},
}
ROLLOUTS = (('sb3_contrib', 1, 2048), ('sb3_zoo', 2, 1024), ('sb3_contrib', 8, 256))

# Steps of a training, and updates at least.
STEPS, UPDATES = 120_000, 8


def cheetah(algorithm: str, file: pathlib.Path) -> AttrDict:
    name = 'cheetah' if algorithm == 'ppo' else f'cheetah_{algorithm}'
    config = getattr(configs, name)()
    return _timed(config, file)


def cartpole(algorithm: str, agents: int, file: pathlib.Path) -> AttrDict:
    name = '' if algorithm == 'ppo' else f'_{algorithm}'
    config = getattr(configs, f'cartpole{name}_native')()
    return _timed(config.copy(num_agents=agents), file)


def like_peer(peer: str, agents: int, steps: int) -> AttrDict:
    config = configs.trpo(env=peers.ENV, num_agents=agents, update_every=steps, **LIKE_PEER[peer])
    return _timed(config)


def _timed(config: AttrDict, file: pathlib.Path | None = None) -> AttrDict:
    """As it is, for so long that half of it can be timed."""
    steps = max(STEPS, UPDATES * config.num_agents * config.update_every)
    changes: dict[str, Any] = {'steps': steps, 'eval_every': steps // 2, 'eval_episodes': 1}
    if config.rewards != 'environment':
        changes['demonstrations'] = str(file)
    return config.copy(**changes)


def pretend(env: str, steps: int, path: pathlib.Path) -> None:
    """Write demonstrations of nothing in particular."""
    with env_setup.constructor(configs.ppo(env=env))() as made:
        observ, action = made.observation_space, made.action_space
        observ.seed(0)
        action.seed(0)
        shape = steps, *observ.shape  # type: ignore[misc]
        demonstrations.write(
            path,
            demonstrations.Demonstrations(
                observ=np.random.default_rng(0).normal(size=shape) / 100,
                action=np.array([action.sample() for _ in range(steps)]),
                reward=np.ones(steps, np.float32),
                terminated=np.zeros(steps, bool),
                truncated=np.arange(steps) == steps - 1,
            ),
            observ,
            action,
        )


def measure(kind: str, *arguments: str) -> dict[str, float]:
    """Time one training; in a process of its own."""
    with tempfile.TemporaryDirectory() as home:
        file = pathlib.Path(home, 'demonstrations.npz')
        if kind == 'cheetah':
            pretend(peers.ENV, 1000, file)
            config = cheetah(arguments[0], file)
        elif kind == 'cartpole':
            pretend('CartPole-v1', 500, file)
            config = cartpole(arguments[0], int(arguments[1]), file)
        else:
            peer, *sizes = arguments
            config = like_peer(peer, *map(int, sizes))
        return throughput.train(config)


def _median(*arguments: object) -> dict[str, float]:
    runs = [alone.run(__spec__.name, *arguments) for _ in range(REPEATS)]
    return sorted(runs, key=lambda run: run['rate'])[REPEATS // 2]


def compare_algorithms() -> None:
    print(f'{peers.ENV}, as the configs have it')
    for algorithm in ALGORITHMS:
        found = _median('cheetah', algorithm)
        print(
            f'  {algorithm:9} {found["rate"]:10,.0f} steps/s   update {found["update"]:.0%}',
            flush=True,
        )
    for agents in AGENTS:
        print(f'native CartPole-v1, {agents} agents')
        for algorithm in ALGORITHMS:
            found = _median('cartpole', algorithm, agents)
            rate = found['rate']
            print(f'  {algorithm:9} {rate:10,.0f} steps/s', flush=True)


def compare_peer(python: str) -> None:
    for peer, agents, steps in ROLLOUTS:
        print(f'TRPO, {peers.ENV}, {agents} agents × {steps} steps')
        found: dict[str, list] = {'agents': [], peer: []}
        for _ in range(REPEATS):
            ours = alone.run(__spec__.name, 'peer', peer, agents, steps)
            found['agents'].append(ours)
            task = peers.Training(peers.ENV, agents, steps, 128, 64)
            process = peers.start(python, peer, *task)
            found[peer].append(peers.result(process))
        throughput.print_training(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        '--sb3',
        default=sys.executable,
        help='interpreter that has sb3_contrib installed (this one)',
    )
    parser.add_argument('--peer', action='store_true', help='compare with the peer only')
    parser.add_argument('--only', nargs='+', help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(measure(*options.only)))
        return
    if not options.peer:
        compare_algorithms()
    compare_peer(options.sb3)


if __name__ == '__main__':
    main()
