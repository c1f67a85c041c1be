"""Every row once an epoch, in an order that the key decides."""

import numpy as np
import pytest

from agents.parts import minibatches
from agents.tools.graph import random
from agents.tools.graph.backend import compiled, tf

ROWS, BATCH, EPOCHS = 12, 3, 4


class Recorder:
    """A step that records the rows of each minibatch and returns numbers."""

    def __init__(self, epochs=EPOCHS):
        count = epochs * ROWS // BATCH
        self.numbers = tf.Variable(tf.fill((count, BATCH), -1))
        self.position = tf.Variable(0)
        self.consistent = tf.Variable(True)

    def __call__(self, rows):
        row = tf.IndexedSlices(rows['number'][None], self.position[None])
        self.numbers.scatter_update(row)
        self.position.assign_add(1)
        expected = tf.nest.flatten(define_rows(rows['number']))
        for one, other in zip(tf.nest.flatten(rows), expected, strict=True):
            same = tf.reduce_all(one == other)
            self.consistent.assign(self.consistent & same)
        number = tf.cast(rows['number'], tf.float32)
        position = tf.cast(self.position, tf.float32)
        return {'mean': tf.reduce_mean(number), 'position': position}

    def orders(self):
        """The rows as they came, one line an epoch."""
        return self.numbers.numpy().reshape(-1, ROWS)


def define_rows(number):
    """Columns of all types and shapes that can be told from the first."""
    return {
        'number': number,
        'pair': tf.cast(tf.stack([number, -number], -1), tf.float32) / 8,
        'even': number % 2 == 0,
        'bytes': tf.cast(tf.stack([number] * 4, -1), tf.uint8),
        'nothing': (),
    }


def run(recorder, key=0, **others):
    rows, key = define_rows(tf.range(ROWS)), random.key(0, 'test', key)
    return minibatches.train(recorder, rows, BATCH, EPOCHS, key, **others)


@pytest.mark.parametrize('how', [lambda f: f, compiled], ids=['eager', 'xla'])
def test_each_row_comes_once_an_epoch_and_in_one_piece(how):
    recorder = Recorder()
    how(lambda: run(recorder))()
    for order in recorder.orders():
        assert sorted(order) == list(range(ROWS))
    assert recorder.consistent


def test_order_differs_between_epochs():
    recorder = Recorder()
    run(recorder)
    assert len(np.unique(recorder.orders(), axis=0)) == EPOCHS


def test_order_repeats_with_the_key_and_differs_without():
    orders = []
    for key in (0, 0, 100):
        recorder = Recorder()
        run(recorder, key)
        orders.append(recorder.orders())
    np.testing.assert_array_equal(orders[0], orders[1])
    assert (orders[0] != orders[2]).any()


def test_results_are_means_over_the_last_epoch():
    metrics = run(Recorder())
    assert metrics['epochs'] == EPOCHS
    # Minibatches 13 to 16 of the 16.
    assert metrics['position'] == 14.5
    np.testing.assert_allclose(metrics['mean'], (ROWS - 1) / 2)


@pytest.mark.parametrize('how', [lambda f: f, compiled], ids=['eager', 'xla'])
def test_stop_leaves_out_the_epochs_that_remain(how):
    recorder = Recorder()
    # The means over epochs are 2.5, 6.5, 10.5, 14.5.
    metrics = how(lambda: run(recorder, stop=lambda x: x['position'] > 6))()
    assert metrics['epochs'] == 2
    assert metrics['position'] == 6.5
    assert (recorder.orders()[:2] >= 0).all()
    assert (recorder.orders()[2:] == -1).all()


def test_one_minibatch_of_all_rows():
    seen = []
    minibatches.train(
        lambda rows: {'sum': tf.cast(tf.reduce_sum(rows), tf.float32)},
        tf.range(ROWS),
        batch_size=ROWS,
        epochs=1,
        key=random.key(0, 'test', 0),
        stop=lambda x: seen.append(x['sum']) or tf.constant(False),
    )
    assert seen == [ROWS * (ROWS - 1) / 2]
