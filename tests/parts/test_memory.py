"""What goes into the record of a rollout comes out of it."""

import numpy as np
import pytest

from agents.parts.memory import RolloutMemory
from agents.tools import nested
from agents.tools.graph.backend import compiled, tf
from agents.tools.layout import Spec

STEPS, AGENTS = 4, 3

SPECS = {
    'state': Spec((2,), 'float32'),
    'image': Spec((2, 2), 'uint8'),
    'rest': (Spec((), 'int32'), Spec((3,), 'bool')),
}


def rollout(seed=0):
    rng = np.random.default_rng(seed)
    lead = STEPS, AGENTS
    # Small integers are no normal floats, which some programs round to zero.
    integers = rng.choice([0, 1, 2, -1, 2**31 - 1, -(2**31)], lead)
    return {
        'state': rng.normal(size=(*lead, 2)).astype(np.float32),
        'image': rng.integers(0, 256, (*lead, 2, 2), np.uint8),
        'rest': (integers.astype(np.int32), rng.random((*lead, 3)) < 0.5),
    }


def record(append, steps):
    for time in range(STEPS):
        append(nested.map(lambda x, now=time: tf.constant(x[now]), steps))


def assert_same(nest, other):
    for leaf, expected in zip(
        nested.flatten(nest), nested.flatten(other), strict=True
    ):
        np.testing.assert_array_equal(leaf, expected)
        assert leaf.numpy().dtype == expected.dtype


@pytest.mark.parametrize('how', [lambda f: f, compiled], ids=['eager', 'xla'])
def test_steps_come_back_as_they_were(how):
    memory = RolloutMemory(SPECS, STEPS, AGENTS)
    record(how(memory.append), rollout())
    assert_same(how(memory.data)(), rollout())


def test_length_counts_steps_until_cleared():
    memory = RolloutMemory(SPECS, STEPS, AGENTS)
    assert memory.length == 0
    record(memory.append, rollout())
    assert memory.length == STEPS
    memory.clear()
    assert memory.length == 0


def test_next_rollout_replaces_the_last():
    memory = RolloutMemory(SPECS, STEPS, AGENTS)
    for seed in (0, 1):
        record(memory.append, rollout(seed))
        memory.clear()
    assert_same(memory.data(), rollout(1))
