"""Networks over time, with episodes that begin in between."""

import types

import numpy as np
import pytest

from agents.parts import sequences
from agents.tools import nested
from agents.tools.graph.backend import compiled, keras, tf

TIME, BATCH, SIZE = 5, 3, 2


class Decay:
    """Adds its inputs up, half of the sum lost with every step."""

    state_size = 1

    def __call__(self, inputs, state):
        state = 0.5 * state + inputs
        return 10 * state, state


class TwoParts:
    """An LSTM, whose state has two parts, on a nest of inputs."""

    state_size = types.MappingProxyType({'hidden': 4, 'cell': 4})

    def __init__(self):
        self._cell = keras.layers.LSTMCell(4, bias_initializer='uniform')

    def __call__(self, inputs, state):
        inputs = tf.concat([inputs['a'], inputs['b'][:, None]], -1)
        output, (hidden, cell) = self._cell(inputs, [state['hidden'], state['cell']])
        return output, {'hidden': hidden, 'cell': cell}


def normal(*shape):
    numbers = np.random.default_rng(shape).normal(size=shape)
    return tf.constant(numbers, tf.float32)


@pytest.fixture(scope='module')
def lstm():
    return TwoParts()


INPUTS = {'a': normal(TIME, BATCH, SIZE), 'b': normal(TIME, BATCH)}
STATE = {'hidden': normal(BATCH, 4), 'cell': normal(BATCH, 4)}
# Episodes that begin at the start, in between, twice in a row, and not at all.
BEGINS = tf.cast([[1, 0, 0], [0, 1, 0], [0, 1, 0], [1, 0, 0], [0, 0, 0]], tf.bool)


def at(nest, time):
    return nested.map(lambda x: x[time], nest)


def assert_close(nest, other, **tolerance):
    pairs = zip(nested.flatten(nest), nested.flatten(other), strict=True)
    for one, another in pairs:
        np.testing.assert_allclose(one, another, atol=1e-6, **tolerance)


def test_unrolling_computed_by_hand():
    # Two agents; for the second an episode begins at the third step.
    inputs = tf.constant([[1.0, 1], [2, 2], [4, 4]])[..., None]
    begins = tf.cast([[0, 0], [0, 0], [0, 1]], tf.bool)
    before = tf.constant([[8.0], [4.0]])
    output, states = sequences.unroll(Decay(), inputs, begins, before)
    # 8/2 + 1, 5/2 + 2, 4.5/2 + 4, and 4/2 + 1, 3/2 + 2, 4.
    expected = [[5, 3], [4.5, 3.5], [6.25, 4]]
    np.testing.assert_allclose(states[..., 0], expected)
    np.testing.assert_allclose(output, 10 * states)


@pytest.mark.parametrize('how', [lambda f: f, compiled], ids=['eager', 'xla'])
def test_unrolling_is_one_step_after_the_other(lstm, how):
    def unroll(inputs, begins, state):
        return sequences.unroll(lstm, inputs, begins, state)

    outputs, states = how(unroll)(INPUTS, BEGINS, STATE)
    state = STATE
    for time in range(TIME):
        before = sequences.forget(state, BEGINS[time])
        output, state = sequences.step(lstm, at(INPUTS, time), before)
        assert_close(outputs[time], output)
        assert_close(at(states, time), state)


def test_unrolling_a_single_step(lstm):
    first = nested.map(lambda x: x[:1], INPUTS)
    outputs, states = sequences.unroll(lstm, first, BEGINS[:1], STATE)
    expected = sequences.unroll(lstm, INPUTS, BEGINS, STATE)
    assert_close((outputs[0], at(states, 0)), at(expected, 0))
    assert outputs.shape == (1, BATCH, 4)


def test_unrolling_in_two_parts_is_unrolling_at_once(lstm):
    whole, _ = sequences.unroll(lstm, INPUTS, BEGINS, STATE)
    parts, state = [], STATE
    for part in (slice(0, 2), slice(2, None)):
        output, states = sequences.unroll(lstm, at(INPUTS, part), BEGINS[part], state)
        state = at(states, -1)
        parts.append(output)
    assert_close(tf.concat(parts, 0), whole)


def test_what_was_before_an_episode_has_no_influence(lstm):
    whole, _ = sequences.unroll(lstm, INPUTS, BEGINS, STATE)
    # The first agent's second episode alone.
    alone, _ = sequences.unroll(
        lstm, nested.map(lambda x: x[3:, :1], INPUTS), BEGINS[3:, :1], sequences.zero_state(lstm, 1)
    )
    assert_close(whole[3:, :1], alone)


