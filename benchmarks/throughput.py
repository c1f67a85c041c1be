"""Training steps per second, beside Stable-Baselines3 and SBX.

    python -m benchmarks.throughput

With the peers' defaults: 10 epochs, and for the first rows minibatches of 64
and networks of 64 and 64 tanh units; for others 256 and 256 units. Compilation
is left out everywhere; each number is the median of three. Then stepping
alone, beside the limit of the machine and Gymnasium's batch.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

import numpy as np

from agents import configs
from agents.tools.attr_dict import AttrDict
from agents.tools.batch.batch_env import BatchEnv
from agents.training import env_setup
from benchmarks import alone, peers

TRAININGS = (
    peers.Training(peers.ENV, 8, 256, 64, 64),
    peers.Training(peers.ENV, 32, 64, 64, 64),
    peers.Training('CartPole-v1', 8, 256, 64, 64),
    peers.Training(peers.ENV, 32, 64, 256, 256),
    peers.Training('Humanoid-v5', 32, 64, 256, 256),
)
UPDATES = 60
REPEATS = 3
# How many random actions stepping alone goes through, over and over.
ACTIONS = 64


def config_of(task: peers.Training) -> AttrDict:
    rollout = task.agents * task.steps
    return configs.ppo(
        env=task.env,
        num_agents=task.agents,
        update_every=task.steps,
        batch_size=task.rows,
        policy_layers=[task.units] * 2,
        value_layers=[task.units] * 2,
        steps=UPDATES * rollout,
        eval_every=UPDATES * rollout // 2,
        eval_episodes=1,
        max_length=1000,
    )


def train(config: AttrDict) -> dict[str, float]:
    """Train; returns steps per second and the split of the time.

    Of the last report, so that another has to be before it, for compilation.
    """
    from agents.training.train import train

    config = config.copy(log_every=config.eval_every)
    with tempfile.TemporaryDirectory() as directory:
        reports = [
            score.report
            for score in train(config, pathlib.Path(directory))
            if score.report.phase == 'train'
        ]
    last = reports[-1]
    rollout = config.num_agents * config.update_every / last.steps_per_second
    environments_, update = (
        last.metrics[f'{name}_seconds'] / rollout for name in ('env', 'update')
    )
    return {
        'rate': last.steps_per_second,
        'environments': environments_,
        'update': update,
        'acting and recording': 1 - environments_ - update,
    }


def stepping(agents: int) -> float:
    """Steps per second of a batch of workers, in the graph and nothing else."""
    from agents import tools
    from agents.tools import spaces
    from agents.tools.graph.backend import tf
    from agents.tools.graph.devices import use_threads

    use_threads(1)
    task = peers.Training(peers.ENV, agents, 1, 1, 1)
    constructor = env_setup.constructor(config_of(task))
    batch = BatchEnv(env_setup.start(constructor, agents))
    batch_env = tools.InGraphBatchEnv(batch)
    batch_env.reset()
    shape = ACTIONS, agents, *spaces.shape(batch.action_space)
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, shape)
    prepared = tf.constant(actions, tf.float32)

    @tf.function(autograph=False, jit_compile=batch_env.compiled)
    def many() -> None:
        def step(index: tf.Tensor) -> tf.Tensor:
            batch_env.step(prepared[index])
            return index + 1

        tf.while_loop(lambda index: index < ACTIONS, step, [tf.constant(0)])

    many()
    count, started = 0, time.perf_counter()
    while time.perf_counter() - started < peers.STEPPING_SECONDS:
        many()
        count += ACTIONS * agents
    rate = count / (time.perf_counter() - started)
    batch_env.close()
    return rate


def compare_training(pythons: dict[str, str], repeats: int) -> None:
    for task in TRAININGS:
        print(
            f'\ntraining {task.env}, {task.agents} agents × {task.steps} '
            f'steps, {task.units}-{task.units}, minibatches of {task.rows}'
        )
        # In turn, so that all of them have the machine in the same mood.
        found: dict[str, list] = {name: [] for name in ('agents', *pythons)}
        for _ in range(repeats):
            found['agents'].append(alone.run(__spec__.name, 'train', *task))
            for library, python in pythons.items():
                process = peers.start(python, library, *task)
                found[library].append(peers.result(process))
        print_training(found)


def print_training(found: dict[str, list]) -> None:
    """Print the median of what was measured of each library."""
    runs = sorted(found.pop('agents'), key=lambda run: run['rate'])
    median = runs[len(runs) // 2]
    rate = median.pop('rate')
    split = ', '.join(f'{name} {part:.0%}' for name, part in median.items())
    print(f'  {"agents":11} {rate:10,.0f} steps/s   {split}', flush=True)
    for library, rates in found.items():
        if None in rates:
            print(f'  {library} is not installed: pip install -e .[bench]')
            continue
        theirs = statistics.median(rates)
        print(
            f'  {library:11} {theirs:10,.0f} steps/s   agents has '
            f'{rate / theirs:.2f} times as many',
            flush=True,
        )


def compare_stepping() -> None:
    cores = len(os.sched_getaffinity(0))
    processes = [peers.start(sys.executable, 'one_core') for _ in range(cores)]
    limit = sum(peers.result(process) or 0.0 for process in processes)
    print(f'\nstepping alone; the limit of {cores} cores is {limit:,.0f} steps/s')
    for agents in (8, 32):
        ours = statistics.median(
            alone.run(__spec__.name, 'stepping', agents)['rate'] for _ in range(REPEATS)
        )
        theirs = peers.result(peers.start(sys.executable, 'stepping', agents))
        print(
            f'  {agents} environments   agents {ours:,.0f} steps/s '
            f'({ours / limit:.0%} of the limit)   AsyncVectorEnv '
            f'{theirs:,.0f} ({(theirs or 0.0) / limit:.0%})',
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for library in ('sb3', 'sbx'):
        parser.add_argument(
            f'--{library}',
            default=sys.executable,
            help=f'interpreter that has {library} installed (this one)',
        )
    parser.add_argument('--only', nargs='+', help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        name, *arguments = options.only
        if name == 'train':
            task = peers.Training(arguments[0], *map(int, arguments[1:]))
            print(json.dumps(train(config_of(task))))
        else:
            print(json.dumps({'rate': stepping(*map(int, arguments))}))
        return
    compare_training({'sb3': options.sb3, 'sbx': options.sbx}, REPEATS)
    compare_stepping()


if __name__ == '__main__':
    main()
