"""What is printed of what ranks and their launcher print."""

import functools
import io
import os
import signal
import sys
import threading
import time

import gymnasium as gym
import pytest

from agents.terminal import launcher
from agents.tools import errors
from agents.tools.workers.external_process import ExternalProcess


class Target:
    """A stream that remembers what came when."""

    def __init__(self):
        self.buffer = io.BytesIO()


@pytest.fixture
def relay():
    """A function that relays parts, each once the one before is printed."""
    reader, writer = os.pipe()
    target, heard = Target(), launcher._Heard()

    def run(*parts):
        with os.fdopen(reader, 'rb') as source:
            thread = threading.Thread(target=launcher._relay, args=[source, target, heard])
            thread.start()
            for part in parts:
                os.write(writer, part)
            os.close(writer)
            thread.join()
        return target.buffer.getvalue(), heard

    return run


def test_what_ranks_print_passes_through(relay):
    text = 'plan  ä\n\ntrain  step 5 (1%)'.encode()
    shown, heard = relay(text)
    assert shown == text
    assert heard.something and not heard.explained


def test_lines_of_the_launcher_do_not(relay):
    shown, heard = relay(
        b'one\n[mpiexec@host] Sending Ctrl-C to processes as requested\n'
        + b'=' * 83
        + b'\n=   BAD TERMINATION OF ONE\n=   EXIT CODE: 9\n'
        b'YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)\n'
        b'Abort(1) on node 0 (rank 0 in comm 0): application called MPI_Abort\n'
        b'==== mine\ntwo\n'
    )
    assert shown == b'one\n==== mine\ntwo\n'
    assert heard.killed == 'Killed (signal 9)'


def test_line_of_the_launcher_that_comes_in_pieces_is_not_shown(relay, monkeypatch):
    parts = iter([b'one\n====', b'=' * 79 + b'\ntw', b'o\n===', b''])
    monkeypatch.setattr(launcher.os, 'read', lambda *_: next(parts))
    shown, _ = relay()
    assert shown == b'one\ntwo\n==='  # The last is no line of its own.


@pytest.mark.parametrize('line', [b'error: x\n', b'Traceback (most\n'])
def test_what_a_rank_explains_needs_no_other_explanation(relay, capsys, line):
    _, heard = relay(b'[proxy:0] unable to connect\n' + line)
    launcher._explain(1, heard)
    assert capsys.readouterr().err == ''


def test_what_the_launcher_says_is_told_if_nobody_else_does(relay, capsys):
    shown, heard = relay(b'[proxy:0] unable to connect\nWarning: x\n')
    assert shown == b'Warning: x\n'
    launcher._explain(255, heard)
    told = capsys.readouterr().err
    assert 'unable to connect' in told
    assert 'the exit code is 255' in told


# Ranks that tell that they are there and what they hear, in one piece each.
MODULE = """
import os, signal, time
ended = []
signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
os.write(1, b'here\\n')
for _ in range(20):
    time.sleep(0.05)
    if ended:
        break
os.write(1, b'told\\n' if ended else b'left alone\\n')
"""


@pytest.mark.parametrize(
    'before, expected', [([], 'told'), (['env', '--ignore-signal=HUP'], 'left alone')]
)
def test_terminal_that_is_closed_is_told_unless_ignored(tmp_path, before, expected, start_python):
    (tmp_path / 'waits.py').write_text(MODULE)
    code = "from agents.terminal import launcher; launcher.run(2, 'waits', [])"
    program = start_python('-c', code, before=before, cwd=tmp_path)
    for _ in range(2):
        program.read_until('here')
    program.send_signal(signal.SIGHUP)
    assert program.finish().output.splitlines() == [expected] * 2


# A launcher that loses the first signal, and whose rank is killed then.
DEAF = """#!/bin/sh
trap 'trap "echo YOUR APPLICATION TERMINATED WITH THE EXIT STRING: x; exit 9" \\
    TERM' TERM
while :; do sleep 0.02; done
"""


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_signal_at_the_start_is_repeated_and_is_the_status(tmp_path, monkeypatch, capfd, number):
    mpiexec = tmp_path / 'mpiexec'
    mpiexec.write_text(DEAF)
    mpiexec.chmod(0o700)
    monkeypatch.setattr(launcher, 'find_mpiexec', lambda: mpiexec)
    monkeypatch.setattr(launcher, 'RETRY_SECONDS', 0.3)
    before = signal.getsignal(number)

    def send():
        while signal.getsignal(number) == before:
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=send)
    thread.start()
    assert launcher.run(2, 'nothing', []) == 128 + number
    thread.join()
    name = signal.Signals(number).name
    assert capfd.readouterr() == ('', f'\n{name}: Ended at the start.\n')


def test_missing_launcher_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, 'executable', str(tmp_path / 'python'))
    monkeypatch.setenv('PATH', str(tmp_path))
    with pytest.raises(errors.ConfigError, match=r'agents\[mpi\]'):
        launcher.find_mpiexec()
    (tmp_path / 'mpiexec').touch(mode=0o755)
    assert launcher.find_mpiexec() == tmp_path / 'mpiexec'


def test_ranks_are_told_how_wide_the_terminal_is(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    assert launcher._describe_terminal() == ''
    monkeypatch.setenv('COLUMNS', '123')
    monkeypatch.setattr(sys, 'stdout', Terminal())
    assert launcher._describe_terminal() == '123'


def test_modules_of_the_working_directory_are_not_imported(tmp_path, run_python):
    """As where the command is not started by -m."""
    (tmp_path / 'numpy.py').write_text('raise SystemExit("not this one")')
    _, *words = launcher.command_of('agents.scripts.train')
    words += ['--config=debug', '--settings']
    code, output, problems = run_python(*words, cwd=tmp_path)
    assert (code, problems) == (0, '')
    assert 'CartPole-v1' in output


@pytest.mark.parametrize('contents', [None, 'raise SystemExit("another")'])
def test_something_else_on_the_path_is_not_this_package(
    tmp_path, monkeypatch, contents, run_python
):
    """As a directory that it was cloned to, beside the user's own files."""
    (tmp_path / 'agents').mkdir()
    if contents:
        (tmp_path / 'agents' / '__init__.py').write_text(contents)
    monkeypatch.syspath_prepend(str(tmp_path))
    _, *words = launcher.command_of('agents.scripts.config_list')
    assert 'CartPole-v1' in run_python(*words, 'debug').output
    env = ExternalProcess([functools.partial(gym.make, 'CartPole-v1')])
    env.close()


def test_command_is_called_by_the_name_of_its_module(tmp_path, monkeypatch, run_python):
    monkeypatch.setattr(sys, 'path', [str(tmp_path), *sys.path])
    code = 'import sys; print(__name__, *sys.argv)'
    (tmp_path / 'said.py').write_text(code)
    _, *words = launcher.command_of('said')
    output = run_python(*words, 'a', '--b').output
    assert output == f'__main__ {tmp_path / "said.py"} a --b\n'
