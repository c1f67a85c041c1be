"""Loops whose results are nests."""

import numpy as np
import pytest

from agents.tools.graph import loops
from agents.tools.graph.backend import compiled, tf

EACH_WAY = pytest.mark.parametrize(
    'how', [lambda f: f, tf.function, compiled], ids=['eager', 'graph', 'xla']
)


class Counter:
    """Returns a nest of numbers, and counts how often it was called."""

    def __init__(self):
        self.calls = tf.Variable(0)
        self.traces = 0

    def __call__(self, number):
        self.traces += 1
        self.calls.assign_add(1)
        value = tf.cast(number, tf.float32)
        return {'b': [value, tf.stack([value, 1.0])], 'a': self.calls + 0}


@EACH_WAY
@pytest.mark.parametrize('count', [1, 4])
def test_results_are_added_up(how, count):
    counter = Counter()
    total = how(lambda: loops.add_up(counter, count))()
    numbers = np.arange(count)
    assert counter.calls == count
    assert total['a'] == (numbers + 1).sum()
    assert total['b'][0] == numbers.sum()
    np.testing.assert_array_equal(total['b'][1], [numbers.sum(), count])


@EACH_WAY
@pytest.mark.parametrize(('limit', 'calls'), [(0, 1), (2, 3), (9, 4)])
def test_repeating_ends_where_it_is_stopped(how, limit, calls):
    counter = Counter()

    def stop(result):
        return result['b'][0] >= limit

    done, last = how(lambda: loops.repeat(counter, 4, stop))()
    assert done == calls == counter.calls
    assert last['a'] == calls
    assert last['b'][0] == calls - 1


@EACH_WAY
def test_loops_within_loops(how):
    def row(number):
        inner = loops.add_up(lambda column: {'sum': 10 * number + column}, 3)
        return inner['sum']

    def run():
        return loops.repeat(row, 3, lambda result: tf.constant(False))

    done, last = how(run)()
    assert (done, last) == (3, 20 + 21 + 22)


def test_function_is_traced_once():
    counter = Counter()
    tf.function(lambda: loops.add_up(counter, 5))()
    assert counter.traces == 1
    assert counter.calls == 5
