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


def run(recorder, key=0, stop=None, epochs=EPOCHS):
    passes = define_passes(recorder, key=key, stop=stop, epochs=epochs)
    return minibatches.train(passes)


def define_passes(recorder, key=0, batch_size=BATCH, epochs=EPOCHS, **others):
    return minibatches.Passes(
        rows=define_rows(tf.range(ROWS)),
        batch_size=batch_size,
        epochs=epochs,
        key=random.key(0, 'test', key),
        measure=lambda rows: rows,
        follow=recorder,
        **others,
    )


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
        minibatches.Passes(
            rows=tf.range(ROWS),
            batch_size=ROWS,
            epochs=1,
            key=random.key(0, 'test', 0),
            measure=tf.reduce_sum,
            follow=lambda x: {'sum': tf.cast(x, tf.float32)},
            stop=lambda x: seen.append(x['sum']) or tf.constant(False),
        )
    )
    assert seen == [ROWS * (ROWS - 1) / 2]


@pytest.mark.parametrize('how', [lambda f: f, compiled], ids=['eager', 'xla'])
def test_passes_in_step_are_what_they_are_alone(how):
    alone, beside = ([Recorder(), Recorder()] for _ in range(2))
    for number, recorder in enumerate(alone):
        how(lambda r=recorder, n=number: run(r, key=100 * n))()
    every = [define_passes(recorder, key=100 * number) for number, recorder in enumerate(beside)]
    assert minibatches.fit_together(every)
    found = how(lambda: minibatches.train_in_step(every))()
    for one, other, metrics in zip(alone, beside, found, strict=True):
        np.testing.assert_array_equal(one.orders(), other.orders())
        assert other.consistent
        assert (metrics['position'], metrics['epochs']) == (14.5, EPOCHS)


@pytest.mark.parametrize(
    'changes', [{'batch_size': 6}, {'epochs': 3}, {'stop': lambda _: tf.constant(True)}]
)
def test_passes_that_differ_in_number_do_not_fit_together(changes):
    every = [define_passes(None), define_passes(None, **changes)]
    assert not minibatches.fit_together(every)
