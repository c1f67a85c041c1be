"""Steps per second of vectors of environments, through `simulate` and bare.

    python -m benchmarks.vectors

Actions that were drawn before, taken by a policy in a rollout that is one
program with its scores, and by the vector alone. The two take turns, each with
a vector of its own, in one process for each line; each number is a median.
Threads of a vector that is not stepped again at once fall asleep, and take time
to wake up: so there is also the vector alone that waits a moment, and does
nothing, between its steps.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from agents import configs
from agents.tools.vector.vector_slice import VectorSlice
from agents.training import vectors
from benchmarks import alone

ENVS = 'vector:ale_py:ALE/Pong-v5', 'envpool:HalfCheetah-v4'
AGENTS = 8, 32
SECONDS = 0.25
REPEATS = 40
# Steps of a rollout.
STEPS = 64
# How long the vector waits, about as long as a policy takes.
PAUSE_SECONDS = 15e-6
# The least share of the bare vector's steps that is asked for.
ASKED = 0.85


def make(env: str, agents: int) -> VectorSlice:
    config = configs.ppo(env=env, num_agents=agents, max_length=27_000)
    return vectors.start(config, agents, (0, 0, 0))


def draw(space: Any, agents: int) -> np.ndarray:
    """Actions for the steps of a rollout, which are taken over and over."""
    rows = [[space.sample() for _ in range(agents)] for _ in range(STEPS)]
    return np.array(rows, space.dtype)


def bare(env: str, agents: int, pause: float = 0.0) -> Callable[[], None]:
    """Steps of the vector, which resets by itself."""
    member = make(env, agents)
    # What EnvPool does without us, with its own resets.
    vector: Any = getattr(member.env, '_pool', member.env)
    actions = draw(member.action_space, agents)
    vector.reset()

    def many() -> None:
        for action in actions:
            vector.step(action)
            if pause:
                until = time.perf_counter() + pause
                while time.perf_counter() < until:
                    pass

    return many


def simulated(env: str, agents: int) -> Callable[[], None]:
    """Steps of `simulate` with a policy that chooses at random."""
    from agents import tools
    from agents.tools.graph import simulation
    from agents.tools.graph.backend import tf
    from agents.tools.graph.devices import use_threads
    from agents.tools.graph.episode_scores import EpisodeScores
    from agents.tools.graph.mock_algorithm import MockAlgorithm

    class Drawn(MockAlgorithm):
        """Takes the actions that have been drawn."""

        def perform(self, observ: Any) -> tf.Tensor:
            step = self.calls['perform'].read_value()
            self.calls['perform'].assign_add(1)
            return tf.gather(actions, step % STEPS)

    use_threads(1)
    batch_env = tools.InGraphBatchEnv(tools.BatchEnv([make(env, agents)]))
    drawn = draw(batch_env.action_space, agents)
    kind = tf.float32 if drawn.dtype.kind == 'f' else tf.int32
    actions = tf.constant(drawn, kind)
    algo, scores = Drawn(batch_env), EpisodeScores(agents)
    batch_env.reset()

    @tf.function(autograph=False, jit_compile=batch_env.compiled)
    def many() -> None:
        simulation.rollout(batch_env, algo, scores, STEPS)

    return many


def rate(many: Callable[[], None], agents: int) -> float:
    """Steps per second of a function that takes so many at a time."""
    count, started = 0, time.perf_counter()
    while time.perf_counter() - started < SECONDS:
        many()
        count += STEPS * agents
    return count / (time.perf_counter() - started)


def measure(env: str, agents: int) -> dict[str, list[float]]:
    """Steps per second of both, which take turns."""
    kinds = {
        'simulate': simulated(env, agents),
        'bare': bare(env, agents),
        'paused': bare(env, agents, PAUSE_SECONDS),
    }
    for many in kinds.values():  # Compiles one of them.
        many()
    rates: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(REPEATS):
        for kind, many in kinds.items():
            rates[kind].append(rate(many, agents))
    return rates


def compare(env: str, agents: int) -> None:
    """Print the rates of both, and the ratio of those side by side."""
    rates: Any = alone.run(__spec__.name, env, agents)
    ours, theirs, paused = (statistics.median(each) for each in rates.values())
    ratios = sorted(mine / other for mine, other, _ in zip(*rates.values(), strict=True))
    ratio = statistics.median(ratios)
    print(
        f'{env:26} {agents:3}   simulate {ours:8,.0f} steps/s   bare '
        f'{theirs:8,.0f}   {ratio:.0%} ({ratios[0]:.0%} to {ratios[-1]:.0%})'
        f'   with a pause {paused:8,.0f}'
        f'{"" if ratio >= ASKED else f", where {ASKED:.0%} is asked"}',
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--only', nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        env, agents = options.only
        print(json.dumps(measure(env, int(agents))))
        return
    for env in ENVS:
        for agents in AGENTS:
            compare(env, agents)


if __name__ == '__main__':
    main()
