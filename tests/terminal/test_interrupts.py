"""Signals to real processes, whose main thread is busy."""

import gc
import os
import pathlib
import signal
import threading
import time

import psutil
import pytest

from agents.terminal import interrupts
from agents.tools.world import World

# Waits for a lock that only the callback opens. The wait is in C and signals do
# not end it, so that, as in the graph, the main thread cannot run a handler.
PROGRAM = """
import contextlib, ctypes, sys
from agents.terminal import interrupts

library = ctypes.CDLL(None)
lock = ctypes.create_string_buffer(64)
library.pthread_mutex_lock(lock)
with interrupts.Interrupts('saving') as signals:
    if sys.argv[1:] != ['deaf']:
        signals.call(lambda: library.pthread_mutex_unlock(lock))
    try:
        with signals.during('finishing the update'):
            print('ready', flush=True)
            library.pthread_mutex_lock(lock)
    except KeyboardInterrupt:
        with contextlib.suppress(BrokenPipeError):
            print('heard', flush=True)
    sys.stdin.read()
sys.exit(signals.signal)
"""


@pytest.fixture
def start(start_python):
    """A function that starts the program, which is ready then."""

    def run(*arguments, code=PROGRAM, before=()):
        program = start_python('-c', code, *arguments, before=before)
        program.read_until('ready')
        # Until it is where it stays.
        process = psutil.Process(program.pid)
        while process.status() != psutil.STATUS_SLEEPING:
            time.sleep(0.01)
        time.sleep(0.1)
        return program

    return run


class Heard(World):
    """One of two ranks, which learns what the first has heard."""

    def __init__(self, rank, said=None):
        self.rank, self.size, self.said = rank, 2, said

    def share(self, value):
        return value if self.is_first else self.said


def test_all_ranks_stop_where_they_agree():
    with interrupts.Interrupts(ranks=Heard(0)) as signals:
        signals.stop_together()
        signals.agree()
        os.kill(os.getpid(), signal.SIGTERM)
        with signals.during('finishing the update'):
            time.sleep(0.1)  # Nothing is raised in here, nor after it.
        assert not signals.agreed
        with pytest.raises(KeyboardInterrupt):
            signals.agree()
        assert (signals.agreed, signals.signal) == (True, signal.SIGTERM)


def test_other_ranks_hear_nothing_but_from_the_first():
    ranks = Heard(1)
    with interrupts.Interrupts(ranks=ranks) as signals:
        for _ in range(3):  # Of which a second one would end the process.
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)
        signals.stop_together()
        signals.agree()
        ranks.said = int(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signals.agree()
        assert signals.signal == signal.SIGTERM


@pytest.mark.parametrize('quiet', [False, True])
def test_signal_is_told_unless_that_is_not_wanted(capfd, monkeypatch, quiet):
    monkeypatch.setattr(interrupts, 'PATIENCE', 0.05)
    with (
        interrupts.Interrupts('saving', quiet=quiet) as signals,
        pytest.raises(KeyboardInterrupt),
        signals.during('finishing the update', hold=True),
    ):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.3)
    told = '\nSIGINT: saving; once more to exit at once.\n'
    told += f'{"":<11}finishing the update first\n'
    assert capfd.readouterr().out == ('' if quiet else told)


@pytest.mark.parametrize('number', interrupts.SIGNALS)
def test_first_signal_calls_and_goes_on(start, number):
    process = start()
    process.send_signal(number)
    process.read_until('heard')
    assert process.finish() == (number, '', '')


def test_what_is_going_to_be_done_is_said(start):
    process = start()
    process.send_signal(signal.SIGTERM)
    lines = [process.stdout.readline() for _ in range(3)]
    said = 'SIGTERM: saving; once more to exit at once.\n'
    assert sorted(lines) == ['\n', said, 'heard\n']


@pytest.mark.parametrize('number', interrupts.SIGNALS)
def test_second_signal_exits_at_once(start, number):
    process = start('deaf')
    process.send_signal(signal.SIGINT)
    process.read_until('SIGINT: saving')
    process.send_signal(number)
    assert process.wait(10) == 128 + number
    assert process.stderr.read() == ' Ended at once.\n'


STOPPED = (
    """
import os, signal, subprocess
process = subprocess.Popen(['sleep', '60'])
os.kill(process.pid, signal.SIGSTOP)
"""
    + PROGRAM
)


def test_second_signal_leaves_no_process_that_is_stopped(start):
    # As a worker is while it is ended. It holds the ends of the pipes, too.
    process = start('deaf', code=STOPPED)
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    code, _, problems = process.finish(timeout=20)
    assert (code, problems) == (143, ' Ended at once.\n')


def test_what_cannot_be_interrupted_is_said(start):
    process = start('deaf')
    process.send_signal(signal.SIGINT)
    process.read_until('SIGINT: saving')
    line = process.stdout.readline()  # After a second of patience.
    assert line == '           finishing the update first\n'


def test_signal_is_heard_although_nobody_reads(start):
    process = start()
    process.stdout.close()  # As `| tee` does on the same Ctrl-C.
    process.send_signal(signal.SIGINT)
    process.stdin.close()
    assert process.stderr.read() == ''
    assert process.wait(30) == signal.SIGINT


