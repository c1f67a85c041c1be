"""What a terminal shows, on a real one and elsewhere."""

import contextlib
import io
import math
import os
import pty
import re
import select
import sys
import threading
import time

import psutil
import pytest

from agents.terminal import console


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


def screen(text):
    """What is left on the screen after all moves of the cursor."""
    rows, row, column = [''], 0, 0
    for part in re.findall(r'\x1b\[[?\d;]*[A-Za-z]|[\r\n]|[^\x1b\r\n]+', text):
        if part == '\n':
            row += 1
            rows += [''] * (row + 1 - len(rows))
        elif part == '\r':
            column = 0
        elif part.startswith('\x1b'):
            number, move = part[2:-1], part[-1]
            if move == 'A':
                row -= int(number)
            elif move == 'K':
                rows[row] = ''
            else:
                assert move == 'm'  # A color.
        else:
            before = rows[row].ljust(column)[:column]
            rows[row] = before + part + rows[row][column + len(part) :]
            column += len(part)
    return '\n'.join(row.rstrip() for row in rows).rstrip().split('\n')


def test_lines_begin_with_their_topic():
    stream = io.StringIO()
    console.Console(stream).say('plan', 'so many steps')
    console.Console(stream).say('', 'and so on')
    assert stream.getvalue() == '{:<11}{}\n{:<11}{}\n'.format(
        'plan', 'so many steps', '', 'and so on'
    )


def test_lines_break_between_words_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setenv(console.TERMINAL, '40')
    console.on_terminal().say('plan', 'of 2,048 rows; evaluation every 102,400')
    out = capsys.readouterr().out
    assert out == ('plan       of 2,048 rows; evaluation\n           every 102,400\n')
    # So that it can be copied.
    command = 'agents train --name=robots/ant-with-long-legs'
    console.on_terminal().say('stopped', command, wrap=False)
    assert capsys.readouterr().out == f'stopped    {command}\n'


def test_text_of_a_file_moves_no_cursor(terminal, quickly):
    stream = io.StringIO()
    console.Console(stream).say('policy', 'of \x1b[2JCart\u202ePole\nnext')
    assert stream.getvalue() == ('policy     of \\x1b[2JCart\\u202ePole\nnext\n')
    stream, shown = terminal
    with console.Console(stream) as output:
        output.show(view(text='\x1b[31m', facts=('\x1b]0;title\x07',)))
        assert screen(shown())[0] == r'learning   \x1b[31m'


def test_width_is_that_of_a_terminal(terminal, monkeypatch):
    monkeypatch.setenv('COLUMNS', '97')
    stream, _ = terminal
    assert console.Console(stream).width == 97
    assert console.Console(io.StringIO()).width is None


def view(topic='learning', **parts):
    return lambda: console.View(topic, **parts)


@pytest.fixture
def quickly(monkeypatch):
    """Renews often; on a terminal of a kind that can be gone back on."""
    monkeypatch.setattr(console, 'RENEW_SECONDS', 0.01)
    monkeypatch.setenv('TERM', 'xterm')
    monkeypatch.setenv('COLUMNS', '60')


def test_lines_go_on_above_what_is_shown(terminal, quickly):
    stream, shown = terminal
    with console.Console(stream) as output:
        output.say('plan', 'first')
        output.show(view(text='5 s', facts=('step 5', 'best 7.0')))
        before = shown()
        output.print('  [red]one[/red]\n\n  two :smile: ' + 60 * 'x')
        after = screen(before + shown())
    assert screen(before) == ['plan       first', 'learning   5 s', '           step 5   best 7.0']
    assert after == [
        'plan       first',
        '  [red]one[/red]',
        '',
        '  two :smile: ' + 60 * 'x',
        'learning   5 s',
        '           step 5   best 7.0',
    ]


def test_nothing_is_left_of_what_was_shown(terminal, quickly):
    stream, shown = terminal
    threads = threading.active_count()
    with console.Console(stream) as output:
        output.show(view(done=0.5, facts=('step 5',)))
        text = shown()
        output.say('done', 'at last')
    text += shown()
    assert '━' in text and 'step 5' in text
    assert screen(text) == ['done       at last']
    assert threading.active_count() == threads
    assert '?25' not in text  # The cursor stays, also if we are killed.


def test_nothing_is_left_after_an_error(terminal, quickly):
    stream, shown = terminal
    before = sys.stdout
    with contextlib.suppress(ArithmeticError), console.Console(stream) as output:
        output.show(view(text='so far'))
        text = shown()
        assert 'learning   so far' in screen(text)
        raise ArithmeticError
    assert screen(text + shown()) == ['']
    assert sys.stdout is before


def test_what_others_print_goes_above(terminal, quickly, monkeypatch):
    stream, shown = terminal
    monkeypatch.setattr(sys, 'stdout', stream)
    with console.Console(stream) as output:
        output.show(view(text='so far'))
        text = shown()
        print('hello')
        text += shown()
        assert screen(text) == ['hello', 'learning   so far']


