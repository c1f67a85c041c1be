"""Signals to real processes, whose main thread is busy."""

import gc
import os
import pathlib
import signal
import subprocess
import sys
import threading

import pytest

from agents.scripts import interrupts

# Waits for a lock that only the callback opens. The wait is in C and signals do
# not end it, so that, as in the graph, the main thread cannot run a handler.
PROGRAM = """
import contextlib, ctypes, sys
from agents.scripts import interrupts

library = ctypes.CDLL(None)
lock = ctypes.create_string_buffer(64)
library.pthread_mutex_lock(lock)
with interrupts.Interrupts() as signals:
    signals.call(lambda: library.pthread_mutex_unlock(lock))
    print('ready', flush=True)
    library.pthread_mutex_lock(lock)
    with contextlib.suppress(BrokenPipeError):
        print('heard', flush=True)
    sys.stdin.read()
sys.exit(signals.signal)
"""


@pytest.fixture
def process():
    """The program, which is ready."""
    with subprocess.Popen(
        [sys.executable, '-c', PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == 'ready\n'
        yield process
        process.kill()


@pytest.mark.parametrize('number', interrupts.SIGNALS)
def test_first_signal_calls_and_goes_on(process, number):
    process.send_signal(number)
    output, problems = process.communicate('', timeout=30)
    assert output == (
        f'\n{number.name}: saving; once more to exit at once.\nheard\n'
    )
    assert (process.returncode, problems) == (number, '')


@pytest.mark.parametrize('number', interrupts.SIGNALS)
def test_second_signal_exits_at_once(process, number):
    process.send_signal(signal.SIGINT)
    while process.stdout.readline() != 'heard\n':
        assert process.poll() is None
    process.send_signal(number)
    assert process.wait(30) == 128 + number
    assert process.stderr.read() == ' Not saved.\n'


def test_signal_is_heard_although_nobody_reads(process):
    process.stdout.close()  # As `| tee` does on the same Ctrl-C.
    process.send_signal(signal.SIGINT)
    process.stdin.close()
    assert process.stderr.read() == ''
    assert process.wait(30) == signal.SIGINT


def test_call_after_the_signal_is_at_once():
    heard = threading.Event()
    with interrupts.Interrupts() as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        while signals.signal is None:
            pass
        signals.call(heard.set)
        assert heard.is_set()
        assert signals.signal == signal.SIGTERM


def test_afterwards_all_is_as_before(request):
    def state():
        handlers = [signal.getsignal(n) for n in interrupts.SIGNALS]
        signal.set_wakeup_fd(wakeup := signal.set_wakeup_fd(-1))
        return handlers, wakeup

    def descriptors():
        return len(list(pathlib.Path('/proc/self/fd').iterdir()))

    # Which a shell has a job in the background ignore.
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, inherited))
    gc.collect()  # What other tests have left closes its descriptors.
    before, number = state(), descriptors()
    for _ in range(3):
        with interrupts.Interrupts():
            (listener,) = [
                thread
                for thread in threading.enumerate()
                if thread.name.endswith('(_listen)')
            ]
        listener.join(30)
        assert not listener.is_alive()
    assert state() == before
    assert descriptors() <= number
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(30)
