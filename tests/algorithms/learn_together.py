"""Lets the ranks that MPI has started learn, each from its part of the agents.

    mpiexec -n 2 python learn_together.py ppo ...

Each writes the weights after some updates, by algorithm, into a file that is
named by its rank. Run without MPI it learns from all agents.
"""

import json
import pathlib
import sys

import gymnasium as gym
import numpy as np
from test_ranks import STEPS, play, sample_alike

from agents import algorithms
from agents.algorithms import sizes
from agents.algorithms.algorithm import Task
from agents.parts.distributions import Gaussian
from agents.scripts import configs, networks
from agents.tools import nested, world
from agents.tools.graph import mpi
from agents.tools.graph.backend import tf

AGENTS, UPDATES = 8, 5
OBSERVS = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
ACTIONS = gym.spaces.Box(-1, 1, (2,), np.float32)

# That ranks do what one does: a minibatch of all rows, as each shuffles its
# own, and no rows left out, as each would leave out others.
CHANGES = {
    'ppo': {'update_epochs': 3, 'kl_stop': 1e-4},
    'reinforce': {'value_epochs': 3},
    'trpo': {'value_epochs': 3, 'fisher_every': 1, 'conjugate_steps': 5},
    'acktr': {'value_epochs': 3, 'inverse_every': 1, 'value_cold_steps': 1},
}


def learn(algorithm, ranks):
    """Learn from what this rank's agents did; returns all weights."""
    agents = AGENTS // ranks.size
    config = getattr(configs, algorithm)(
        num_agents=agents,
        update_every=STEPS,
        policy_layers=[5],
        value_layers=[5],
        init_output_factor=1.0,
        learning_rate=0.01,
        **{sizes.MINIBATCHES[algorithm]: agents * STEPS},
        **CHANGES[algorithm],
    )
    task = Task(OBSERVS, ACTIONS, agents, config, ranks=ranks)
    made = networks.define(OBSERVS, ACTIONS, config)
    algo = algorithms.find(algorithm)(made, task)
    mine = slice(ranks.rank * agents, (ranks.rank + 1) * agents)
    rng = np.random.default_rng(0)
    for _ in range(UPDATES):
        rollout = nested.map(
            lambda x: tf.constant(x[:, mine]), play(rng, AGENTS)
        )
        for time in range(STEPS):
            algo.experience(*nested.map(lambda x, t=time: x[t], rollout))
        algo.update()
    assert algo.failure() is None
    parts = algo.policy.network, algo.critic.network
    weights = [w.numpy().ravel() for n in parts for w in n.trainable_variables]
    return np.concatenate(weights).tolist()


def main():
    Gaussian.sample = sample_alike
    ranks = mpi.define(world.connect())
    found = {name: learn(name, ranks) for name in sys.argv[1:]}
    pathlib.Path(str(ranks.rank)).write_text(json.dumps(found))


if __name__ == '__main__':
    main()
