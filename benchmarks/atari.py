"""Training steps per second of Pong from its frames, beside a peer.

    python -m benchmarks.atari --sb3 python_with_stable_baselines3

The usual settings of both: 84×84 pixels, four frames, the three convolutions
with 512 units, minibatches of 256, four epochs. Compilation is left out of the
rate; the time to the first update, from the start of the process, is not. Both
take turns; each number is the median of three.
"""

import argparse
import json
import statistics
import sys
import time

from agents import configs
from benchmarks import alone, peers, throughput

AGENTS = 8, 32
REPEATS = 3

# Updates that are timed, after as many.
UPDATES = 4


def train(agents: int) -> dict[str, float]:
    """Steps per second, seconds to the first update and shares of the time."""
    config = configs.pong()
    steps = UPDATES * agents * config.update_every
    settings = {'steps': 2 * steps, 'eval_every': steps, 'eval_episodes': 1}
    small = config.copy(num_agents=agents, max_length=100, **settings)
    return throughput.train(small)


def first_update(agents: int) -> dict[str, float]:
    """Seconds from the start of the process to the first update."""
    from agents.terminal import console
    from agents.training.train import train as training

    config = configs.pong()
    steps = agents * config.update_every
    small = config.copy(
        num_agents=agents, steps=steps, eval_every=steps, eval_episodes=1, max_length=100
    )
    next(training(small))
    return {'seconds': time.perf_counter() - console.process_start()}


def compare(agents: int, python: str) -> None:
    """Print what was measured of both."""
    ours, theirs = [], []
    for _ in range(REPEATS):
        ours.append(alone.run(__spec__.name, 'train', agents))
        task = peers.Training('ALE/Pong-v5', agents, 128, 256, 512)
        found = peers.result(peers.start(python, 'sb3_atari', *task))
        theirs.append(found)
    print(f'\ntraining Pong, {agents} agents × 128 steps, minibatches of 256')
    throughput.print_training({'agents': ours, 'sb3_atari': theirs})
    seconds = [alone.run(__spec__.name, 'first', agents)['seconds'] for _ in range(REPEATS)]
    print(f'  first update after {statistics.median(seconds):.1f} s', flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        '--sb3',
        default=sys.executable,
        help='interpreter that has stable_baselines3, ale_py and cv2 (this)',
    )
    parser.add_argument('--only', nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        name, agents = options.only
        measure = train if name == 'train' else first_update
        print(json.dumps(measure(int(agents))))
        return
    for agents in AGENTS:
        compare(agents, options.sb3)


if __name__ == '__main__':
    main()