def test_gradients_flow_back_to_the_beginning_of_the_episode():
    inputs = tf.ones((TIME, BATCH, 1))
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        output, _ = sequences.unroll(Decay(), inputs, BEGINS, tf.zeros((BATCH, 1)))
        last = tf.reduce_sum(output[-1])
    gradient = tape.gradient(last, inputs)[..., 0]
    # 10 for the last input, half of it for each one before in the episode.
    expected = np.transpose([[0, 0, 0, 5, 10], [0, 0, 2.5, 5, 10], [0.625, 1.25, 2.5, 5, 10]])
    np.testing.assert_allclose(gradient, expected)


def test_network_without_memory_sees_every_step_alone():
    dense = keras.layers.Dense(4)
    inputs = INPUTS['a']
    output, state = sequences.unroll(dense, inputs, BEGINS, ())
    assert state == ()
    for time in range(TIME):
        assert_close(output[time], dense(inputs[time]))


def test_step_all_takes_the_state_before_each_step(lstm):
    states = {'hidden': normal(TIME, BATCH, 4), 'cell': normal(TIME, BATCH, 4)}
    outputs, after = sequences.step_all(lstm, INPUTS, states)
    for time in range(TIME):
        one = sequences.step(lstm, at(INPUTS, time), at(states, time))
        assert_close((outputs[time], at(after, time)), one)


def test_zero_state(lstm):
    state = sequences.zero_state(lstm, BATCH)
    assert set(state) == {'hidden', 'cell'}
    np.testing.assert_array_equal(state['cell'], np.zeros((BATCH, 4)))
    assert sequences.zero_state(keras.layers.Dense(4), BATCH) == ()


def test_forgetting_by_mask():
    mask = tf.constant([True, False, True])
    state = sequences.forget(STATE, mask)
    np.testing.assert_array_equal(state['cell'][1], STATE['cell'][1])
    assert not state['cell'].numpy()[[0, 2]].any()
    assert sequences.forget((), mask) == ()


STEPS = {'observ': INPUTS, 'begins': BEGINS}


def test_rows_are_agents_where_the_network_remembers(lstm):
    rows = sequences.to_rows(lstm, STEPS, STATE)
    assert {len(leaf) for leaf in nested.flatten(rows)} == {BATCH}
    steps, state = sequences.from_rows(lstm, rows)
    assert_close(state, STATE)
    assert_close(steps['observ'], INPUTS)
    np.testing.assert_array_equal(steps['begins'], BEGINS)


def test_some_rows_are_unrolled_as_among_the_others(lstm):
    whole, _ = sequences.unroll(lstm, INPUTS, BEGINS, STATE)
    rows = sequences.to_rows(lstm, STEPS, STATE)
    chosen = nested.map(lambda x: tf.gather(x, [2, 0]), rows)
    steps, state = sequences.from_rows(lstm, chosen)
    output, _ = sequences.unroll(lstm, steps['observ'], steps['begins'], state)
    assert_close(output, tf.gather(whole, [2, 0], axis=1))


def test_rows_are_steps_where_it_does_not():
    dense = keras.layers.Dense(4)
    rows = sequences.to_rows(dense, STEPS, ())
    assert {len(leaf) for leaf in nested.flatten(rows)} == {TIME * BATCH}
    chosen = nested.map(lambda x: x[4:6], rows)
    steps, state = sequences.from_rows(dense, chosen)
    assert state == ()
    # The fifth row is the second agent at the second step.
    np.testing.assert_array_equal(steps['observ']['a'][0, 0], INPUTS['a'][1, 1])
    assert steps['observ']['a'].shape == (1, 2, SIZE)


def test_rows_of_a_minibatch(lstm):
    assert sequences.rows_per_batch(lstm, 10, TIME) == 2
    assert sequences.rows_per_batch(keras.layers.Dense(4), 10, TIME) == 10


class Cubic(keras.Model):
    """A network with second derivatives, which may remember."""

    def __init__(self, remembers):
        super().__init__()
        if remembers:
            self.state_size = 1
        self.factor = self.add_weight(shape=(), initializer='ones')

    def call(self, inputs, state=None):
        output = self.factor**3 * inputs
        if state is None:
            return output
        state = 0.5 * state + output
        return state, state


@pytest.mark.parametrize('how', [lambda f: f, compiled], ids=['eager', 'xla'])
@pytest.mark.parametrize('remembers', [False, True])
def test_gradients_of_gradients(how, remembers):
    network = Cubic(remembers)
    inputs = normal(TIME, BATCH, 1)
    state = sequences.zero_state(network, BATCH)

    def differentiate():
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                output, _ = sequences.unroll(network, inputs, BEGINS, state)
                total = tf.reduce_sum(output)
            first = inner.gradient(total, network.factor.value)
        return total, first, outer.gradient(first, network.factor.value)

    total, first, second = how(differentiate)()
    # All that there is is a multiple of the factor to the third power.
    np.testing.assert_allclose(first, 3 * total, rtol=1e-5)
    np.testing.assert_allclose(second, 6 * total, rtol=1e-5)
