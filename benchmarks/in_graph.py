"""Training steps per second with native environments.

    python -m benchmarks.in_graph
    python -m benchmarks.in_graph --beside 'python peer.py --envs {agents}'

PPO on CartPole-v1 with rollouts of 128 steps, 4 epochs of 4 minibatches, and
separate networks of 64 and 64 tanh units. The best of three, compilation told
apart. A command given by --beside is run in turn with ours; it has to print
`steps_per_second=` and a number.
"""

import argparse
import json
import re
import resource
import shlex
import subprocess
import time

from agents import configs
from agents.tools.attr_dict import AttrDict
from agents.training import plan, simulation_graph
from benchmarks import alone

AGENTS = 4, 64, 1024, 8192
STEPS = 128
REPEATS = 3
SECONDS = 3.0


def config(agents: int) -> AttrDict:
    return configs.ppo(
        env='native:CartPole-v1',
        max_length=500,
        num_agents=agents,
        update_every=STEPS,
        update_epochs=4,
        batch_size=agents * STEPS // 4,
        steps=100_000_000,
        eval_every=max(4, 1024 // agents) * agents * STEPS,
        eval_episodes=1,
        learning_rate=2.5e-4,
        normalize_observ=False,
        normalize_reward=False,
        value_clip=0.2,
        entropy_bonus=0.01,
    )


def measure(agents: int) -> dict[str, float]:
    """Steps per second, seconds of the first call, and bytes of memory."""
    settings = config(agents)
    phases = plan.make(settings, in_graph=True)
    envs = simulation_graph.define_native_batch_envs(settings)
    graph = simulation_graph.define_simulation_graph(
        envs[0], envs[1], settings, phases.rollouts_at_once is not None
    )
    graph.restart()
    until_evaluation = settings.eval_every // phases.rollout
    count = min(phases.rollouts_at_once or 1, until_evaluation)
    started = time.perf_counter()
    graph.train(count)
    compiled = time.perf_counter() - started
    best = 0.0
    for _ in range(REPEATS):
        calls, started = 0, time.perf_counter()
        while time.perf_counter() - started < SECONDS:
            graph.train(count)
            calls += 1
        seconds = time.perf_counter() - started
        best = max(best, calls * count * phases.rollout / seconds)
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {'rate': best, 'compile': compiled, 'bytes': peak}


def _peer(command: str, agents: int) -> float:
    output = subprocess.run(
        shlex.split(command.format(agents=agents)), stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    found = re.search(r'steps_per_second=([\d.]+)', output)
    if found is None:
        raise ValueError(f'No steps_per_second= in the output {output!r}.')
    return float(found[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--agents', type=int, nargs='+', default=AGENTS)
    parser.add_argument('--beside', help='command of a peer, with {agents} in it')
    parser.add_argument('--only', type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(measure(options.only)))
        return
    for agents in options.agents:
        ours = alone.run(__spec__.name, agents)
        print(
            f'{agents:5} agents  {ours["rate"]:10,.0f} steps/s  first call '
            f'{ours["compile"]:.1f} s  memory {ours["bytes"] / 1e6:,.0f} MB',
            flush=True,
        )
        if options.beside:
            theirs = _peer(options.beside, agents)
            print(
                f'   the peer  {theirs:10,.0f} steps/s  agents has '
                f'{ours["rate"] / theirs:.2f} times as many',
                flush=True,
            )


if __name__ == '__main__':
    main()
