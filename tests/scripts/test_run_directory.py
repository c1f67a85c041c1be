"""Directories of runs: one process has each, and none is left empty."""

import datetime
import os
import pathlib
import subprocess
import sys
import threading

import pytest

from agents.scripts import run_directory
from agents.tools import errors

LOCK = """
import sys
from agents.scripts import run_directory
with run_directory.locked(sys.argv[1]):
    print('locked', flush=True)
    sys.stdin.read()
"""


def lock_elsewhere(directory):
    """A process that holds the lock of a run."""
    process = subprocess.Popen(
        [sys.executable, '-c', LOCK, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == 'locked\n'
    return process


def test_lock_makes_the_directory(tmp_path):
    with run_directory.locked(tmp_path / 'runs' / 'mine'):
        assert (tmp_path / 'runs' / 'mine').is_dir()


def test_run_of_another_process_is_refused_until_it_ends(tmp_path):
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
        with (
            pytest.raises(errors.UserError, match='Cannot write to'),
            context,
        ):
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
            datetime.datetime.strptime(path.name, '%Y%m%dT%H%M%S-mine')
            for path in (first, second)
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
