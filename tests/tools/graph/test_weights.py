"""Variables are found by names that follow from the code, and counted."""

import pytest

from agents.tools import count_weights
from agents.tools.graph import weights
from agents.tools.graph.backend import keras, tf


class Module(tf.Module):
    """Holds what it is given."""

    def __init__(self, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)


def variable(*shape, trainable=True):
    return tf.Variable(tf.zeros(shape), trainable=trainable)


def network():
    net = keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(2)])
    net.build((None, 3))
    return net


def test_names_are_paths_of_attributes():
    module = Module(
        second=variable(2),
        _first=[variable(), {'b': variable(), 'a': (variable(3),)}],
        inner=Module(_x=variable()),
        other='text',
        none=None,
    )
    names = ['first/0', 'first/1/a/0', 'first/1/b', 'inner/x', 'second']
    found = weights.named_variables(module)
    assert list(found) == names
    assert found['second'] is module.second
    assert list(weights.named_variables(module, 'algo')) == [f'algo/{name}' for name in names]
    assert sorted(weights.named_variables({'a': [module.second]})) == ['a/0']


def test_variable_by_several_ways_has_one_name():
    shared = variable()
    module = Module(b=shared, a=[shared], c=Module(d=shared))
    assert list(weights.named_variables(module)) == ['a/0']


def test_two_variables_of_one_name_are_refused():
    module = Module(x=variable(), _x=variable())
    with pytest.raises(ValueError, match="Two attributes have the name 'x'"):
        weights.named_variables(module)


def test_names_of_networks():
    found = weights.named_variables(Module(net=network()))
    assert list(found) == [
        'net/0-kernel', 'net/1-bias', 'net/2-kernel', 'net/3-bias'
    ]  # fmt: skip
    assert all(isinstance(v, tf.Variable) for v in found.values())


def test_names_do_not_depend_on_what_was_built_before():
    def build():
        net, optimizer = network(), keras.optimizers.Adam()
        optimizer.build(net.trainable_variables)
        return Module(net=net, optimizer=optimizer, more=[network()])

    first, second = build(), build()
    names = list(weights.named_variables(first))
    assert names == list(weights.named_variables(second))
    # 4 weights, 2 for the whole optimizer, 2 for each weight, 4 more weights.
    assert len(names) == 4 + 2 + 8 + 4
    assert count_weights(first) == 52  # The moments are not trainable.


def test_count_of_a_network():
    # Kernel 3×4 and bias 4; kernel 4×2 and bias 2.
    assert count_weights(network()) == 12 + 4 + 8 + 2


def test_frozen_layers_do_not_count():
    net = network()
    net.layers[0].trainable = False
    assert count_weights(net) == 10
    assert count_weights(Module(net=net, x=variable(5))) == 15


def test_only_trainable_numbers_count():
    parts = [variable(2, 3), variable(), variable(9, trainable=False)]
    assert count_weights(parts) == 7
    assert count_weights(variable(0)) == 0
    assert count_weights([]) == 0


def test_scope_and_exclude():
    module = Module(
        policy=Module(mean=variable(2), std=variable(3)), policy_2=variable(20), value=variable(200)
    )
    assert count_weights(module) == 225
    assert count_weights(module, scope='policy') == 5
    assert count_weights(module, scope='policy/') == 5
    assert count_weights(module, scope='policy/std') == 3
    assert count_weights(module, scope='polic') == 0
    assert count_weights(module, exclude=r'policy') == 200
    assert count_weights(module, exclude=r'.*/std$') == 222
    assert count_weights(module, scope='policy', exclude='.*mean') == 3


def test_two_variables_of_a_name_are_refused():
    one, other = tf.Variable(0.0), tf.Variable(0.0)
    with pytest.raises(ValueError, match="Two variables have the name 'a/b'"):
        weights.named_variables({'a': {'b': one}, 'a/b': other})
