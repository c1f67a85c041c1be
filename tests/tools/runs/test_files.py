"""What is written is complete and goes nowhere else; what is read is a file."""

import os
import resource
import socket
import time

import pytest

from agents.tools import errors
from agents.tools.runs import files


@pytest.fixture
def victim(tmp_path):
    """A file of the user's, and a check that it is as before."""
    file = tmp_path / 'victim'
    file.write_text('precious')
    before = file.stat()
    yield file
    assert file.read_text() == 'precious'
    assert file.stat().st_mtime_ns == before.st_mtime_ns
    assert file.stat().st_ino == before.st_ino


@pytest.fixture
def run(tmp_path):
    directory = tmp_path / 'run'
    directory.mkdir()
    return directory


def test_writes_a_file_and_nothing_else(run):
    for contents in (b'one', b'', b'three'):
        files.write(run / 'x', contents)
        assert (run / 'x').read_bytes() == contents
    assert os.listdir(run) == ['x']


def test_file_has_the_rights_that_others_have(run):
    files.write(run / 'x', b'')
    (run / 'y').write_text('')
    assert (run / 'x').stat().st_mode == (run / 'y').stat().st_mode


def test_who_is_interrupted_leaves_the_old_file(run):
    files.write(run / 'x', b'old')
    with pytest.raises(KeyboardInterrupt), files.replacing(run / 'x') as file:
        file.write(b'new')
        file.flush()
        assert (run / 'x').read_bytes() == b'old'
        raise KeyboardInterrupt
    assert (run / 'x').read_bytes() == b'old'
    assert os.listdir(run) == ['x']


def test_changed_file_alone_is_written(run):
    files.write_changed(run / 'x', b'one')
    before = (run / 'x').stat()
    files.write_changed(run / 'x', b'one')
    after = (run / 'x').stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    for contents in (b'on', b'one and more', b'two'):
        files.write_changed(run / 'x', contents)
        assert (run / 'x').read_bytes() == contents


def test_appends(run):
    files.write(run / 'x', b'one')
    files.append(run / 'x', b'two')
    assert (run / 'x').read_bytes() == b'onetwo'


WRITERS = {
    'write': lambda path: files.write(path, b'hostile'),
    'write_changed': lambda path: files.write_changed(path, b'hostile'),
    'append': lambda path: files.append(path, b'hostile'),
    'open_lock': lambda path: files.open_lock(path).close(),
}


@pytest.mark.parametrize('write', WRITERS.values(), ids=WRITERS)
def test_links_are_refused_when_writing(run, victim, write):
    for target in (victim, run / 'dangling'):
        link = run / 'link'
        link.symlink_to(target)
        with pytest.raises(errors.WriteError, match='It is a symbolic link'):
            write(link)
        assert link.readlink() == target
        link.unlink()
    assert not os.listdir(run)


def make_strange(kind, path):
    """Put something in the place of a file."""
    match kind:
        case 'pipe':
            os.mkfifo(path)
        case 'directory':
            path.mkdir()
        case 'socket':
            os.chdir(path.parent)  # Names of sockets are short.
            socket.socket(socket.AF_UNIX).bind(path.name)
        case 'device':
            path.symlink_to('/dev/zero')


STRANGE = 'pipe', 'directory', 'socket', 'device'


@pytest.mark.parametrize('kind', STRANGE)
def test_what_is_no_file_is_refused_at_once(run, kind, monkeypatch):
    monkeypatch.chdir(run)
    path = run / 'x'
    make_strange(kind, path)
    for write in WRITERS.values():
        with pytest.raises(errors.WriteError, match=f'Cannot write to {path}'):
            write(path)
    with pytest.raises(errors.ConfigError, match=f'Cannot read {path}: '):
        files.read(path, 10)
    assert os.listdir(run) == ['x']


def test_link_is_not_read(run, victim):
    (run / 'link').symlink_to(victim)
    with pytest.raises(errors.ConfigError, match='It is a symbolic link'):
        files.read(run / 'link', 100)


def test_reads_up_to_a_limit(run):
    (run / 'x').write_bytes(bytes(10))
    assert files.read(run / 'x', 10) == bytes(10)
    with pytest.raises(errors.ConfigError, match='10 bytes where at most 9'):
        files.read(run / 'x', 9)
    with pytest.raises(errors.ConfigError, match='No such file'):
        files.read(run / 'y', 9)


