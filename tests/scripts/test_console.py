"""What a terminal shows, on a real one and elsewhere."""

import io
import os
import pty
import select
import subprocess
import sys
import threading
import time

import psutil
import pytest

from agents.scripts import console


@pytest.fixture
def terminal():
    """A terminal: a stream to it, and a function that tells what it shows."""
    reader, writer = pty.openpty()
    stream = os.fdopen(writer, 'w')

    def shown():
        text, patience = b'', 5.0
        while select.select([reader], [], [], patience)[0]:
            text, patience = text + os.read(reader, 10_000), 0.1
        return text.decode()

    yield stream, shown
    stream.close()
    os.close(reader)


def visible(text):
    """What is left on the screen after all returns of the carriage."""
    screen = []
    for line in text.replace('\r\n', '\n').split('\n'):
        cells = ''
        for part in line.split('\r'):
            cells = part + cells[len(part) :]
        screen.append(cells.rstrip())
    return screen


def test_lines_begin_with_their_topic():
    stream = io.StringIO()
    console.Console(stream).say('plan', 'so many steps')
    console.Console(stream).say('', 'and so on')
    assert stream.getvalue() == '{:<11}{}\n{:<11}{}\n'.format(
        'plan', 'so many steps', '', 'and so on'
    )


def test_width_is_that_of_a_terminal(terminal, monkeypatch):
    monkeypatch.setenv('COLUMNS', '97')
    stream, _ = terminal
    assert console.Console(stream).width == 97
    assert console.Console(io.StringIO()).width is None


def test_lines_are_printed_as_they_are(terminal):
    stream, shown = terminal
    out = console.Console(stream)
    out.live('train', 'step 5')
    out.print('  one\n\n  two')
    assert visible(shown()) == ['  one', '', '  two', '']


def test_live_line_is_only_for_terminals():
    stream = io.StringIO()
    console.Console(stream).live('train', 'step 5')
    assert stream.getvalue() == ''


def test_live_line_is_replaced(terminal):
    stream, shown = terminal
    output = console.Console(stream)
    output.live('train', 'a long line that is live')
    output.say('train', 'short')
    output.say('train', 'last')
    assert visible(shown()) == ['train      short', 'train      last', '']


def test_live_line_is_renewed_now_and_then(terminal, monkeypatch):
    stream, shown = terminal
    output = console.Console(stream)
    for step, moment in ((1000, 5.0), (2000, 5.1), (3, 5.3)):
        monkeypatch.setattr(console.time, 'monotonic', lambda at=moment: at)
        output.live('train', f'step {step}')
    monkeypatch.undo()
    text = shown()
    assert visible(text) == ['train      step 3']
    assert '2000' not in text


def test_what_takes_long_is_told_with_its_seconds(terminal, monkeypatch):
    monkeypatch.setattr(console, 'BUSY_SECONDS', 0.05)
    stream, shown = terminal
    threads = threading.active_count()
    with console.Console(stream) as output:
        with output.busy('train', 'evaluating'):
            time.sleep(0.3)
        output.say('train', 'done')
    text = shown()
    assert visible(text) == ['train      done', '']
    assert 'train      evaluating, 0 s' in text
    assert threading.active_count() == threads


def test_what_is_over_is_told_no_more(terminal, monkeypatch):
    monkeypatch.setattr(console, 'BUSY_SECONDS', 0.05)
    stream, shown = terminal
    with console.Console(stream) as output:
        with output.busy('train', 'evaluating'):
            pass
        time.sleep(0.2)
        output.say('train', 'done')
    assert visible(shown()) == ['train      done', '']


def test_only_terminals_are_told_what_takes_long(monkeypatch):
    monkeypatch.setattr(console, 'BUSY_SECONDS', 0.01)
    stream = io.StringIO()
    with console.Console(stream) as output, output.busy('train', 'evaluating'):
        time.sleep(0.1)
    assert stream.getvalue() == ''


def test_terminal_that_is_closed_is_no_error():
    reader, writer = pty.openpty()
    code = (
        'import sys\n'
        'from agents.scripts import console\n'
        'terminal = console.on_terminal()\n'
        'terminal.say("plan", "first")\n'
        'sys.stdin.read()\n'
        'terminal.say("plan", "second")\n'
        'console.complain("third")\n'
    )
    with run(
        f'import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n{code}',
        stdin=subprocess.PIPE,
        own_terminal=writer,
    ) as process:
        os.close(writer)
        assert b'first' in os.read(reader, 1000)
        os.close(reader)
        process.stdin.close()
        assert process.wait(10) == 0


def test_silent_console_prints_nothing(capfd):
    console.silent().say('plan', 'so many steps')
    console.silent().live('plan', 'so many steps')
    assert capfd.readouterr() == ('', '')


@pytest.mark.parametrize(
    'seconds, text',
    [
        (0, '0:00'),
        (59.4, '0:59'),
        (59.6, '1:00'),
        (61, '1:01'),
        (3599, '59:59'),
        (3600, '1:00:00'),
        (3723, '1:02:03'),
        (100 * 3600, '100:00:00'),
    ],
)
def test_duration(seconds, text):
    assert console.duration(seconds) == text


def test_process_start_is_when_the_process_started():
    age = time.perf_counter() - console.process_start()
    assert age == pytest.approx(
        time.time() - psutil.Process().create_time(), abs=1.0
    )


def run(code, own_terminal=subprocess.PIPE, **settings):
    return subprocess.Popen(
        [sys.executable, '-c', code],
        stdout=own_terminal,
        stderr=own_terminal,
        **settings,
    )


def test_output_whose_reader_is_gone_is_no_error():
    code = (
        'import sys\n'
        'from agents.scripts import console\n'
        'terminal = console.on_terminal()\n'
        'terminal.say("plan", "first")\n'
        'sys.stdin.read()\n'
        'for _ in range(3): terminal.say("plan", "second")\n'
    )
    process = run(code, stdin=subprocess.PIPE)
    assert process.stdout.readline() == b'plan       first\n'
    process.stdout.close()
    process.stdin.close()
    assert process.stderr.read() == b''
    assert process.wait() == 0


def test_terminal_without_our_signs_shows_others():
    code = (
        'from agents.scripts import console\n'
        'console.on_terminal().say("plan", "4 × 50 → 200")\n'
    )
    environ = {**os.environ, 'PYTHONIOENCODING': 'ascii'}
    output, problems = run(code, env=environ).communicate()
    assert (output, problems) == (b'plan       4 ? 50 ? 200\n', b'')
