"""Lets the ranks that MPI has started learn, each from its part of the agents.

    mpiexec -n 2 python learn_together.py ppo/average ppo/gather ...

Each writes the weights after some updates into a file that is named by its
rank. Run without MPI it learns from all agents.
"""

import json
import pathlib
import sys

import gymnasium as gym
import numpy as np
from test_ranks import STEPS, play, sample_alike

from agents import algorithms
from agents.algorithms.algorithm import Task
from agents.algorithms.gathering import Leader
from agents.config import sizes
from agents.parts.distributions import Gaussian
from agents.scripts import configs
from agents.tools import nested, world
from agents.tools.graph import mpi, random
from agents.tools.graph.backend import tf
from agents.training import networks

AGENTS, UPDATES = 8, 3
OBSERVS = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
ACTIONS = gym.spaces.Box(-1, 1, (2,), np.float32)

# Others, and a process alone, run step by step, which saves compiling them.
COMPILED = ('ppo/average',)

# That ranks do what one does where they average: a minibatch of all rows, as
# each shuffles its own, and no rows left out, as each would leave out others.
# Where rollouts are gathered, there can be many.
CHANGES = {
    'ppo': {'update_epochs': 3},
    'ppo_that_stops': {'update_epochs': 3, 'kl_stop': 1e-4},
    'reinforce': {'value_epochs': 3},
    'trpo': {'value_epochs': 3, 'fisher_every': 1, 'conjugate_steps': 5},
    'acktr': {'value_epochs': 3, 'inverse_every': 1, 'value_cold_steps': 1},
    'gail': {
        'update_epochs': 3,
        'discriminator_batch': AGENTS * STEPS,
        'discriminator_layers': [5],
        'discriminator_rate': 0.01,
    },
}
MINIBATCHES = 4


def define_config(name, distribute):
    algorithm = name.partition('_')[0]
    inner = 'ppo' if algorithm == 'gail' else algorithm
    rows = AGENTS * STEPS
    if distribute == 'gather':
        rows //= MINIBATCHES
    changes = {
        'num_agents': AGENTS,
        'update_every': STEPS,
        'policy_layers': [5],
        'value_layers': [5],
        'init_output_factor': 1.0,
        'learning_rate': 0.01,
        'distribute': distribute,
        'eval_episodes': 8,
        sizes.MINIBATCHES[inner]: rows,
        **CHANGES[name],
    }
    if algorithm == 'gail':
        path = demonstrate()
        changes.update(demonstrations=path, clone_steps=0)
        return configs.gail(inner, **changes)
    return getattr(configs, algorithm)(**changes)


def demonstrate():
    """A file of one step over and over, so that all draw the same."""
    count = 20
    path = pathlib.Path('shown.npz').absolute()
    if not path.exists():
        other = path.with_name(f'{world.connect().rank}.npz')
        np.savez(
            other,
            observ=np.tile([0.5, -1.0, 0.0], (count, 1)),
            action=np.tile([0.9, -0.9], (count, 1)),
            reward=np.ones(count),
            terminated=np.zeros(count, bool),
            truncated=np.arange(count) % 10 == 9,
        )
        other.rename(path)
    return str(path)


def learn(name, distribute, ranks):
    """Learn from what this rank's agents did; returns all weights."""
    config = sizes.share(define_config(name, distribute), ranks.size)
    agents = AGENTS // ranks.size
    task = Task(OBSERVS, ACTIONS, agents, config, ranks=ranks)
    made = networks.define(OBSERVS, ACTIONS, config)
    algo = algorithms.define(made, task)
    mine = slice(ranks.rank * agents, (ranks.rank + 1) * agents)
    rng = np.random.default_rng(0)
    for _ in range(UPDATES):
        rollout = nested.map(lambda x: tf.constant(x[:, mine]), play(rng, AGENTS))
        for time in range(STEPS):
            algo.experience(*nested.map(lambda x, t=time: x[t], rollout))
        algo.update()
    assert algo.failure() is None
    return {'policy': read(algo.policy.network), 'value': read_value(algo)}


def read_value(algo):
    """The weights of the value; those that only act have none."""
    while isinstance(algo, Leader) or hasattr(algo, 'discriminator'):
        algo = algo.algorithm
    return read(algo.value_network) if hasattr(algo, 'value_network') else []


def read(network):
    weights = [w.numpy().ravel() for w in network.trainable_variables]
    return np.concatenate(weights).tolist()


def uniform_alike(key, shape):
    """All rows in order, and the middle between two steps."""
    numbers = (tf.range(shape[0], dtype=tf.float32) + 0.5) / shape[0]
    return numbers if len(shape) == 1 else tf.fill(shape, 0.5)


def main():
    Gaussian.sample = sample_alike
    random.uniform = uniform_alike
    ranks = mpi.define(world.connect())
    found = {}
    for name in sys.argv[1:]:
        compiled = ranks.size > 1 and name in COMPILED
        tf.config.run_functions_eagerly(not compiled)
        found[name] = learn(*name.split('/'), ranks)
    pathlib.Path(str(ranks.rank)).write_text(json.dumps(found))


if __name__ == '__main__':
    main()
