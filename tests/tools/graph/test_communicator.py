"""A rank that is alone."""

import pytest

from agents.tools.graph.backend import tf
from agents.tools.graph.communicator import ALONE

FUNCTIONS = {
    'mean': lambda nest: ALONE.mean(nest),
    'broadcast': lambda nest: ALONE.broadcast(nest),
    'gather': lambda nest: ALONE.gather(nest)[0],
    'any': lambda nest: {'flag': ALONE.any(nest['flag'])},
}


@pytest.mark.parametrize('function', FUNCTIONS.values(), ids=FUNCTIONS)
def test_alone_everything_stays_as_it_is_and_costs_nothing(function):
    with tf.Graph().as_default() as graph:
        nest = {'flag': tf.constant(True)}
        before = len(graph.get_operations())
        assert function(nest)['flag'] is nest['flag']
        assert len(graph.get_operations()) == before


def test_alone_it_is_the_first_of_one():
    assert (ALONE.rank, ALONE.size) == (0, 1)
    assert len(ALONE.gather(tf.constant(1))) == 1
