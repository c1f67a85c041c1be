"""Nests of tuples, named tuples, lists and dictionaries."""

import collections

import pytest

from agents.tools import AttrDict, nested
from agents.tools.graph.backend import tf

Point = collections.namedtuple('Point', 'y x')


def test_map_returns_the_types_of_the_first():
    nest = ({'b': 1, 'a': [2, 3]}, Point(4, (5,)))
    result = nested.map(lambda x: 10 * x, nest)
    assert result == ({'b': 10, 'a': [20, 30]}, Point(40, (50,)))
    assert type(result[1]) is Point
    assert type(result[0]['a']) is list


def test_map_keeps_the_order_of_keys_and_matches_by_key():
    first, second = {'b': 1, 'a': 2}, {'a': 20, 'b': 10}
    result = nested.map(lambda x, y: x + y, first, second)
    assert list(result.items()) == [('b', 11), ('a', 22)]


def test_map_calls_in_the_order_of_flatten():
    seen = []
    nested.map(seen.append, {'b': 1, 'a': Point(2, 3)})
    assert seen == nested.flatten({'b': 1, 'a': Point(2, 3)}) == [2, 3, 1]


def test_map_of_a_leaf():
    assert nested.map(lambda x, y: x - y, 3, 1) == 2


def test_map_of_empty_containers():
    assert nested.map(abs, ((), {}, [])) == ((), {}, [])


def test_zip():
    first, second = {'a': 1, 'b': [2]}, {'b': [4], 'a': 3}
    assert nested.zip(first, second) == {'a': (1, 3), 'b': [(2, 4)]}


def test_flatten_sorts_keys_as_tensorflow_does():
    nest = {'b': Point(3, 4), 'a': [1, (2,)], 'c': {}}
    assert nested.flatten(nest) == [1, 2, 3, 4] == tf.nest.flatten(nest)
    assert nested.flatten(5) == [5]
    assert nested.flatten(()) == []


def test_none_and_text_are_leaves():
    assert nested.flatten([None, 'ab']) == [None, 'ab']


def test_filter_keeps_containers():
    nest = {'a': 1, 'b': (1, 2), 'c': [0, {'d': 0}], 'e': Point(3, 0)}
    result = nested.filter(lambda x: x > 1, nest)
    assert result == {'b': (2,), 'c': [{}], 'e': (3,)}
    assert type(result['e']) is tuple


def test_filter_keeps_the_order_of_keys():
    result = nested.filter(lambda x: x, {'b': 1, 'c': 0, 'a': 1})
    assert list(result) == ['b', 'a']


def test_filter_refuses_a_leaf():
    with pytest.raises(TypeError, match='Expected a structure'):
        nested.filter(bool, 1)


def test_names_are_in_the_order_of_flatten():
    nest = {'b': Point(3, 4), 'a': [1, (2,)]}
    assert nested.names(nest) == ['a/0', 'a/1/0', 'b/y', 'b/x']
    assert nested.names(5) == ['']
    assert nested.names(5, 'only') == ['only']
    assert nested.names([5], 'part') == ['part/0']


@pytest.mark.parametrize(
    'first, second',
    [
        ({'a': 1}, {'b': 1}),
        ({'a': 1}, {'a': 1, 'b': 2}),
        ((1, 2), (1,)),
        ((1,), 1),
        (1, (1,)),
        ([1, (2,)], [1, 2]),
        ((), 1),
        (Point(1, 2), (1, 2)),
        ({'a': {'b': 1}}, {'a': {'c': 1}}),
    ],
)
def test_structures_that_differ_are_refused(first, second):
    for pair in ((first, second), (second, first)):
        with pytest.raises(TypeError, match='Structures differ'):
            nested.map(lambda *leaves: leaves, *pair)
        with pytest.raises(TypeError, match='Structures differ'):
            nested.zip(*pair)


def test_error_tells_the_parts():
    with pytest.raises(TypeError) as raised:
        nested.zip({'a': 1}, {'b': 1})
    assert "['a']" in str(raised.value) and "['b']" in str(raised.value)


def test_attr_dict_is_a_dictionary():
    nest = AttrDict(b=1, a=AttrDict(c=2))
    assert nested.map(abs, nest) == {'b': 1, 'a': {'c': 2}}
    assert nested.flatten(nest) == [2, 1]


@pytest.mark.parametrize(
    'nest',
    [(1, 2), [1, [2]], {'b': 1, 'a': (2,)}, Point(1, [2])],
    ids=['tuple', 'list', 'dict', 'namedtuple'],
)
def test_containers_that_a_module_wraps(nest):
    module = tf.Module()
    module.nest = nest
    result = nested.map(lambda x: 10 * x, module.nest)
    assert result == nested.map(lambda x: 10 * x, nest)
    assert nested.names(module.nest) == nested.names(nest)
    assert isinstance(result, type(nest))
