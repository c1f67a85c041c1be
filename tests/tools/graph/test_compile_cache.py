"""Where compiled programs are kept, and whose they have to be."""

import os
import subprocess
import sys
import textwrap

import pytest

from agents.tools.graph import compile_cache

NAME = 'xla_compile_cache__{}__7__XLA_CPU_JIT.pb'


def message(*parts):
    """What a file of the cache looks like: numbered strings of bytes."""
    data = b''
    for number, part in enumerate(parts, 1):
        digits, length = [], len(part)
        while length >= 128:
            digits.append(length % 128 + 128)
            length //= 128
        data += bytes([number << 3 | 2, *digits, length]) + part
    return data


WHOLE = message(b'key', b'h' * 300, b'program' * 5000)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The directory that is used, with one whole program."""
    monkeypatch.setenv('AGENTS_CACHE', str(tmp_path / 'cache'))
    assert compile_cache.flags()
    (directory,) = (tmp_path / 'cache').iterdir()
    (directory / NAME.format(1)).write_bytes(WHOLE)
    return directory


def test_whole_programs_are_kept_without_a_word(cache, capfd):
    assert str(cache) in compile_cache.flags()
    assert (cache / NAME.format(1)).read_bytes() == WHOLE
    assert capfd.readouterr() == ('', '')


@pytest.mark.parametrize(
    'damaged',
    [b'', WHOLE[:1], WHOLE[:200], WHOLE[:-1], WHOLE + b'x', b'\xff' * 1000],
    ids=['empty', 'begun', 'half', 'cut', 'longer', 'garbage'],
)
def test_damaged_programs_are_removed_and_said(cache, capfd, damaged):
    (cache / NAME.format(2)).write_bytes(damaged)
    assert compile_cache.flags()
    assert os.listdir(cache) == [NAME.format(1)]
    assert '1 damaged programs' in capfd.readouterr().err


def test_links_are_removed_and_not_what_they_lead_to(cache, tmp_path):
    victim = tmp_path / 'victim'
    victim.write_bytes(WHOLE)
    (cache / NAME.format(2)).symlink_to(victim)
    assert compile_cache.flags()
    assert os.listdir(cache) == [NAME.format(1)]
    assert victim.read_bytes() == WHOLE


@pytest.mark.parametrize('forget', [compile_cache.flags, compile_cache.clear])
def test_what_others_wrote_is_left_alone(cache, forget, monkeypatch):
    monkeypatch.setattr(compile_cache, 'MAX_PROGRAMS', 0)
    (cache / 'notes.txt').write_text('mine')
    (cache / NAME.format(2)).mkdir()
    forget()
    assert (cache / 'notes.txt').read_text() == 'mine'
    assert (cache / NAME.format(2)).is_dir()


def test_oldest_make_room(cache, monkeypatch):
    monkeypatch.setattr(compile_cache, 'MAX_PROGRAMS', 2)
    for number in (2, 3):
        program = cache / NAME.format(number)
        program.write_bytes(WHOLE)
        os.utime(program, (number, number))  # Long ago.
    assert compile_cache.flags()
    assert sorted(os.listdir(cache)) == [NAME.format(1), NAME.format(3)]


@pytest.mark.parametrize('place', ['directory', 'base'])
@pytest.mark.parametrize('mode', [0o720, 0o702, 0o777])
def test_cache_that_others_may_write_to_is_not_used(
    cache, capfd, place, mode, monkeypatch
):
    monkeypatch.setattr(compile_cache, 'MAX_PROGRAMS', 0)
    path = cache if place == 'directory' else cache.parent
    path.chmod(mode)
    assert compile_cache.flags() == ''
    assert (cache / NAME.format(1)).exists()
    assert f'Run chmod go-w {path}' in capfd.readouterr().err


@pytest.mark.parametrize('place', ['directory', 'base'])
def test_cache_that_is_a_link_is_not_used(cache, capfd, place, monkeypatch):
    monkeypatch.setattr(compile_cache, 'MAX_PROGRAMS', 0)
    path = cache if place == 'directory' else cache.parent
    elsewhere = path.with_name('elsewhere')
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    assert compile_cache.flags() == ''
    assert (cache / NAME.format(1)).exists()
    assert f'{path} is a link' in capfd.readouterr().err


def test_cache_within_what_anybody_may_change_is_not_used(cache, capfd):
    cache.parent.parent.chmod(0o777)
    assert compile_cache.flags() == ''
    assert 'chmod o-w' in capfd.readouterr().err
    cache.parent.parent.chmod(0o1777)  # Where each may change their own alone.
    assert compile_cache.flags()


@pytest.mark.skipif(os.geteuid() != 0, reason='Only root can be another user.')
def test_cache_of_another_user_is_not_used(cache, capfd):
    os.chown(cache, 12345, 12345)
    assert compile_cache.flags() == ''
    assert "is another user's" in capfd.readouterr().err


@pytest.mark.skipif(os.geteuid() != 0, reason='Only root can be another user.')
def test_user_without_a_name_and_a_home_has_no_cache():
    program = """
        import os
        from agents.tools.graph import compile_cache

        os.environ.clear()
        os.setuid(12345)
        print([compile_cache.flags()])
    """
    result = subprocess.run(
        [sys.executable, '-c', textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.stdout, result.stderr) == ("['']\n", '')


def test_no_home_is_no_cache(monkeypatch):
    def nothing():
        raise RuntimeError('Could not determine home directory.')

    for name in ('AGENTS_CACHE', 'XDG_CACHE_HOME'):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr('pathlib.Path.home', nothing)
    assert compile_cache.flags() == ''
    assert compile_cache.clear() is None
