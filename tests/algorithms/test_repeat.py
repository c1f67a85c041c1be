"""The same seed gives the same weights, however the work is divided."""

import numpy as np
import pytest

from agents.scripts import configs
from agents.tools.batch import mock_environment
from agents.tools.graph import foreign
from agents.tools.graph.backend import tf
from agents.tools.transition import Transition
from agents.training import env_setup, simulation_graph


def weights(seed=0, updates=3, **workers):
    """All variables after some updates."""
    config = configs.ppo(
        env=mock_environment.MockEnvironment,
        seed=seed,
        num_agents=5,
        update_every=8,
        update_epochs=2,
        batch_size=10,
        policy_layers=[8],
        value_layers=[8],
        max_length=4,
    )
    batches = [
        simulation_graph.define_batch_env(
            env_setup.constructor(config), count, seed=(config.seed, purpose), **workers
        )
        for purpose, count in ((0, config.num_agents), (1, 1))
    ]
    try:
        graph = simulation_graph.define_simulation_graph(*batches, config)
        graph.restart()
        for _ in range(updates):
            graph.train()
        return {name: v.numpy() for name, v in graph.variables.items()}
    finally:
        for batch in batches:
            batch.close()


@pytest.mark.slow
@pytest.mark.usefixtures('eagerly', 'nothing_left')
def test_workers_change_no_bit():
    expected = weights(env_processes=False)
    for count in (1, 2, 4):
        result = weights(num_workers=count)
        assert result.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_array_equal(result[name], value, name)


@pytest.mark.usefixtures('eagerly')
def test_another_seed_gives_other_weights():
    one, other = [weights(seed, 1, env_processes=False) for seed in (0, 1)]
    for name in one:
        if 'network' in name and 'kernel' in name:
            assert (one[name] != other[name]).any(), name


@pytest.mark.slow
@pytest.mark.parametrize('within', [True, False])
def test_compiled_it_repeats_to_the_bit(monkeypatch, within):
    """With workers and without."""
    if not within:
        monkeypatch.setattr(foreign, 'why_not', lambda: 'It is a test.')
    one = weights(env_processes=False)
    same = weights(num_workers=4 if within else 1)
    for name, value in one.items():
        np.testing.assert_array_equal(same[name], value, name)


@pytest.mark.slow
def test_one_program_and_several_differ_by_rounding_alone(monkeypatch):
    within = weights(env_processes=False)
    monkeypatch.setattr(foreign, 'why_not', lambda: 'It is a test.')
    between = weights(env_processes=False)
    for name, value in within.items():
        np.testing.assert_allclose(between[name], value, 1e-3, 1e-4, name)


def learnt(algo, update):
    """The weights of both networks after two rollouts of random steps."""
    rng = np.random.default_rng(0)
    steps, agents = algo._log['value'].shape
    for _ in range(2):
        for _ in range(steps):
            numbers = rng.normal(size=(agents, 9)).astype(np.float32)
            observ, after, action, reward = np.split(numbers, [3, 6, 8], 1)
            done = rng.random(agents) < 0.25
            never = np.zeros_like(done)
            step = Transition(reward[:, 0], done, never, after, never)
            algo.experience(*tf.nest.map_structure(tf.constant, (observ, action, step)))
        update()
    networks = algo.policy.network, algo.value_network
    return [w.numpy() for n in networks for w in n.trainable_variables]


@pytest.mark.slow
def test_update_outside_of_a_graph_learns_what_one_inside_does(define):
    algo = define(learning_rate=0.01)
    networks = algo.policy.network, algo.value_network
    before = [w.numpy() for n in networks for w in n.trainable_variables]
    outside = learnt(algo, algo.update)
    other = define(learning_rate=0.01)
    inside = learnt(other, tf.function(other.update, autograph=False))
    for weights in zip(before, outside, inside, strict=True):
        assert np.abs(weights[0] - weights[1]).max() > 1e-3
        np.testing.assert_allclose(weights[1], weights[2], atol=1e-5)
