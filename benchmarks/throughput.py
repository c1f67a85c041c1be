"""Training steps per second, beside Stable-Baselines3 and SBX.

    python -m benchmarks.throughput

On HalfCheetah-v5 with the peers' defaults: minibatches of 64, 10 epochs,
networks of 64 and 64 tanh units. Compilation is left out everywhere. Then
stepping alone, beside the limit of the machine and Gymnasium's batch.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

from agents import configs
from agents.scripts import env_setup
from agents.tools.attr_dict import AttrDict
from agents.tools.envs.batch_env import BatchEnv
from benchmarks import peers

# Agents and steps of a rollout.
SETTINGS = (8, 256), (32, 64)
UPDATES = 60
# How many random actions stepping alone goes through, over and over.
ACTIONS = 64


def config(agents: int, steps: int) -> AttrDict:
    return configs.ppo(
        env=peers.ENV,
        num_agents=agents,
        update_every=steps,
        steps=UPDATES * agents * steps,
        eval_every=UPDATES * agents * steps // 2,
        eval_episodes=1,
        max_length=1000,
    )


def train(agents: int, steps: int) -> dict[str, float]:
    """Train; returns steps per second and the split of the time."""
    from agents.scripts.train import train

    with tempfile.TemporaryDirectory() as directory:
        reports = [
            score.report
            for score in train(config(agents, steps), pathlib.Path(directory))
            if score.report.phase == 'train'
        ]
    last = reports[-1]
    rollout = agents * steps / last.steps_per_second
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
    constructor = env_setup.constructor(config(agents, 1))
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


def alone(name: str, *numbers: int) -> dict[str, float]:
    """Run one of the functions above in a process of its own."""
    command = [sys.executable, '-m', __spec__.name, '--only', name]
    command.extend(map(str, numbers))
    result = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(result.stdout.splitlines()[-1])


def compare_training(pythons: dict[str, str]) -> None:
    for agents, steps in SETTINGS:
        print(f'\ntraining, {agents} agents × {steps} steps')
        ours = alone('train', agents, steps)
        rate = ours.pop('rate')
        split = ', '.join(f'{name} {part:.0%}' for name, part in ours.items())
        print(f'  agents {rate:10,.0f} steps/s   {split}', flush=True)
        for library, python in pythons.items():
            theirs = peers.result(peers.start(python, library, agents, steps))
            if theirs is None:
                print(
                    f'  {library:6} is not installed: pip install -e .[bench]'
                )
            else:
                print(
                    f'  {library:6} {theirs:10,.0f} steps/s   agents has '
                    f'{rate / theirs:.2f} times as many',
                    flush=True,
                )


def compare_stepping() -> None:
    cores = len(os.sched_getaffinity(0))
    processes = [peers.start(sys.executable, 'one_core') for _ in range(cores)]
    limit = sum(peers.result(process) or 0.0 for process in processes)
    print(
        f'\nstepping alone; the limit of {cores} cores is {limit:,.0f} steps/s'
    )
    for agents in (8, 32):
        ours = alone('stepping', agents)['rate']
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
        name, *numbers = options.only
        if name == 'train':
            print(json.dumps(train(*map(int, numbers))))
        else:
            print(json.dumps({'rate': stepping(*map(int, numbers))}))
        return
    compare_training({'sb3': options.sb3, 'sbx': options.sbx})
    compare_stepping()


if __name__ == '__main__':
    main()