@pytest.mark.parametrize('columns', [12, 30, 45, 200])
def test_what_is_shown_fits_the_terminal(terminal, quickly, monkeypatch, columns):
    monkeypatch.setenv('COLUMNS', str(columns))
    stream, shown = terminal
    facts = 'step 1,000,000 of 2,000,000', 'train 5.0', 'best 123,456.0'
    with console.Console(stream) as output:
        output.show(view(text='50%  1:00 left', done=0.5, facts=facts))
        rows = screen(shown())
    assert rows[0].startswith('learning')
    assert max(map(len, rows)) < columns
    if columns == 200:
        assert rows[0].endswith('   50%  1:00 left') and '━━━' in rows[0]
        assert re.split(' {3,}', rows[1]) == ['', *facts]


@pytest.mark.parametrize('kind', ['dumb', 'unknown', ''])
def test_plain_terminals_show_lines_only(terminal, quickly, monkeypatch, kind):
    monkeypatch.setenv('TERM', kind)
    stream, shown = terminal
    with console.Console(stream) as output:
        output.show(view())
        time.sleep(0.1)
        output.say('train', 'done')
    assert shown() == 'train      done\r\n'
    assert not output.is_live


def test_terminal_without_colors_is_shown_none(terminal, quickly, monkeypatch):
    monkeypatch.setenv('NO_COLOR', '1')
    stream, shown = terminal
    with console.Console(stream) as output:
        output.show(view(done=0.5, text='50%'))
        text = shown()
    assert '━' in text
    assert not re.search(r'\x1b\[[\d;]*3\d', text)


def test_ranks_show_it_on_the_terminal_of_their_launcher(quickly, monkeypatch):
    monkeypatch.setenv(console.TERMINAL, '50')
    stream = io.StringIO()
    with console.Console(stream) as output:
        assert output.width == 50 and output.is_live
        output.show(view(text='50%', done=0.5))
        time.sleep(0.3)
        (row,) = screen(stream.getvalue())
        assert row.startswith('learning   ━') and len(row) == 49
        output.say('train', 'done')
    assert screen(stream.getvalue()) == ['train      done']


def test_only_terminals_are_shown_what_goes_on(quickly):
    stream = io.StringIO()
    threads = threading.active_count()
    with console.Console(stream) as output:
        output.show(view())
        assert threading.active_count() == threads
        time.sleep(0.05)
    assert stream.getvalue() == ''


def test_what_is_shown_needs_a_library_that_lines_do_not(run_python):
    code = (
        'import sys\n'
        'from agents.scripts import train\n'
        'from agents.terminal import console\n'
        'with console.on_terminal() as terminal:\n'
        '    terminal.say("plan", "first")\n'
        'print("rich" in sys.modules)\n'
    )
    assert run_python('-c', code) == (0, 'plan       first\nFalse\n', '')


def test_terminal_that_is_closed_is_no_error(start_python):
    reader, writer = pty.openpty()
    code = (
        'import sys\n'
        'from agents.terminal import console\n'
        'terminal = console.on_terminal()\n'
        'terminal.say("plan", "first")\n'
        'sys.stdin.read()\n'
        'terminal.say("plan", "second")\n'
        'console.complain("third")\n'
    )
    ignore = 'import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n'
    process = start_python('-c', ignore + code, stdout=writer, stderr=writer)
    os.close(writer)
    assert b'first' in os.read(reader, 1000)
    os.close(reader)
    process.stdin.close()
    assert process.wait(10) == 0


def test_silent_console_prints_nothing(capfd):
    console.silent().say('plan', 'so many steps')
    with console.silent() as output:
        output.show(console.View('plan').__class__)
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
    assert age == pytest.approx(time.time() - psutil.Process().create_time(), abs=1.0)


def test_output_whose_reader_is_gone_is_no_error(start_python):
    code = (
        'import sys\n'
        'from agents.terminal import console\n'
        'terminal = console.on_terminal()\n'
        'terminal.say("plan", "first")\n'
        'sys.stdin.read()\n'
        'for _ in range(3): terminal.say("plan", "second")\n'
    )
    process = start_python('-c', code)
    assert process.stdout.readline() == 'plan       first\n'
    process.stdout.close()
    process.stdin.close()
    assert process.stderr.read() == ''
    assert process.wait() == 0


def test_terminal_without_our_signs_shows_others(run_python):
    code = (
        'from agents.terminal import console\nconsole.on_terminal().say("plan", "4 × 50 → 200")\n'
    )
    environ = {**os.environ, 'PYTHONIOENCODING': 'ascii'}
    said = run_python('-c', code, env=environ)
    assert said == (0, 'plan       4 ? 50 ? 200\n', '')


@pytest.mark.parametrize(
    ('value', 'text'),
    [
        (-0.0371, '-0.037'),
        (0.714, '0.714'),
        (-9.876, '-9.88'),
        (21.43, '21.4'),
        (-1004.46, '-1,004.5'),
        (12_345_678, '1.235e+07'),
        (math.nan, 'nan'),
    ],
)
def test_scores_below_one_are_told_apart(value, text):
    assert console.score(value) == text


def test_deviation_has_as_many_decimals_as_its_score():
    assert console.score(0.0371, 500) == '0.0'
    assert console.score(0.0371, 0.5) == '0.037'