# Fills the pipe that nobody reads from.
STUCK = """
import os, sys
from agents.terminal import interrupts
with interrupts.Interrupts():
    print('ready', flush=True)
    while True:
        try:
            os.write(1, b'x' * 4096)
        except KeyboardInterrupt:
            pass
"""


def test_second_signal_exits_although_the_output_is_stuck(start):
    process = start(code=STUCK)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 130


@pytest.mark.skipif(not hasattr(signal, 'SIGHUP'), reason='There is none.')
def test_signal_that_nohup_ignores_stays_ignored(start):
    process = start(before=['env', '--ignore-signal=HUP'])
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGINT)
    assert process.read_until('SIG').startswith('SIGINT: saving')


# As a command does while it imports.
IMPORTING = """
import sys, time
from agents import systems
systems.end_silently()
assert 'subprocess' not in sys.modules  # Nor other modules that take long.
print('ready', flush=True)
time.sleep(60)
"""


def test_ctrl_c_before_all_is_imported_leaves_no_traceback(start):
    # A shell has jobs in the background ignore Ctrl-C.
    before = ['env', '--default-signal=INT']
    process = start(code=IMPORTING, before=before)
    process.send_signal(signal.SIGINT)
    # Of which shells make 130.
    assert process.finish(timeout=10) == (-signal.SIGINT, '', '')


def interrupt():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)  # Until the handler runs.


def test_first_signal_is_raised_once_where_python_runs():
    with interrupts.Interrupts() as signals:
        with pytest.raises(KeyboardInterrupt):
            interrupt()
        assert signals.signal == signal.SIGTERM
        with signals.during('saving', hold=True):
            pass
        with signals.during('saving'):
            pass


def test_what_must_not_be_left_half_done_is_finished_first():
    done = []
    with interrupts.Interrupts() as signals, pytest.raises(KeyboardInterrupt):
        with signals.during('finishing', hold=True):
            os.kill(os.getpid(), signal.SIGTERM)
            done.append(True)
        done.append(False)
    assert done == [True]


def test_error_of_what_is_held_is_not_hidden():
    with (
        interrupts.Interrupts() as signals,
        pytest.raises(ArithmeticError),
        signals.during('finishing', hold=True),
    ):
        os.kill(os.getpid(), signal.SIGTERM)
        raise ArithmeticError


def test_nothing_is_raised_once_the_end_has_begun():
    with interrupts.Interrupts() as signals:
        signals.disarm()
        os.kill(os.getpid(), signal.SIGTERM)
        with signals.during('saving'):
            pass
    assert signals.signal == signal.SIGTERM


def test_outside_of_its_context_nothing_is_heard():
    before = [signal.getsignal(number) for number in interrupts.SIGNALS]
    signals, called = interrupts.Interrupts(), []
    signals.call(lambda: called.append(True))
    with signals.during('finishing', hold=True):
        pass
    assert [signal.getsignal(n) for n in interrupts.SIGNALS] == before
    assert not called
    signals.cancel()
    assert called


def test_call_after_the_signal_is_at_once():
    heard = threading.Event()
    with interrupts.Interrupts() as signals:
        with pytest.raises(KeyboardInterrupt):
            interrupt()
        signals.call(heard.set)
        assert heard.is_set()
        assert signals.signal == signal.SIGTERM


def test_forked_process_is_neither_waited_for_nor_heard():
    with interrupts.Interrupts(quiet=True) as signals:
        number = os.fork()
        if not number:
            time.sleep(60)
            os._exit(0)
        listener = signals._listener
        time.sleep(0.1)
        os.kill(number, signal.SIGTERM)
        _, status = os.waitpid(number, 0)
        assert os.waitstatus_to_exitcode(status) == -signal.SIGTERM
        other = os.fork()
        if not other:
            time.sleep(60)
            os._exit(0)
    try:
        assert signals.signal is None
        assert not listener.is_alive()
    finally:
        os.kill(other, signal.SIGKILL)
        os.waitpid(other, 0)


def test_handler_that_an_environment_has_removed_is_set_again():
    with pytest.raises(KeyboardInterrupt), interrupts.Interrupts(quiet=True) as signals:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with signals.during('training'):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)


def test_process_that_something_keeps_is_ended(start):
    process = start(
        code="""
            import threading, time
            from agents.terminal import interrupts
            interrupts.SAID_SECONDS, interrupts.ENDED_SECONDS = 0.2, 0.4
            threading.Thread(target=time.sleep, args=[60]).start()
            print('ready', flush=True)
            raise SystemExit(interrupts.limit_exit(3))
        """.replace('\n            ', '\n')
    )
    code, _, problems = process.finish(timeout=30)
    assert code == 3
    assert problems.startswith('All is done, but threads, processes or')


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
                thread for thread in threading.enumerate() if thread.name.endswith('(_listen)')
            ]
        listener.join(30)
        assert not listener.is_alive()
    assert state() == before
    assert descriptors() <= number
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(30)
