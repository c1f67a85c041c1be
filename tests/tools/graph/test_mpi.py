"""Ranks that real MPI has started."""

import json

import pytest

# Every function, with values that tell of which rank they are, of all types
# and of no dimensions; in loops and branches of a program, in a graph and in
# none. Then numbers that only come out alike if all ranks add in the same
# order, in memory that is shared and too long for it. Each rank writes down
# what it has found.
SPEAK = """
import hashlib, json, pathlib
import numpy as np
from agents.tools import nested, world
from agents.tools.graph import mpi
from agents.tools.graph.backend import compiled, tf

ranks = mpi.define(world.connect())
me = float(ranks.rank)

def speak():
    mine = tf.constant(me)
    nest = {
        'b': tf.stack([mine, 2 * mine]),
        'a': [tf.cast(mine, tf.float64) / 3, mine + 1],
    }
    several = {
        'flag': mine > 0,
        'number': tf.cast(mine, tf.int32),
        'bytes': tf.cast(tf.fill([3], mine), tf.uint8),
        'long': tf.cast(mine, tf.int64),
        'short': tf.cast(tf.fill([2], mine), tf.int16),
        'matrix': tf.fill([2, 2], mine),
    }
    def step(count, total):
        total += ranks.mean(mine + tf.cast(count, tf.float32))
        return count + 1, total
    _, total = tf.while_loop(lambda c, _: c < 5, step, [0, 0.0])
    # None of these depends on another.
    return {
        'mean': ranks.mean(nest),
        'any': ranks.any(mine > 0),
        'none': ranks.any(mine < 0),
        'gather': ranks.gather(several),
        'some': ranks.gather(several, root=1),
        'first': ranks.broadcast(several),
        'last': ranks.broadcast(several, ranks.size - 1),
        'total': total,
    }

ways = {'compiled': compiled, 'graph': tf.function, 'eager': lambda f: f}
found = {
    how: nested.map(lambda x: x.numpy().tolist(), wrap(speak)())
    for how, wrap in ways.items()
}
digest = hashlib.sha256()
for size in (10_007, 3, 700_001, 10_007, 1):
    every = [
        np.random.default_rng(rank).normal(size=size).astype(np.float32)
        for rank in range(ranks.size)
    ]
    for _ in range(3):
        mean = compiled(ranks.mean)(tf.constant(every[ranks.rank])).numpy()
        np.testing.assert_allclose(mean, np.mean(every, 0), atol=1e-6)
        digest.update(mean.tobytes())
text = json.dumps([ranks.rank, ranks.size, found, digest.hexdigest()])
pathlib.Path(str(ranks.rank)).write_text(text)
"""


def several(rank):
    return {
        'flag': rank > 0,
        'number': rank,
        'bytes': [rank] * 3,
        'long': rank,
        'short': [rank] * 2,
        'matrix': [[rank] * 2] * 2,
    }


# Two ranks cannot add in different orders, as three can.
@pytest.mark.slow
@pytest.mark.parametrize('size', [2, 3])
def test_what_ranks_tell_each_other(run_ranks, tmp_path, size):
    lines = map(json.loads, run_ranks(tmp_path, size, '-c', SPEAK))
    digests = set()
    for rank, (found_rank, found_size, ways, digest) in enumerate(lines):
        assert (found_rank, found_size) == (rank, size)
        assert ways.keys() == {'compiled', 'graph', 'eager'}
        for found in ways.values():
            check(found, rank, size)
        digests.add(digest)
    assert len(digests) == 1


def check(found, rank, size):
    middle = (size - 1) / 2
    assert found['mean']['b'] == [middle, 2 * middle]
    assert found['mean']['a'] == pytest.approx([middle / 3, middle + 1])
    assert (found['any'], found['none']) == (True, False)
    expected = [several(other) for other in range(size)]
    assert found['gather'] == expected
    assert found['some'] == (expected if rank == 1 else [])
    assert found['first'] == several(0)
    assert found['last'] == several(size - 1)
    assert found['total'] == pytest.approx(5 * middle + 10)
