"""Two functions at the same time, each on a device of its own."""

import threading
import time

import pytest

from agents.tools.graph import devices
from agents.tools.graph.backend import tf

# None where TensorFlow was in use before it could be set up.
DEVICES = [None, devices.SECOND_DEVICE] if devices.SECOND_DEVICE else [None]
each_device = pytest.mark.parametrize('device', DEVICES)
on_two_devices = pytest.mark.skipif(
    devices.SECOND_DEVICE is None, reason='TensorFlow was in use before.'
)


@each_device
def test_together_returns_in_order(device):
    assert devices.run_concurrently(lambda: 'first', lambda: 'second', device) == (
        'first',
        'second',
    )


@on_two_devices
def test_together_runs_both_at_the_same_time():
    barrier = threading.Barrier(2, timeout=20)

    def meet():
        barrier.wait()  # Raises unless the other one comes.
        return tf.constant(1.0).device

    first, second = devices.run_concurrently(meet, meet, devices.SECOND_DEVICE)
    assert first.endswith('CPU:0')
    assert second.endswith('CPU:1')


def test_together_without_a_device_is_one_after_the_other():
    order = []

    def call():
        order.append(threading.current_thread())
        return len(order), tf.constant(1.0).device[-5:]

    both = devices.run_concurrently(call, call, None)
    assert both == ((1, 'CPU:0'), (2, 'CPU:0'))
    assert order == [threading.current_thread()] * 2


@each_device
def test_together_in_a_graph_is_one_after_the_other(device):
    order = tf.Variable(tf.zeros([], tf.int32))

    @tf.function
    def both():
        return devices.run_concurrently(
            lambda: order.assign_add(1).read_value(),
            lambda: order.assign(order * 10).read_value(),
            device,
        )

    assert [int(value) for value in both()] == [1, 10]


@each_device
@pytest.mark.parametrize('place', [0, 1])
def test_together_raises_what_either_raises(device, place):
    def fail():
        raise ValueError('not today')

    functions = [lambda: 1, lambda: 2]
    functions[place] = fail
    with pytest.raises(ValueError, match='not today'):
        devices.run_concurrently(*functions, device)


@on_two_devices
def test_together_waits_for_the_second_if_the_first_raises():
    raised, ended = threading.Event(), []

    def fail():
        raised.set()
        raise ValueError('not today')

    def take_longer():
        raised.wait(20)
        time.sleep(0.1)
        ended.append(True)

    with pytest.raises(ValueError, match='not today'):
        devices.run_concurrently(fail, take_longer, devices.SECOND_DEVICE)
    assert ended


@on_two_devices
def test_together_tells_of_both_errors():
    def fail(text):
        raise ValueError(text)

    with pytest.raises(ValueError, match='not today') as caught:
        devices.run_concurrently(
            lambda: fail('not today'), lambda: fail('nor ever'), devices.SECOND_DEVICE
        )
    assert str(caught.value.__cause__) == 'nor ever'