def test_huge_file_is_not_read(run):
    with (run / 'x').open('wb') as file:
        file.truncate(2**40)
    with pytest.raises(errors.ConfigError, match='bytes where at most 9'):
        files.read(run / 'x', 9)


def test_directories_are_made_but_not_those_elsewhere(run, tmp_path):
    files.make_directory(run / 'a' / 'b')
    files.make_directory(run / 'a' / 'b')
    assert files.is_directory(run / 'a' / 'b')
    (run / 'file').write_text('')
    with pytest.raises(errors.WriteError, match='It is no directory'):
        files.make_directory(run / 'file')
    (run / 'link').symlink_to(tmp_path)
    for use in (files.make_directory, files.is_directory):
        with pytest.raises(errors.ConfigError, match='is a symbolic link'):
            use(run / 'link')
    assert not files.is_directory(run / 'missing')


def test_directory_with_a_link_in_it_is_told(run, victim):
    files.require_no_links(run)
    (run / 'events').symlink_to(victim)
    with pytest.raises(errors.WriteError, match='events in it is a sym'):
        files.require_no_links(run)


KILLED = """
import os, pathlib, sys
from agents.tools.runs import files
with files.replacing(pathlib.Path(sys.argv[1])) as file:
    file.write(b'half')
    file.flush()
    print('there', flush=True)
    sys.stdin.read()
"""


def test_leftovers_of_the_dead_alone_are_removed(run, start_python):
    others = ['.x.new', '.notes', 'x.0123456789abcdef.new', '.x.01234567.new']
    for name in others:
        (run / name).write_text('Mine.')
    process = start_python('-c', KILLED, run / 'x')
    process.read_until('there')
    files.clear_up(run)
    assert len(os.listdir(run)) == len(others) + 1
    process.kill()
    process.wait()
    assert len(os.listdir(run)) == len(others) + 1
    files.clear_up(run)
    assert sorted(os.listdir(run)) == sorted(others)


@pytest.mark.parametrize('name', ['write', 'write_changed'])
def test_full_disk_leaves_the_old_file(run, name):
    files.write(run / 'x', b'old')
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(errors.WriteError, match='Cannot write to .*large'):
            getattr(files, name)(run / 'x', bytes(200))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (run / 'x').read_bytes() == b'old'
    assert os.listdir(run) == ['x']


def test_errors_are_one_line_with_path_and_reason(run):
    path = run / 'missing' / 'x'
    with pytest.raises(errors.UserError) as info:
        files.write(path, b'')
    assert str(info.value) == (f'Cannot write to {path}: No such file or directory.')


@pytest.mark.parametrize(
    'data, message',
    [
        (b'[' * 100_000, 'too deeply'),
        (b'[' * 200 + b']' * 200, 'too deeply'),
        (b'["' + b'[' * 200 + b'"]', None),
        (b'[' + b'1,' * 200_000 + b'1]', 'too many'),
        (b'{"a": 1, "a": 2}', 'the same key twice'),
        (b'[NaN]', 'holds NaN'),
        (b'[-Infinity]', 'holds -Infinity'),
        (b'9' * 5000, 'limit'),
        (b'\xff', 'decode'),
        (b'[1', 'delimiter'),
        ('[1]'.encode('utf-16'), 'decode'),
        (b'', 'Expecting value'),
        (b'"' + b'\\"' * 400_000, 'Unterminated string'),
        (b'"' + b'\\"' * 400_000 + b'\\', 'Unterminated string'),
        (b'[' + b'"\\",' * 100_000, 'Unterminated string|delimiter'),
        (b'"' + b'x' * 2**20 + b'"', 'more than 1,048,576 bytes'),
    ],
)
def test_json_that_is_hostile_is_a_value_error(data, message):
    started = time.perf_counter()
    if message is None:
        assert files.parse_json(data) == ['[' * 200]
    else:
        with pytest.raises(ValueError, match=message):
            files.parse_json(data)
    assert time.perf_counter() - started < 5


def test_json_with_escaped_quotes():
    text = rb'{"\"[[\\": ["\\\"]"]}'
    assert files.parse_json(text) == {'"[[\\': ['\\"]']}
