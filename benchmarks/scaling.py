"""What many ranks would be worth, on paper.

    python -m benchmarks.scaling

Weak scaling of PPO on HalfCheetah: each rank adds 4 agents × 512 steps and 64
rows of a minibatch, in 10 epochs, with networks of 64 and 64 units. The times
of a rank and of messages of two ranks are measured (an AMD EPYC, see
docs/ranks.md), those of networks are published, and what follows from them is
the usual model of messages: a sum over n ranks takes 2 log₂ n latencies and
moves its bytes 2 (n − 1) / n times over each link.

It leaves out that all wait for the slowest in each message, which matters where
steps of environments differ, and that links may be shared.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

# Seconds of a rollout of one rank on one core: to act, and to learn from it.
ACTING, LEARNING = 0.062, 0.0172

# Seconds for one rank to learn from as many times as much, with minibatches
# that are as many times as large: measured at 1, 2, 8 and 64.
LEARNING_ALONE = {1: 0.0172, 2: 0.0268, 8: 0.0882, 64: 0.741}

# Bytes: of the gradients of both networks, of a network and what Adam knows of
# it, of the rows of a rank, of a policy.
GRADIENTS, STATE, ROWS, POLICY = 44_400, 66_600, 342_000, 23_000

# How often they are sent in a rollout, and other messages of a few numbers.
MINIBATCHES, EPOCHS, OTHERS = 320, 10, 15

# What a message takes in a program beside its way.
HOST = 4.5e-6


class Network(NamedTuple):
    """How messages get from one rank to another.

    Attributes:
        name: What it is.
        latency: Seconds for the shortest message.
        bandwidth: Bytes per second.
    """

    name: str
    latency: float
    bandwidth: float


NETWORKS = [
    Network('memory of one machine (measured)', 0.6e-6, 12e9),
    Network('TCP between namespaces (measured)', 7e-6, 2.7e9),
    Network('10 Gbit Ethernet, TCP (25 µs)', 25e-6, 1.17e9),
    Network('40 Gbit Ethernet, usNIC (1.93 µs)', 1.93e-6, 4.65e9),
    Network('InfiniBand HDR (1 µs, 200 Gbit)', 1e-6, 24e9),
]


def add_up(size: float, ranks: int, network: Network) -> float:
    """Seconds for a sum over ranks."""
    way = 2 * (ranks - 1) / ranks * size / network.bandwidth
    return HOST + 2 * math.log2(ranks) * network.latency + way


def average(ranks: int, network: Network) -> float:
    """Seconds of a rollout where gradients are averaged in each minibatch."""
    messages = MINIBATCHES * add_up(GRADIENTS, ranks, network)
    others = OTHERS * add_up(64, ranks, network)
    return ACTING + LEARNING + messages + others


def average_epochs(ranks: int, network: Network) -> float:
    """Seconds of a rollout where weights are averaged once an epoch."""
    messages = 2 * EPOCHS * add_up(STATE, ranks, network)
    others = OTHERS * add_up(64, ranks, network)
    return ACTING + LEARNING + messages + others


def gather(ranks: int, network: Network) -> float:
    """Seconds of a rollout where the first rank learns from all rows."""
    steps = math.log2(ranks)
    rows = steps * network.latency + (ranks - 1) * ROWS / network.bandwidth
    policy = steps * (network.latency + POLICY / network.bandwidth)
    most = max(LEARNING_ALONE)
    learning = LEARNING_ALONE.get(ranks, LEARNING_ALONE[most] * ranks / most)
    return ACTING + learning + rows + policy + 2 * HOST


MODES: list[Callable[[int, Network], float]] = [average, average_epochs, gather]


def main() -> None:
    alone = ACTING + LEARNING
    print('How many ranks are worth, and the share of messages and waiting:')
    for network in NETWORKS:
        print(f'\n{network.name}')
        print(f'{"":16}' + ''.join(f'{n:>16}' for n in (2, 8, 64, 512)))
        for mode in MODES:
            cells = []
            for ranks in (2, 8, 64, 512):
                seconds = mode(ranks, network)
                worth = ranks * alone / seconds
                share = 1 - alone / seconds
                cells.append(f'{worth:8.2f}× {share:4.0%}')
            name = mode.__name__
            print(f'{name:16}' + ''.join(f'{cell:>16}' for cell in cells))


if __name__ == '__main__':
    main()
