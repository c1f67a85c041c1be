"""Messages over a real pair of sockets."""

import os
import socket
import threading
import time
import types

import pytest

from agents.tools.workers import channel


@pytest.fixture
def sockets():
    pair = socket.socketpair()
    yield pair
    for end in pair:
        end.close()


@pytest.fixture
def ends(sockets):
    return [channel.Channel(end.fileno()) for end in sockets]


def receive_soon(end):
    assert end.wait()
    return end.receive()


def test_kinds_arrive_in_order(ends):
    ends[0].send(channel.WAKE)
    ends[0].send(channel.CLOSE)
    assert [ends[1].receive(), ends[1].receive()] == [b'w', b'q']


def test_kinds_differ():
    kinds = [
        value
        for name, value in vars(channel).items()
        if name.isupper() and isinstance(value, bytes)
    ]
    assert len(set(kinds)) == len(kinds)
    assert all(len(kind) == 1 for kind in kinds)


@pytest.mark.parametrize('size', [0, 1, 5_000_000])
def test_payload_arrives_whole(ends, size):
    payload = (b'0123456789' * (size // 10 + 1))[:size]
    sender = threading.Thread(target=ends[0].send_payload, args=[channel.CALL, payload])
    sender.start()  # More than fits into the connection has to be received.
    assert ends[1].receive() == channel.CALL
    assert ends[1].receive_payload() == payload
    sender.join()


def test_payload_is_followed_by_the_next_message(ends):
    ends[0].send_payload(channel.RESULT, b'abc')
    ends[0].send(channel.DONE)
    assert ends[1].receive() == channel.RESULT
    assert ends[1].receive_payload() == b'abc'
    assert ends[1].receive() == channel.DONE


@pytest.mark.parametrize('awake', [0.0, 10.0])
def test_receive_soon_waits_for_the_message(ends, awake, monkeypatch):
    monkeypatch.setattr(channel, 'AWAKE_SECONDS', awake)
    timer = threading.Timer(0.05, ends[0].send, args=[channel.WAKE])
    timer.start()
    assert receive_soon(ends[1]) == channel.WAKE
    timer.join()


def test_other_end_is_gone(sockets, ends):
    sockets[0].close()
    assert ends[1].receive() == b''
    assert receive_soon(ends[1]) == b''


def test_other_end_is_gone_without_having_read(sockets, ends):
    ends[1].send(channel.WAKE)
    sockets[0].close()
    assert ends[1].receive() == b''


def test_other_end_is_gone_within_a_payload(sockets, ends):
    sockets[0].sendall(b'v' + (1000).to_bytes(8, 'big') + b'too little')
    sockets[0].close()
    assert ends[1].receive() == channel.RESULT
    with pytest.raises(EOFError, match='within a message'):
        ends[1].receive_payload()


def test_payload_that_is_not_received_in_time(ends):
    deadline = time.monotonic() + 0.1
    with pytest.raises(TimeoutError):
        ends[0].send_payload(channel.CALL, bytes(5_000_000), deadline)
    assert time.monotonic() >= deadline


@pytest.mark.parametrize('sent', [b'', b'12', bytes(8), bytes(7) + b'99'])
def test_payload_that_is_not_sent_in_time(sockets, ends, sent):
    sockets[0].sendall(sent)
    deadline = time.monotonic() + 0.1
    if sent == bytes(8):
        assert ends[1].receive_payload(deadline) == b''
        return
    with pytest.raises(TimeoutError):
        ends[1].receive_payload(deadline)
    assert time.monotonic() >= deadline


def test_readable_or_gone(sockets):
    descriptor = sockets[1].fileno()
    assert not channel.is_readable(descriptor)
    sockets[0].send(b'x')
    assert channel.is_readable(descriptor)
    os.read(descriptor, 1)
    sockets[0].close()
    assert channel.is_readable(descriptor)


def test_awake_where_nothing_yields(ends, monkeypatch):
    monkeypatch.delattr(os, 'sched_yield')
    timer = threading.Timer(0.05, ends[0].send, args=[channel.WAKE])
    timer.start()
    monkeypatch.setattr(channel, 'AWAKE_SECONDS', 10.0)
    assert receive_soon(ends[1]) == channel.WAKE
    timer.join()


class Yields:
    """Replaces giving way to others by what they do meanwhile.

    Time is what the yields have taken and what is added to it.
    """

    def __init__(self):
        self.count = 0
        self.seconds = 1e-5
        self.now = 100.0
        self.meanwhile = lambda: None

    def __call__(self):
        self.count += 1
        self.now += self.seconds
        self.meanwhile()


@pytest.fixture
def yields(monkeypatch):
    yields = Yields()
    clock = types.SimpleNamespace(perf_counter=lambda: yields.now)
    monkeypatch.setattr(channel, 'time', clock)
    monkeypatch.setattr(channel.os, 'sched_yield', yields)
    return yields


def late_message(yields, ends):
    """Another process keeps the core until there is a message."""
    yields.seconds = 2 * channel.LATE_SECONDS
    assert is_awake(yields, ends)
    yields.seconds = 1e-5


def is_awake(yields, ends):
    """Whether a process that waits for a message gives way, or else sleeps."""
    yields.count = 0
    yields.meanwhile = lambda: ends[0].send(channel.WAKE)
    timer = threading.Timer(0.1, yields.meanwhile)  # Wakes up who sleeps.
    timer.start()
    assert receive_soon(ends[1]) == channel.WAKE
    timer.cancel()
    timer.join()
    assert yields.count <= 1
    return yields.count == 1


def test_receiver_is_awake_for_a_while(ends, yields):
    for _ in range(3):
        assert is_awake(yields, ends)
    timer = threading.Timer(0.05, ends[0].send, args=[channel.WAKE])
    timer.start()
    yields.count, yields.meanwhile = 0, lambda: None
    assert receive_soon(ends[1]) == channel.WAKE
    assert yields.count == pytest.approx(channel.AWAKE_SECONDS / 1e-5, abs=2)
    timer.join()


def test_receiver_sleeps_where_others_need_the_core(ends, yields):
    late_message(yields, ends)
    assert not is_awake(yields, ends)
    yields.now += 0.9 * channel.ASLEEP_SECONDS[0]
    assert not is_awake(yields, ends)
    yields.now += 0.2 * channel.ASLEEP_SECONDS[0]
    assert is_awake(yields, ends)


def test_receiver_sleeps_longer_if_it_happens_again_soon(ends, yields):
    shortest, longest = channel.ASLEEP_SECONDS
    asleep = shortest
    for _ in range(10):
        late_message(yields, ends)
        yields.now += 0.99 * asleep
        assert not is_awake(yields, ends)
        yields.now += 0.02 * asleep
        asleep = min(2 * asleep, longest)
    assert asleep == longest
    yields.now += channel.SOON_SECONDS
    late_message(yields, ends)
    yields.now += 1.01 * shortest
    assert is_awake(yields, ends)


def test_others_may_have_the_core_while_there_is_no_message(ends, yields):
    yields.seconds = 2 * channel.LATE_SECONDS
    timer = threading.Timer(0.05, ends[0].send, args=[channel.WAKE])
    timer.start()
    assert receive_soon(ends[1]) == channel.WAKE
    timer.join()
    assert yields.count == 1  # Which took longer than it stays awake.
    assert is_awake(yields, ends)


def test_waiting_takes_no_longer_than_the_timeout(ends, yields):
    readable = channel.Readable([ends[0].descriptor])
    assert readable.wait(channel.AWAKE_SECONDS / 2) == []
    assert yields.count == pytest.approx(channel.AWAKE_SECONDS / 2e-5, abs=2)
    ends[1].send(channel.WAKE)
    assert readable.wait(0.0) == [ends[0].descriptor]
