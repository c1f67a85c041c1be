"""Application of networks along time, recurrent or not.

A recurrent network has an attribute `state_size` and maps (inputs, state) to (outputs, state),
one step of a batch at a time. Any other network maps inputs to outputs; its state is the empty
tuple. The functions here take both.
"""

from typing import Any, TypeAlias

from agents.tools import nested
from agents.tools.graph.backend import keras, tf
from agents.tools.nested import Nest

# A model of Keras, recurrent or not.
Network: TypeAlias = keras.Layer

# Steps whose intermediate results fit into the cache of a processor.
PART_STEPS = 2048


def is_recurrent(network: Network) -> bool:
    return hasattr(network, 'state_size')


def zero_state(network: Network, batch: int) -> Nest:
    """Return the recurrent state at the start of an episode, leaves `[batch, size]`."""
    if not is_recurrent(network):
        return ()
    return nested.map(lambda size: tf.zeros((batch, size)), network.state_size)


def forget(state: Nest, begins: tf.Tensor) -> Nest:
    """Reset the recurrent state where an episode begins."""
    return nested.map(lambda x: tf.where(begins[:, None], 0.0, x), state)


def step(network: Network, inputs: Nest, state: Nest) -> tuple[tf.Tensor, Any]:
    """Apply a network to inputs `[batch, ...]`; returns outputs and the next state."""
    if is_recurrent(network):
        return network(inputs, state)
    return network(inputs), state


def unroll(network: Network, inputs: Nest, begins: tf.Tensor, state: Nest) -> tuple[tf.Tensor, Any]:
    """Apply a network along time.

    Args:
        network: Network to apply.
        inputs: Nest of tensors `[time, batch, ...]`.
        begins: Mask of the first steps of episodes, `[time, batch]`.
        state: Recurrent state before the first step.

    Returns:
        Outputs `[time, batch, size]`, and the recurrent states after each step,
        `[time, batch, size]`.
    """
    if is_recurrent(network):
        return _scan(network, inputs, begins, state)
    return step_all(network, inputs, ())


def step_all(network: Network, inputs: Nest, states: Nest) -> tuple[tf.Tensor, Any]:
    """Apply a network to each step on its own, as one large batch.

    Args:
        network: Network to apply.
        inputs: Nest of tensors `[time, batch, ...]`.
        states: Recurrent states before each step, `[time, batch, size]`.

    Returns:
        Outputs and states after each step, `[time, batch, ...]`.
    """
    time, batch = nested.flatten(inputs)[0].shape[:2]

    def merge(x: tf.Tensor) -> tf.Tensor:
        return tf.reshape(x, [time * batch, *x.shape[2:]])

    def split(x: tf.Tensor) -> tf.Tensor:
        return tf.reshape(x, [time, batch, *x.shape[1:]])

    merged = nested.map(merge, (inputs, states))
    return nested.map(split, step(network, *merged))


def _scan(network: Network, inputs: Nest, begins: tf.Tensor, state: Nest) -> tuple[tf.Tensor, Any]:
    def time_step(carry: Nest, now: Any) -> Nest:
        inputs, begins = now
        return step(network, inputs, forget(carry[1], begins))

    return _collect(time_step, (inputs, begins), (None, state))


def _collect(function: Any, inputs: Nest, before: Nest) -> Nest:
    """Stack the results of a function of its previous result and the next inputs."""

    def at(index: slice | int) -> Nest:
        return nested.map(lambda x: x[index], inputs)

    first = function(before, at(0))
    if nested.flatten(inputs)[0].shape[0] == 1:
        return nested.map(lambda x: x[None], first)
    others = tf.scan(function, at(slice(1, None)), first, parallel_iterations=1)
    return nested.map(lambda x, xs: tf.concat([x[None], xs], 0), first, others)


def to_rows(network: Network, steps: Any, state: Nest) -> Nest:
    """Turn a rollout into rows that can be shuffled.

    A row is one step, or for a recurrent network the whole sequence of an agent.

    Args:
        network: Network to be trained on the rows.
        steps: Nest of tensors `[time, agent, ...]`.
        state: Recurrent state before the first step, `[agent, ...]`.
    """
    if is_recurrent(network):
        return {'steps': nested.map(_swap, steps), 'state': state}

    def merge(x: tf.Tensor) -> tf.Tensor:
        return tf.reshape(x, [x.shape[0] * x.shape[1], *x.shape[2:]])

    return {'steps': nested.map(merge, steps), 'state': ()}


def from_rows(network: Network, rows: Nest) -> tuple[Any, Any]:
    """Turn rows back into steps `[time, row, ...]` and the state before them."""
    if is_recurrent(network):
        return nested.map(_swap, rows['steps']), rows['state']
    return nested.map(lambda x: x[None], rows['steps']), ()


def rows_per_batch(network: Network, batch_size: int, steps: int) -> int:
    """Return the number of rows of `to_rows` in a minibatch of `batch_size` steps."""
    return batch_size // steps if is_recurrent(network) else batch_size


def rows_per_part(network: Network, steps: int) -> int:
    """Return the number of rows of `to_rows` to compute at a time.

    The intermediate results of some thousand steps stay in the cache of the processor, which is a
    quarter faster than a hundred thousand steps at once.
    """
    return max(1, rows_per_batch(network, PART_STEPS, steps))


def _swap(x: tf.Tensor) -> tf.Tensor:
    return tf.transpose(x, [1, 0, *range(2, x.shape.rank)])
