"""Nests of variables."""

from typing import NamedTuple

import numpy as np

from agents.tools.graph import state
from agents.tools.graph.backend import tf


class Pair(NamedTuple):
    first: tf.Tensor
    second: tf.Tensor


def test_values_of_a_nest_are_kept():
    variables = state.variables({'a': Pair(tf.ones(2), tf.constant(3))})
    values = state.read(variables)
    assert isinstance(values['a'], Pair)
    np.testing.assert_array_equal(values['a'].first, [1, 1])
    assert values['a'].second == 3


def test_read_values_do_not_follow_later_changes():
    variables = state.variables([tf.constant(1), tf.constant(2)])
    before = state.read(variables)
    state.assign(variables, [tf.constant(10), tf.constant(20)])
    assert before == [1, 2]
    assert state.read(variables) == [10, 20]


def test_no_state_is_an_empty_tuple():
    variables = state.variables(())
    state.assign(variables, ())
    assert state.read(variables) == ()


def test_kept_by_a_module_they_are_still_a_nest():
    module = tf.Module()
    module.nest = state.variables([tf.zeros(2), {'c': (tf.zeros(3),)}])
    state.assign(module.nest, [tf.ones(2), {'c': (tf.ones(3),)}])
    first, rest = state.read(module.nest)
    np.testing.assert_array_equal(first, [1, 1])
    np.testing.assert_array_equal(rest['c'][0], [1, 1, 1])


def test_variables_are_not_trained():
    assert not state.variables(tf.zeros(2)).trainable
