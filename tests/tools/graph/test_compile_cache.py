"""Where compiled programs are kept, and whose they have to be."""

import contextlib
import os
import pathlib
import resource
import subprocess
import textwrap

import pytest

from agents.tools.graph import compile_cache

NAME = 'xla_compile_cache__{}__7__XLA_CPU_JIT.pb'
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason='Only root can be another user, or mount.')


@pytest.fixture(autouse=True)
def apart(monkeypatch):
    """Leaves the directory alone that TensorFlow uses in this process."""
    monkeypatch.setattr(compile_cache, '_descriptor', None)
    monkeypatch.setattr(compile_cache, '_substitute', None)
    yield
    if compile_cache._descriptor is not None:
        os.close(compile_cache._descriptor)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The directory that is used, with one program."""
    monkeypatch.setenv('AGENTS_CACHE', str(tmp_path / 'cache'))
    assert compile_cache.flags()
    (directory,) = (tmp_path / 'cache').iterdir()
    (directory / NAME.format(1)).touch()
    return directory


def given_path():
    """The directory that TensorFlow is given."""
    flag = compile_cache.flags().split()[0]
    return pathlib.Path(flag.partition('=')[2])


def test_programs_are_kept_without_a_word(cache, capfd):
    assert given_path().samefile(cache)
    assert (cache / NAME.format(1)).exists()
    assert capfd.readouterr() == ('', '')


@pytest.mark.parametrize('umask', [0o002, 0o000, 0o077])
def test_cache_is_made_private_with_any_umask(umask, tmp_path, monkeypatch, capfd):
    monkeypatch.delenv('AGENTS_CACHE', raising=False)
    monkeypatch.delenv('XDG_CACHE_HOME', raising=False)
    monkeypatch.setenv('HOME', str(tmp_path))
    before = os.umask(umask)
    try:
        assert compile_cache.flags()
    finally:
        os.umask(before)
    for path in tmp_path.glob('**/*'):
        assert path.stat().st_mode & 0o777 == 0o700
    # What other programs have made with umask 002 belongs to the user too.
    (tmp_path / '.cache').chmod(0o775)
    assert compile_cache.flags()
    (tmp_path / '.cache').chmod(0o777)
    assert compile_cache.flags() == ''
    assert 'others may write to' in capfd.readouterr().err


def test_directory_is_named_after_what_programs_depend_on(cache, monkeypatch):
    monkeypatch.setenv('XLA_FLAGS', '--something=else')
    assert not given_path().samefile(cache)
    monkeypatch.setenv('AGENTS_CACHE', '')
    assert compile_cache.flags() == ''


def test_what_others_wrote_is_left_alone(cache, monkeypatch):
    monkeypatch.setattr(compile_cache, 'MAX_PROGRAMS', 0)
    (cache / 'notes.txt').write_text('mine')
    (cache / NAME.format(2)).mkdir()
    assert compile_cache.flags()
    assert sorted(os.listdir(cache)) == ['notes.txt', NAME.format(2)]


def test_oldest_make_room(cache, monkeypatch):
    monkeypatch.setattr(compile_cache, 'MAX_PROGRAMS', 2)
    # The second was never completed.
    for number, name in enumerate(['2', '3'], 2):
        program = cache / f'{NAME.format(name)}{"vm-1.tmp" * (number == 2)}'
        program.touch()
        os.utime(program, (number, number))  # Long ago.
    assert compile_cache.flags()
    assert sorted(os.listdir(cache)) == [NAME.format(1), NAME.format(3)]


@pytest.mark.parametrize('place', ['directory', 'base', 'above'])
@pytest.mark.parametrize('mode', [0o720, 0o702, 0o777])
def test_cache_that_others_may_write_to_is_not_used(cache, capfd, place, mode, monkeypatch):
    monkeypatch.setattr(compile_cache, 'MAX_PROGRAMS', 0)
    above = cache.parent.parent
    path = {'directory': cache, 'base': cache.parent, 'above': above}[place]
    path.chmod(mode)
    assert compile_cache.flags() == ''
    assert (cache / NAME.format(1)).exists()
    assert f'run chmod go-w {path}' in capfd.readouterr().err
    path.chmod(0o1777)  # Where each may change their own alone.
    assert compile_cache.flags()


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


@ROOT_ONLY
@pytest.mark.parametrize('place', ['directory', 'base', 'above'])
def test_cache_of_another_user_is_not_used(cache, capfd, place):
    above = cache.parent.parent
    path = {'directory': cache, 'base': cache.parent, 'above': above}[place]
    os.chown(path, 12345, 12345)
    assert compile_cache.flags() == ''
    assert f"{path} is another user's" in capfd.readouterr().err


def test_directory_that_is_swapped_later_is_not_the_one_in_use(cache):
    path = given_path()
    if not str(path).startswith('/proc/'):
        pytest.skip('There is no /proc on this system.')
    cache.rename(cache.with_name('elsewhere'))
    cache.mkdir()
    assert os.listdir(path) == [NAME.format(1)]
    cache.rmdir()
    cache.with_name('elsewhere').rename(cache)


@contextlib.contextmanager
def small_files(cache):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        yield 'File too large'
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextlib.contextmanager
def mounted(cache, options, reason):
    command = ['mount', '-t', 'tmpfs', '-o', f'mode=0700,{options}', 'none']
    if subprocess.run([*command, cache], check=False).returncode:
        pytest.skip('Mounting is not possible here.')
    try:
        yield reason
    finally:
        # TensorFlow's descriptor keeps it busy.
        subprocess.run(['umount', '--lazy', cache], check=True)


def small_disk(cache):
    return mounted(cache, 'size=1m', 'No space left on device')


def read_only_disk(cache):
    return mounted(cache, 'ro', 'Read-only file system')


def no_inodes(cache):
    return mounted(cache, 'nr_inodes=1', 'No space left on device')


@pytest.mark.parametrize(
    'trouble',
    [
        small_files,
        *(pytest.param(case, marks=ROOT_ONLY) for case in (small_disk, read_only_disk, no_inodes)),
    ],
)
def test_cache_that_cannot_be_written_is_said_and_not_used(trouble, cache, capfd):
    with trouble(cache) as reason:
        assert compile_cache.flags() == ''
    assert reason in capfd.readouterr().err


# A training whose cache fails when the first program is compiled.
FAILING = """
    import os, shutil, sys
    import agents
    from agents.tools.graph import backend

    assert '/proc/' not in os.environ.get('TF_XLA_FLAGS', '')
    shutil.rmtree(os.environ['AGENTS_CACHE'])
    config = agents.configs.cartpole_native().copy(
        steps=512, eval_every=256, max_length=10, policy_layers=[4],
        value_layers=[4])
    print(len([*agents.train(config, sys.argv[1])]))
    print(len(agents.load(sys.argv[1])([0, 0, 0, 0]).shape))
"""


@pytest.mark.slow
def test_training_goes_on_when_the_cache_fails(tmp_path, run_python):
    environ = {**os.environ, 'AGENTS_CACHE': str(tmp_path / 'cache')}
    environ.pop('TF_XLA_FLAGS', None)
    program = textwrap.dedent(FAILING)
    result = run_python('-c', program, tmp_path / 'run', env=environ)
    assert result.output == '2\n0\n', result.problems
    assert result.problems.count('cache:') == 1
    assert 'is no longer used: No such file' in result.problems


@ROOT_ONLY
def test_user_without_a_name_and_a_home_has_no_cache(run_python):
    program = """
        import os
        from agents.tools.graph import compile_cache

        os.environ.clear()
        os.setuid(12345)
        print([compile_cache.flags()])
    """
    result = run_python('-c', textwrap.dedent(program))
    assert (result.output, result.problems) == ("['']\n", '')


def test_no_home_is_no_cache(monkeypatch):
    def nothing():
        raise RuntimeError('Could not determine home directory.')

    for name in ('AGENTS_CACHE', 'XDG_CACHE_HOME'):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr('pathlib.Path.home', nothing)
    assert compile_cache.flags() == ''
