"""Messages over a real pair of sockets."""

import socket
import threading
import time

import pytest

from agents.tools import channel


@pytest.fixture
def sockets():
    pair = socket.socketpair()
    yield pair
    for end in pair:
        end.close()


@pytest.fixture
def ends(sockets):
    return [channel.Channel(end.fileno()) for end in sockets]


def test_kinds_arrive_in_order(ends):
    ends[0].send(channel.STEP)
    ends[0].send(channel.RESET)
    assert [ends[1].receive(), ends[1].receive()] == [b's', b'r']


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
    sender = threading.Thread(
        target=ends[0].send_payload, args=[channel.CALL, payload]
    )
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
    timer = threading.Timer(0.05, ends[0].send, args=[channel.STEP])
    timer.start()
    assert ends[1].receive_soon() == channel.STEP
    timer.join()


def test_other_end_is_gone(sockets, ends):
    sockets[0].close()
    assert ends[1].receive() == b''
    assert ends[1].receive_soon() == b''


def test_other_end_is_gone_without_having_read(sockets, ends):
    ends[1].send(channel.STEP)
    sockets[0].close()
    assert ends[1].receive() == b''


def test_other_end_is_gone_within_a_payload(sockets, ends):
    sockets[0].sendall(b'v' + (1000).to_bytes(8, 'big') + b'too little')
    sockets[0].close()
    assert ends[1].receive() == channel.RESULT
    with pytest.raises(EOFError, match='within a message'):
        ends[1].receive_payload()


class Yields:
    """Replaces `os.sched_yield` by what another process does meanwhile."""

    def __init__(self, monkeypatch):
        self.count = 0
        self.seconds = 0.0
        self.meanwhile = lambda: None
        monkeypatch.setattr(channel.os, 'sched_yield', self)

    def __call__(self):
        self.count += 1
        time.sleep(self.seconds)
        self.meanwhile()


@pytest.fixture
def yields(monkeypatch):
    monkeypatch.setattr(channel, 'ASLEEP_SECONDS', (0.2, 1.0))
    return Yields(monkeypatch)


def await_message(ends):
    """Wait for a message that is sent soon."""
    timer = threading.Timer(0.002, ends[0].send, args=[channel.STEP])
    timer.start()
    assert ends[1].receive_soon() == channel.STEP
    timer.join()


def late_message(yields, ends):
    """Another process keeps the core until there is a message."""
    yields.seconds = 2 * channel.LATE_SECONDS
    yields.meanwhile = lambda: ends[0].send(channel.STEP)
    assert ends[1].receive_soon() == channel.STEP
    yields.count, yields.seconds = 0, 0.0
    yields.meanwhile = lambda: None


def test_receiver_stays_awake_for_a_while(ends, yields, monkeypatch):
    monkeypatch.setattr(channel, 'AWAKE_SECONDS', 10.0)
    timer = threading.Timer(0.05, ends[0].send, args=[channel.STEP])
    timer.start()
    assert ends[1].receive_soon() == channel.STEP
    assert yields.count > 10
    timer.join()


def test_receiver_sleeps_where_others_need_the_core(ends, yields):
    late_message(yields, ends)
    for _ in range(3):
        await_message(ends)
    assert yields.count == 0


def test_receiver_is_awake_again_later(ends, yields):
    late_message(yields, ends)
    time.sleep(0.21)
    await_message(ends)
    assert yields.count > 0


def test_receiver_sleeps_longer_if_it_happens_again(ends, yields):
    late_message(yields, ends)
    time.sleep(0.21)
    late_message(yields, ends)
    time.sleep(0.3)
    await_message(ends)
    assert yields.count == 0
    time.sleep(0.11)
    await_message(ends)
    assert yields.count > 0


def test_others_may_have_the_core_while_there_is_no_message(
    ends, yields, monkeypatch
):
    monkeypatch.setattr(channel, 'AWAKE_SECONDS', 10.0)
    yields.seconds = 2 * channel.LATE_SECONDS
    timer = threading.Timer(0.1, ends[0].send, args=[channel.STEP])
    timer.start()
    assert ends[1].receive_soon() == channel.STEP
    timer.join()
    assert yields.count > 5
