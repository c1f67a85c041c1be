"""Messages over a real pair of sockets."""

import socket
import threading

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
