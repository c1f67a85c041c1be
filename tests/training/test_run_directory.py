"""Directories of runs: one process has each, and none is left empty."""

import datetime
import os
import pathlib
import threading

import pytest

from agents.config import store
from agents.tools import errors
from agents.tools.runs import progress
from agents.training import run_directory, storage

LOCK = """
import sys
from agents.training import run_directory
with run_directory.locked(sys.argv[1]):
    print('locked', flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def lock_elsewhere(start_python):
    """A function that locks a run by a process, which it returns."""

    def lock(directory):
        process = start_python('-c', LOCK, directory)
        process.read_until('locked')
        return process

    return lock


def test_lock_makes_the_directory(tmp_path):
    with run_directory.locked(tmp_path / 'runs' / 'mine'):
        assert (tmp_path / 'runs' / 'mine').is_dir()


def test_run_of_another_process_is_refused_until_it_ends(tmp_path, lock_elsewhere):
    with lock_elsewhere(tmp_path) as process:
        with (
            pytest.raises(errors.ConfigError, match='Another process'),
            run_directory.locked(tmp_path),
        ):
            pass
        process.kill()  # Leaves its file, which is no obstacle.
        process.wait()
        assert (tmp_path / 'lock').exists()
        with run_directory.locked(tmp_path):
            pass


def test_lock_excludes_runs_of_the_same_process(tmp_path):
    for _ in range(2):
        with (
            run_directory.locked(tmp_path),
            pytest.raises(errors.ConfigError, match='Another process'),
            run_directory.locked(tmp_path),
        ):
            pass


def test_lock_is_free_after_an_error(tmp_path):
    with pytest.raises(RuntimeError), run_directory.locked(tmp_path):
        raise RuntimeError
    with run_directory.locked(tmp_path):
        pass


def test_directory_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / 'file').write_text('')
    with (
        pytest.raises(errors.UserError, match='Cannot write to') as info,
        run_directory.locked(tmp_path / 'file' / 'run'),
    ):
        pass
    assert '\n' not in str(info.value)


def test_nothing_is_left_where_nothing_was_written(tmp_path):
    (tmp_path / 'there').mkdir()
    for name in ('there/a/b/run', 'there'):
        with run_directory.locked(tmp_path / name):
            assert (tmp_path / name / 'lock').exists()
        assert list(tmp_path.rglob('*')) == [tmp_path / 'there']


def test_what_was_written_is_left(tmp_path):
    run = tmp_path / 'a' / 'run'
    with run_directory.locked(run):
        (run / 'notes').write_text('Mine.')
    assert sorted(os.listdir(run)) == ['lock', 'notes']


def test_directory_may_be_gone_at_the_end(tmp_path):
    run = tmp_path / 'run'
    with pytest.raises(KeyError), run_directory.locked(run):
        (run / 'lock').unlink()
        run.rmdir()
        raise KeyError


@pytest.mark.parametrize('name', ['a' * 300, 'b/' + 'a' * 300])
def test_name_that_is_too_long_leaves_nothing(tmp_path, name):
    for context in (
        run_directory.locked(tmp_path / name),
        run_directory.claimed(tmp_path, name),
        run_directory.claimed(tmp_path / name, 'run'),
    ):
        with pytest.raises(errors.UserError, match='Cannot write to'), context:
            pass
        assert not list(tmp_path.iterdir())


def test_logdir_that_leads_nowhere(tmp_path):
    (tmp_path / 'link').symlink_to(tmp_path / 'nowhere' / 'x')
    with (
        pytest.raises(errors.UserError, match='Cannot write to'),
        run_directory.claimed(tmp_path / 'link', 'run'),
    ):
        pass


def test_no_two_have_the_lock_though_it_is_removed_each_time(tmp_path):
    inside, met, refused = [], [], []
    run = tmp_path / 'run'

    def enter_and_leave():
        for _ in range(300):
            try:
                with run_directory.locked(run):
                    inside.append(1)
                    met.append(len(inside))
                    inside.pop()
            except errors.UserError:  # It is another's, or was removed.
                refused.append(1)

    threads = [threading.Thread(target=enter_and_leave) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(met) == {1}
    assert len(met) + len(refused) == 900


def test_claimed_directories_are_named_after_the_time(tmp_path):
    with (
        run_directory.claimed(tmp_path / 'runs', 'mine') as first,
        run_directory.claimed(tmp_path / 'runs', 'mine') as second,
        run_directory.claimed(tmp_path / 'runs', 'other') as other,
    ):
        assert first != second
        times = [
            datetime.datetime.strptime(path.name, '%Y%m%dT%H%M%S-mine') for path in (first, second)
        ]
        now = datetime.datetime.now()
        assert all(abs((now - time).total_seconds()) < 60 for time in times)
        assert other.name.endswith('-other')
        (second / 'notes').write_text('Mine.')
    assert list((tmp_path / 'runs').iterdir()) == [second]


def test_claimed_by_many_at_the_same_time(tmp_path):
    claimed: list[pathlib.Path] = []

    def claim():
        with run_directory.claimed(tmp_path, 'run') as directory:
            claimed.append(directory)
            barrier.wait()

    barrier = threading.Barrier(5)
    threads = [threading.Thread(target=claim) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(claimed)) == 5
    assert not list(tmp_path.iterdir())


def test_lock_is_opened_without_following_or_truncating(tmp_path):
    victim = tmp_path / 'victim'
    victim.write_text('precious')
    run = tmp_path / 'run'
    run.mkdir()
    (run / 'lock').symlink_to(victim)
    with (
        pytest.raises(errors.UserError, match='lock: It is a symbolic link'),
        run_directory.locked(run),
    ):
        pass
    (run / 'lock').unlink()
    (run / 'lock').write_text('Mine.')
    (run / 'notes').write_text('Mine.')
    with run_directory.locked(run):
        pass
    assert victim.read_text() == 'precious'
    assert (run / 'lock').read_text() == 'Mine.'


def test_links_within_a_run_are_refused_but_the_run_may_be_one(tmp_path):
    (tmp_path / 'real').mkdir()
    (tmp_path / 'link').symlink_to(tmp_path / 'real')
    with run_directory.locked(tmp_path / 'link'):
        (tmp_path / 'real' / 'train').symlink_to(tmp_path)
    with (
        pytest.raises(errors.UserError, match='train in it is a symbolic'),
        run_directory.locked(tmp_path / 'link'),
    ):
        pass


def test_leftovers_are_removed_by_who_has_the_lock(tmp_path):
    leftover = tmp_path / '.config.yaml.0123456789abcdef.new'
    leftover.write_text('ppo')
    with run_directory.locked(tmp_path):
        assert not leftover.exists()


def test_directory_is_where_it_was_though_the_working_directory_changes(tmp_path, monkeypatch):
    (tmp_path / 'elsewhere').mkdir()
    monkeypatch.chdir(tmp_path)
    with run_directory.claimed('runs', 'mine') as claimed, run_directory.locked('run'):
        monkeypatch.chdir(tmp_path / 'elsewhere')
        assert claimed.is_dir() and claimed.is_absolute()
    assert [path.name for path in tmp_path.iterdir()] == ['elsewhere']


# What a directory holds

ROWS = progress.encode([progress.COLUMNS, [10, 'train', *range(8)]])

FILES = {
    'settings': (store.CONFIG_FILE, b'algorithm: ppo'),
    'spaces': (storage.SPACES, b'spaces'),
    'names of results': (progress.FILE, progress.encode([progress.COLUMNS])),
    'results': (progress.FILE, ROWS),
    'checkpoint': (f'{storage.CHECKPOINTS}/{10:012d}/manifest.json', b'{}'),
    'leftover': (f'{storage.CHECKPOINTS}/.{10:012d}.7/manifest.json', b'{}'),
    'events': ('train/events.out.tfevents.1.2', b''),
}


def fill(directory, held):
    for name in held.split(', ') if held else []:
        path, data = FILES[name]
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(data)


@pytest.mark.parametrize(
    'held, trained',
    [
        ('', False),
        ('settings', False),
        ('settings, spaces', False),
        ('settings, spaces, names of results, events', False),
        ('settings, spaces, checkpoint', True),
        ('settings, spaces, results, checkpoint, events', True),
    ],
)
def test_run_that_lacks_nothing(tmp_path, held, trained):
    fill(tmp_path, held)
    assert run_directory.is_trained(tmp_path) == trained
    assert run_directory.is_run(tmp_path) == bool(held)


@pytest.mark.parametrize(
    'held, missing',
    [
        ('settings, spaces, results', 'lacks a checkpoint'),
        ('settings, spaces, leftover', 'lacks a checkpoint'),
        ('spaces', 'lacks config.yaml'),
        ('spaces, results, checkpoint', 'lacks config.yaml'),
        ('settings, results, checkpoint', 'lacks spaces.bin'),
        ('settings, checkpoint', 'lacks spaces.bin'),
        ('results', 'config.yaml and spaces.bin and a checkpoint'),
    ],
)
def test_run_that_lacks_something_is_told_so(tmp_path, held, missing):
    fill(tmp_path, held)
    with pytest.raises(errors.ConfigError, match=missing) as info:
        run_directory.is_trained(tmp_path)
    assert 'Put back what was removed' in str(info.value)
    assert '\n' not in str(info.value)


def test_directory_of_something_else_is_no_run(tmp_path):
    assert not run_directory.is_run(tmp_path / 'missing')
    (tmp_path / 'lock').write_text('')
    (tmp_path / '.hidden').write_text('')
    assert not run_directory.is_run(tmp_path)
    (tmp_path / 'thesis.tex').write_text('')
    with pytest.raises(errors.ConfigError, match='holds thesis.tex but no con'):
        run_directory.is_run(tmp_path)
    (tmp_path / 'ant' / 'one').mkdir(parents=True)
    (tmp_path / 'ant' / 'one' / store.CONFIG_FILE).write_text('')
    with pytest.raises(errors.ConfigError, match='holds the run ant/one. Choo'):
        run_directory.is_run(tmp_path)
