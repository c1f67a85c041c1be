"""Checkpoints are complete or not there, whatever happens while saving."""

import contextlib
import hashlib
import json
import math
import os
import pathlib
import resource
import shutil
import tempfile
import threading

import numpy as np
import pytest

import agents
from agents.tools import ConfigError, UserError
from agents.tools.graph.backend import tf
from agents.tools.runs import checkpoints
from agents.tools.runs import saver as saver_module
from agents.tools.runs.checkpoints import MANIFEST, TENSORS, clear_up, verify
from agents.tools.runs.saver import PAUSE_SECONDS, Saver


def make(directory, **kwargs):
    """A saver of two variables, which are easily told from other steps'."""
    variables = {'net/0-kernel': tf.Variable(tf.zeros((2, 3)))}
    variables['step'] = tf.Variable(0, dtype=tf.int64)
    return Saver(directory, variables, place='step', **kwargs), variables


def save(directory, *steps, **kwargs):
    saver, variables = make(directory, **kwargs)
    for step in steps:
        fill(variables, step)
        saver.save(step)
    return saver


def fill(variables, value):
    for variable in variables.values():
        variable.assign(tf.fill(variable.shape, tf.cast(value, variable.dtype)))


def holds(variables, value):
    return all((v.numpy() == value).all() for v in variables.values())


def restore(directory, *args):
    """The step that is restored, verified, and what was said about it."""
    saver, variables = make(directory)
    said = []
    step = saver.restore(*args, warn=said.append)
    assert holds(variables, step or 0)
    return step, said


def files(directory):
    """The contents of all files below a directory."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob('*')
        if path.is_file()
    }


def test_restores_what_was_saved(tmp_path):
    save(tmp_path, 100)
    assert restore(tmp_path) == (100, [])


def test_nothing_to_restore(tmp_path):
    assert restore(tmp_path) == (None, [])
    assert restore(tmp_path / 'missing') == (None, [])
    assert make(tmp_path / 'missing')[0].steps() == []


def test_values_of_every_type(tmp_path):
    values = {
        'float32': np.array([[0.1, -1e-40], [3e38, 0]], 'f'),
        'float64': np.array(1 / 3),
        'float16': np.array([0.1], np.float16),
        'int64': np.array([2**62, -1]),
        'uint8': np.array([0, 255], np.uint8),
        'bool': np.array([True, False]),
        'deep/er/0-kernel:x': np.zeros((0, 3), 'f'),
    }
    before = {name: tf.Variable(value) for name, value in values.items()}
    before['bfloat16'] = tf.Variable(tf.constant([0.1], tf.bfloat16))
    after = {name: tf.Variable(tf.zeros_like(v)) for name, v in before.items()}
    Saver(tmp_path, before).save(1)
    assert Saver(tmp_path, after).restore() == 1
    for name, variable in after.items():
        assert variable.numpy().tobytes() == before[name].numpy().tobytes()


def test_checkpoint_is_tensors_and_a_manifest(tmp_path):
    path = save(tmp_path, 42).save(42)
    assert path == tmp_path / '000000000042'
    assert set(files(path)) == {MANIFEST, TENSORS}
    manifest = json.loads((path / MANIFEST).read_text())
    assert manifest['version'] == agents.__version__
    assert set(manifest['files']) == {TENSORS}
    assert manifest['files'][TENSORS] == {
        'bytes': (path / TENSORS).stat().st_size,
        'sha256': hashlib.sha256((path / TENSORS).read_bytes()).hexdigest(),
    }
    assert os.listdir(tmp_path) == [path.name]


def test_restores_the_step_that_is_asked_for(tmp_path):
    save(tmp_path, 1, 2, 3)
    assert restore(tmp_path, 2) == (2, [])
    with pytest.raises(UserError, match='no checkpoint 4 in .* are 1, 2, 3'):
        restore(tmp_path, 4)


def test_same_step_is_saved_once(tmp_path):
    save(tmp_path, 7)
    before = files(tmp_path)
    saver, variables = make(tmp_path)
    fill(variables, 8)
    variables['step'].assign(7)
    saver.save(7)
    assert files(tmp_path) == before


def test_same_step_is_saved_again_once_the_loop_is_further(tmp_path):
    saver, variables = make(tmp_path)
    for place in (7, 8):  # That of an evaluation, and that after it.
        fill(variables, place)
        path = saver.save(7)
    assert os.listdir(tmp_path) == [path.name]
    other, variables = make(tmp_path)
    assert other.restore() == 7
    assert holds(variables, 8)


@pytest.mark.parametrize('renamed', [False, True])
def test_killed_while_one_takes_the_place_of_another(tmp_path, renamed):
    save(tmp_path, 6, 7)
    final = tmp_path / f'{7:012d}'
    replaced = tmp_path / f'{7:012d}.replaced'
    shutil.copytree(final, replaced)
    if renamed:
        shutil.rmtree(final)
    before = files(tmp_path)
    # Until the next training, who looks takes what there is.
    assert restore(tmp_path)[0] == (6 if renamed else 7)
    assert files(tmp_path) == before
    clear_up(tmp_path)
    assert restore(tmp_path) == (7, [])
    assert not replaced.exists()


def test_clearing_up_leaves_what_others_wrote(tmp_path):
    save(tmp_path, 7)
    for name in (
        'best.replaced', 'best', '.notes', '.000000000004.x',
        '000000000004.1234', '12.replaced', '.12.5',
    ):  # fmt: skip
        (tmp_path / name).mkdir()
    (tmp_path / f'{7:012d}.replaced').write_text('A file.')
    (tmp_path / f'.{8:012d}.12').write_text('A file.')
    before = sorted(os.listdir(tmp_path))
    clear_up(tmp_path)
    assert sorted(os.listdir(tmp_path)) == before
    clear_up(tmp_path / 'nowhere')


def test_new_one_that_is_damaged_does_not_replace_the_old(tmp_path, monkeypatch):
    saver, variables = make(tmp_path)
    fill(variables, 7)
    saver.save(7)
    before = files(tmp_path)
    fill(variables, 8)
    write = checkpoints.files.write

    def write_and_damage(path, contents):
        write(path, contents)
        path.with_name(TENSORS).write_text('Damaged.')

    monkeypatch.setattr(checkpoints.files, 'write', write_and_damage)
    with pytest.raises(UserError, match=f'not whole: {TENSORS} has'):
        saver.save(7)
    assert files(tmp_path) == before


@pytest.mark.parametrize('keep, kept', [(3, [3, 4, 5]), (2, [4, 5])])
def test_oldest_make_room(tmp_path, keep, kept):
    assert save(tmp_path, 1, 2, 3, 4, 5, keep=keep).steps() == kept


@pytest.mark.parametrize('keep', [1, 0, -3])
def test_at_least_two_are_kept(tmp_path, keep):
    assert save(tmp_path, 1, 2, 3, 4, keep=keep).steps() == [3, 4]


def test_order_is_by_step(tmp_path):
    # Neither by the time, which two may have in common or which may be set
    # back, nor by the letters.
    save(tmp_path, 9 * 10**11, 10**12)
    for index, path in enumerate(sorted(tmp_path.iterdir())):
        os.utime(path, (index, index))
    assert make(tmp_path)[0].steps() == [9 * 10**11, 10**12]
    assert restore(tmp_path)[0] == 10**12


def test_what_others_wrote_is_left_alone(tmp_path):
    others = ['5', '12345', '000000000002.damaged', '²', 'notes.txt', '.x']
    for name in others:
        (tmp_path / name).mkdir()
    saver = save(tmp_path, 1, 2, 3, 4, keep=2)
    assert saver.steps() == [3, 4]
    assert set(others) < set(os.listdir(tmp_path))
    assert restore(tmp_path) == (4, [])


# Damage


def truncate(path, kept=0):
    path.write_bytes(path.read_bytes()[:kept])


def flip(path, position, bit=0):
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)


DAMAGES = {
    'empty': truncate,
    'truncated': lambda path: truncate(path, path.stat().st_size // 2),
    'last byte gone': lambda path: truncate(path, path.stat().st_size - 1),
    'longer': lambda path: path.write_bytes(path.read_bytes() + b'x'),
    'bit flipped': lambda path: flip(path, path.stat().st_size // 2),
    'deleted': os.remove,
    'a directory': lambda path: (path.unlink(), path.mkdir()),
}
FILES = [MANIFEST, TENSORS]


@pytest.mark.parametrize('name', FILES)
@pytest.mark.parametrize('damage', DAMAGES.values(), ids=DAMAGES)
def test_damage_falls_back_and_says_so(tmp_path, damage, name):
    save(tmp_path, 1, 2, 3)
    damage(tmp_path / f'{3:012d}' / name)
    step, said = restore(tmp_path)
    assert step == 2
    (text,) = said
    assert f'{3:012d} is not whole' in text and 'Falling back' in text
    with pytest.raises(UserError, match='is not whole'):
        restore(tmp_path, 3)
    damage(tmp_path / f'{2:012d}' / name)
    assert restore(tmp_path)[0] == 1


@pytest.mark.parametrize('name', FILES)
def test_damage_of_the_only_one_is_refused(tmp_path, name):
    save(tmp_path, 1, 2)
    for step in (1, 2):
        os.remove(tmp_path / f'{step:012d}' / name)
    saver, variables = make(tmp_path)
    fill(variables, 9)
    said = []
    with pytest.raises(UserError, match='000000000001 is not whole'):
        saver.restore(warn=said.append)
    assert len(said) == 1
    assert holds(variables, 9)


def test_empty_directory_is_not_a_checkpoint(tmp_path):
    save(tmp_path, 1)
    (tmp_path / f'{2:012d}').mkdir()
    assert restore(tmp_path)[0] == 1
    (tmp_path / f'{3:012d}').write_text('a file')
    assert restore(tmp_path)[0] == 1


def test_every_flipped_bit_is_seen(tmp_path):
    path = save(tmp_path, 1).save(1)
    verify(path)
    for name in FILES:
        whole = (path / name).read_bytes()
        # But for the version, which tells who wrote it.
        begin = whole.index(b'"files"') if name == MANIFEST else 0
        for position in range(begin, len(whole)):
            flip(path / name, position, position % 8)
            with pytest.raises(UserError, match='is not whole'):
                verify(path)
            (path / name).write_bytes(whole)
    verify(path)


@pytest.mark.parametrize(
    'manifest',
    [
        '[]',
        '{}',
        'null',
        '{"files": []}',
        '{"files": {}}',
        '{"files": {"variables.safetensors": null}}',
        '{"files": {"../secret": {"bytes": 1, "sha256": ""}}}',
        '{"files": {"/etc/hostname": {"bytes": 1, "sha256": ""}}}',
        '[' * 5_000,
        '{"files":' * 1_000,
        '9' * 5_000,
        ' ' * 20_000,
        '{"files": 1, "files": 2}',
        b'\x80\x04\x95',
    ],
    ids=lambda text: text[:20],
)
def test_hostile_manifests(tmp_path, manifest):
    path = save(tmp_path, 1).save(1)
    content = manifest if isinstance(manifest, bytes) else manifest.encode()
    (path / MANIFEST).write_bytes(content)
    with pytest.raises(UserError, match='is not whole'):
        restore(tmp_path)


def test_damaged_one_of_the_same_step_is_written_anew(tmp_path):
    save(tmp_path, 1, 2)
    truncate(tmp_path / f'{2:012d}' / TENSORS)
    assert restore(tmp_path)[0] == 1
    save(tmp_path, 2)
    assert restore(tmp_path) == (2, [])
    (aside,) = [p for p in tmp_path.iterdir() if p.name.endswith('.damaged')]
    assert set(files(aside)) == set(FILES)
    truncate(tmp_path / f'{2:012d}' / TENSORS)
    save(tmp_path, 2)
    assert restore(tmp_path) == (2, [])


def test_damaged_ones_do_not_push_out_what_is_written_later(tmp_path):
    save(tmp_path, 1, 2, 8, 9)
    for step in (8, 9):
        truncate(tmp_path / f'{step:012d}' / TENSORS)
    assert restore(tmp_path)[0] == 2
    saver = save(tmp_path, 3, 4, keep=2)
    assert saver.steps() == [3, 4, 8, 9]
    assert restore(tmp_path)[0] == 4


def reseal(path):
    """Make the manifest of a checkpoint fit what is there."""
    (path / MANIFEST).unlink()
    checkpoints.seal(path)


def test_damage_that_the_manifest_fits_is_a_clear_error(tmp_path):
    name = TENSORS
    path = save(tmp_path, 1).save(1)
    original, refused = (path / name).read_bytes(), 0
    for position in range(len(original)):
        for data in (original[:position], original[:position] + b'\xff' + original[position + 1 :]):
            (path / name).write_bytes(data)
            reseal(path)
            saver, _ = make(tmp_path)
            try:
                saver.restore()
            except UserError:
                refused += 1
    assert refused >= len(original)


def test_step_that_is_saved_replaces_one_of_a_stranger(tmp_path):
    stranger = Saver(tmp_path, {'other': tf.Variable([1.0])})
    stranger.save(7)
    save(tmp_path, 7)
    assert restore(tmp_path) == (7, [])


def test_linked_directory_is_neither_read_nor_pruned_nor_cleared(tmp_path):
    victim, link = tmp_path / 'victim', tmp_path / 'checkpoints'
    save(victim, 1, 2, 3)
    (victim / f'.{4:012d}.1234').mkdir()
    link.symlink_to(victim)
    before = sorted(victim.rglob('*'))
    saver, _ = make(link, keep=2)
    for use in (
        lambda: saver.restore(),
        lambda: saver.save(9),
        lambda: saver.steps(),
        lambda: clear_up(link),
    ):
        with pytest.raises(UserError, match='is a symbolic link'):
            use()
    assert sorted(victim.rglob('*')) == before


def test_linked_checkpoints_are_left_alone(tmp_path):
    victim, run = tmp_path / 'victim', tmp_path / 'run'
    save(victim, 1)
    before = files(victim)
    run.mkdir()
    for name in (f'{1:012d}', f'{2:012d}', f'{9:012d}', f'{3:012d}.replaced'):
        (run / name).symlink_to(victim / f'{1:012d}')
    clear_up(run)
    saver = save(run, 2, 3, 4, 5, keep=2)
    assert saver.steps() == [4, 5]
    assert files(victim) == before
    assert (run / f'{1:012d}').is_symlink()


@pytest.mark.parametrize('name', ['9' * 255, '9' * 19, '0' * 13 + '5'])
def test_silly_names_are_no_checkpoints(tmp_path, name):
    save(tmp_path, 1)
    shutil.copytree(tmp_path / f'{1:012d}', tmp_path / name)
    assert restore(tmp_path) == (1, [])
    assert make(tmp_path)[0].steps() == [1]


@pytest.mark.parametrize('name', FILES)
def test_pipe_or_link_in_a_checkpoint_is_seen_at_once(tmp_path, name):
    path = save(tmp_path, 1, 2).save(2)
    (path / name).unlink()
    os.mkfifo(path / name)
    assert restore(tmp_path)[0] == 1
    (path / name).unlink()
    (path / name).symlink_to(tmp_path / f'{1:012d}' / name)
    assert restore(tmp_path)[0] == 1


def test_checkpoint_that_is_replaced_while_it_is_read(tmp_path, monkeypatch):
    save(tmp_path, 1)
    verify = checkpoints.verify

    def verify_and_remove(path):
        verify(path)
        shutil.rmtree(path)

    monkeypatch.setattr(checkpoints, 'verify', verify_and_remove)
    with pytest.raises(UserError, match='changed while it was read; try again'):
        make(tmp_path)[0].restore()


# Values that must not be saved, and checkpoints that do not fit


@pytest.mark.parametrize('value', [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize('dtype', ['float32', 'bfloat16', 'float64'])
def test_values_that_are_not_finite_are_not_saved(tmp_path, value, dtype):
    good = {'x': tf.Variable(tf.ones(3, dtype)), 'n': tf.Variable(2)}
    saver = Saver(tmp_path / 'new', good)
    good['x'][1].assign(tf.cast(value, dtype))
    with pytest.raises(UserError, match='x holds values that are not finite'):
        saver.save(1)
    assert not (tmp_path / 'new').exists()
    good['x'].assign(tf.ones(3, dtype))
    saver.save(1)
    before = files(tmp_path)
    good['x'][1].assign(tf.cast(value, dtype))
    with pytest.raises(UserError, match='written before are intact'):
        saver.save(2)
    assert files(tmp_path) == before


def test_values_that_are_not_finite_are_not_restored(tmp_path):
    path = save(tmp_path, 1).save(1)
    file = path / TENSORS
    data = file.read_bytes()
    numbers = np.full(6, 1, 'f').tobytes()
    assert numbers in data
    nan = np.full(6, np.nan, 'f').tobytes()
    file.write_bytes(data.replace(numbers, nan))
    reseal(path)
    saver, variables = make(tmp_path)
    with pytest.raises(UserError, match='must hold finite numbers, got'):
        saver.restore()
    assert holds(variables, 0)


OTHERS = {
    'shape': ({'a': tf.zeros(3), 'b': tf.ones(2)}, r'a: .*\[2\].*\[3\]'),
    'type': ({'a': tf.zeros(2, tf.int32), 'b': tf.ones(2)}, 'float32.*int32'),
    'missing': (
        {'a': tf.zeros(2), 'b': tf.ones(2), 'c': tf.ones(1)},
        r'c: missing, expected .*float32.*\[1\]',
    ),
    'extra': ({'a': tf.zeros(2)}, r'b: .*\[2\].*, expected none'),
    'renamed': ({'a': tf.zeros(2), 'B': tf.ones(2)}, '(?s)B: missing.*b: .*none'),
}


@pytest.mark.parametrize('values, message', OTHERS.values(), ids=OTHERS)
def test_checkpoint_that_does_not_fit(tmp_path, values, message):
    stored = {'a': tf.Variable([5.0, 5.0]), 'b': tf.Variable([6.0, 6.0])}
    Saver(tmp_path, stored).save(1)
    variables = {name: tf.Variable(value) for name, value in values.items()}
    with pytest.raises(ConfigError, match=message) as raised:
        Saver(tmp_path, variables).restore()
    assert 'does not fit the configuration' in str(raised.value)
    for name, variable in variables.items():
        np.testing.assert_array_equal(variable, values[name])


def test_difference_names_only_what_differs(tmp_path):
    save(tmp_path, 1)
    _, variables = make(tmp_path)
    variables['step'] = tf.Variable(0.5)
    with pytest.raises(ConfigError) as raised:
        Saver(tmp_path, variables).restore()
    _, difference = str(raised.value).split('configuration: ')
    assert difference == 'step: int64 [], expected float32 [].'


def test_difference_of_a_stranger_is_one_short_line(tmp_path):
    names = [f'{n:03}\n\x1b[2Kerror: forged\u202e' for n in range(100)]
    Saver(tmp_path, {name: tf.Variable(1.0) for name in names}).save(1)
    with pytest.raises(ConfigError) as raised:
        Saver(tmp_path, {'a': tf.Variable(1.0)}).restore()
    message = str(raised.value)
    assert message.isprintable() and len(message) < 2_000
    assert r'000\n\x1b[2Kerror: forged\u202e: ' in message
    assert message.endswith('; and 93 more.')


def test_partial(tmp_path):
    save(tmp_path, 4)
    _, variables = make(tmp_path)
    del variables['step']
    assert Saver(tmp_path, variables, partial=True).restore() == 4
    assert holds(variables, 4)
    variables['new'] = tf.Variable(7.0)
    fill(variables, 7)
    with pytest.raises(ConfigError, match='new: missing'):
        Saver(tmp_path, variables, partial=True).restore()
    assert holds(variables, 7)


# The best by the score of an evaluation


def best(directory, **kwargs):
    """The best that is found in files, verified, and what was said."""
    said = []
    found = checkpoints.find_best(directory, said.append, **kwargs)
    if found:
        saver, variables = make(directory)
        assert saver.restore(found.step) == found.step
        assert holds(variables, found.step)
    return found, said


def test_files_are_on_the_disk_before_they_have_their_name(tmp_path, monkeypatch):
    events = []
    sync, rename = os.fsync, pathlib.Path.rename

    def synced(descriptor):
        events.append(pathlib.Path(os.readlink(f'/proc/self/fd/{descriptor}')).name)
        sync(descriptor)

    def renamed(self, target):
        events.append(f'-> {target.name}')
        return rename(self, target)

    monkeypatch.setattr(os, 'fsync', synced)
    monkeypatch.setattr(pathlib.Path, 'rename', renamed)
    save(tmp_path / 'checkpoints', 7)
    named = events.index(f'-> {7:012d}')
    for file in (TENSORS, MANIFEST):  # The second is written under another name.
        assert any(file in name for name in events[:named])
    assert events[named + 1 :] == ['checkpoints']


def save_scores(directory, scores, **kwargs):
    saver, variables = make(directory, **kwargs)
    for step, score in enumerate(scores, 1):
        fill(variables, step)
        saver.save(step, score)
    return saver


@pytest.mark.parametrize(
    'scores, kept, found',
    [
        ([3, 9, 4, 5, 6], [2, 4, 5], (2, 9)),
        ([3, 4, 5, 9, 6], [4, 5], (4, 9)),
        # Of equal ones the first, as which of them are saved depends on time.
        ([9, 3, 9, 9, 4], [1, 4, 5], (1, 9)),
        ([-1e30, -1.5, -2, None, math.nan, math.inf], [2, 5, 6], (2, -1.5)),
        ([0.1, 0.3, 0.1 + 0.2, 0.3], [3, 4], (3, 0.1 + 0.2)),
        ([None, math.nan, None], [2, 3], None),
    ],
)
def test_best_is_kept_beside_the_last(tmp_path, scores, kept, found):
    saver = save_scores(tmp_path, scores, keep=2)
    assert saver.steps() == kept
    assert saver.best == found
    assert best(tmp_path) == (found, [])
    # As one that goes on with it knows, and that goes on keeping it.
    saver, variables = make(tmp_path, keep=2)
    saver.restore()
    assert saver.best == found
    assert found is None or not saver.is_better(found[1])
    for step in (11, 12, 13):
        fill(variables, step)
        saver.save(step)
    assert saver.steps() == ([found[0]] if found else []) + [12, 13]


def test_held_one_is_written_as_it_was_before_the_next(tmp_path):
    saver, variables = make(tmp_path, keep=2)
    fill(variables, 1)
    saver.save(1, 3.0)
    for step, score in ((2, 7.0), (4, 8.0)):
        fill(variables, step)
        assert saver.is_better(score)
        saver.hold(step, score)
        assert saver.best == (step, score) and saver.steps() == [1]
        assert not saver.is_better(score)
    fill(variables, 6)
    saver.save(6, 5.0)
    assert saver.steps() == [4, 6]
    assert best(tmp_path) == ((4, 8.0), [])
    assert restore(tmp_path) == (6, [])


def test_one_that_was_held_and_is_then_saved_has_its_score(tmp_path):
    saver, variables = make(tmp_path)
    fill(variables, 1)
    saver.hold(1, 3.0)
    saver.save(1)
    assert best(tmp_path) == ((1, 3.0), [])


def test_best_that_is_damaged_is_told_and_the_next_takes_its_place(tmp_path):
    save_scores(tmp_path, [3, 5, 9, 4, 1])
    data = tmp_path / f'{3:012d}' / TENSORS
    data.write_bytes(data.read_bytes()[:-1])
    found, (said,) = best(tmp_path)
    assert found == (2, 5)
    assert f'{3:012d} is not whole' in said
    assert said.endswith('It was the best; the next best takes its place.')
    saver, _ = make(tmp_path)
    told = []
    assert saver.restore(warn=told.append) == 5
    assert (saver.best, told) == ((2, 5), [said])


@pytest.mark.parametrize('text', ['', '{"score": "high"}', '[]'])
def test_best_whose_manifest_is_damaged_is_told(tmp_path, text):
    save_scores(tmp_path, [3, 5, 9, 4])
    (tmp_path / f'{3:012d}' / MANIFEST).write_text(text)
    found, (said,) = best(tmp_path)
    assert found == (2, 5)
    assert f'{3:012d} does not tell its score: ' in said


def test_best_of_later_steps_than_the_one_gone_on_with_does_not_count(tmp_path):
    save_scores(tmp_path, [3, 5, 9])
    (tmp_path / f'{3:012d}' / TENSORS).unlink()
    saver, variables = make(tmp_path)
    assert saver.restore(warn=str) == 2
    assert saver.best == (2, 5)
    fill(variables, 3)
    saver.save(3, 4.0)
    assert best(tmp_path) == ((2, 5), [])


@pytest.mark.parametrize('score', ['NaN', '1e999', '10', '"10"', 'true', '[10.0]', '{}', '-1e400'])
def test_score_of_a_stranger_that_is_none(tmp_path, score):
    save_scores(tmp_path, [3.0, 9.25])
    manifest = tmp_path / f'{2:012d}' / MANIFEST
    manifest.write_text(manifest.read_text().replace('9.25', score))
    found, (said,) = best(tmp_path)
    assert found == (1, 3) and 'does not tell its score' in said
    step, (said,) = restore(tmp_path)
    assert step == 1 and 'is not whole' in said


# Failures and death while saving


def test_leftover_of_a_later_step(tmp_path):
    save(tmp_path, 1, 2)
    before = files(tmp_path)
    shutil.copytree(tmp_path / f'{2:012d}', tmp_path / f'.{3:012d}.1234')
    (tmp_path / f'.{4:012d}.1234').mkdir()
    assert restore(tmp_path) == (2, [])
    clear_up(tmp_path)
    assert files(tmp_path) == before
    assert len(os.listdir(tmp_path)) == 2


def test_leftover_of_a_process_with_the_same_number(tmp_path):
    save(tmp_path, 1)
    leftover = tmp_path / f'.{2:012d}.{os.getpid()}'
    shutil.copytree(tmp_path / f'{1:012d}', leftover)
    (leftover / 'more').write_text('cut sho')
    save(tmp_path, 2)
    assert restore(tmp_path) == (2, [])
    assert set(files(tmp_path / f'{2:012d}')) == set(FILES)
    assert not leftover.exists()


@pytest.fixture
def impatient(monkeypatch):
    """Shortens the pauses after which a save is tried again."""
    monkeypatch.setattr(saver_module, 'PAUSE_SECONDS', 0.01)


@contextlib.contextmanager
def without_rights():
    """The rights of a plain user, as the root user may do anything."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.mark.usefixtures('impatient')
def test_read_only_directory():
    with tempfile.TemporaryDirectory() as parent:
        os.chmod(parent, 0o755)
        directory = os.path.join(parent, 'checkpoints')
        saver = save(directory, 1)
        _, variables = make(directory)
        os.chmod(directory, 0o555)
        try:
            with without_rights(), pytest.raises(UserError, match='cannot be written.*denied'):
                saver.save(2)
            with without_rights():
                assert Saver(directory, variables).restore() == 1
        finally:
            os.chmod(directory, 0o755)
        assert holds(variables, 1)
        assert os.listdir(directory) == [f'{1:012d}']


@pytest.mark.usefixtures('impatient')
def test_directory_that_cannot_be_made(tmp_path):
    (tmp_path / 'file').write_text('')
    with pytest.raises(UserError, match='cannot be written'):
        save(tmp_path / 'file' / 'checkpoints', 1)


@contextlib.contextmanager
def files_of_at_most(size):
    """Writing beyond fails as it does on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures('impatient')
@pytest.mark.parametrize('name', FILES)
def test_full_disk(tmp_path, name):
    saver = save(tmp_path, 1)
    before = files(tmp_path)
    size = len(before[f'{1:012d}/{name}'])
    with (
        pytest.raises(UserError, match='000000000002 cannot be written'),
        files_of_at_most(size - 1),
    ):
        saver.save(2)
    assert files(tmp_path) == before
    saver.save(2)
    assert saver.steps() == [1, 2]


def test_full_disk_on_which_there_is_room_again(tmp_path):
    saver = save(tmp_path, 1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    timer = threading.Timer(PAUSE_SECONDS / 2, resource.setrlimit, [resource.RLIMIT_FSIZE, limits])
    with files_of_at_most(1):
        timer.start()
        saver.save(2)
        timer.join()
    assert saver.steps() == [1, 2]


# Saves all the time until it is killed, over and over. A child says on a pipe
# which step it has restored, and then each that it has saved. Children are
# forked before TensorFlow has done anything, to import it only once.
SAVE_UNTIL_KILLED = """
import os, random, signal, struct, sys, time
from agents.tools.graph.backend import tf
from agents.tools.runs.saver import Saver

def save_forever(directory, pipe):
    variables = {
        name: tf.Variable(tf.zeros([size], tf.int64))
        for name, size in (('large', 20_000), ('small', 1))
    }
    saver = Saver(directory, variables, keep=2)
    step = saver.restore() or 0
    # Every tenth is better than all before; half of them are held first.
    best = max(step // 10 * 10, 1)
    assert saver.best == ((best, best) if step else None)
    while True:
        for variable in variables.values():
            assert (variable.numpy() == step).all()
        os.write(pipe, struct.pack('q', step))
        for step in range(step + 1, step + (2 if step % 20 == 9 else 1) + 1):
            value = tf.cast(step, tf.int64)
            for variable in variables.values():
                variable.assign(tf.fill(variable.shape, value))
            if step % 20 == 10:
                saver.hold(step, float(step))
        saver.save(step, float(1 if step % 10 else step))

def read(pipe):
    return struct.unpack('q', os.read(pipe, 8))[0]

saved = left = rounds = 0
# Until enough are killed, some of them after a save and some within.
while rounds < int(sys.argv[2]) or (not (saved and left) and rounds < 100):
    rounds += 1
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        try:
            save_forever(sys.argv[1], theirs)
        finally:
            os._exit(1)
    os.close(theirs)
    restored = read(ours)
    # On a busy machine a save takes long.
    time.sleep(random.uniform(0.0, 0.1 + 0.01 * rounds))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    left += sum(name.startswith('.') for name in os.listdir(sys.argv[1]))
    steps = [restored]
    while data := os.read(ours, 8):
        steps.append(struct.unpack('q', data)[0])
    os.close(ours)
    # What was said to be saved is there, or what came right after it, or the
    # one that was held before that.
    assert saved <= restored <= saved + 1 + (saved % 20 == 9), (restored, saved)
    saved = steps[-1]
print(saved, left)
"""


def test_killed_at_any_moment_of_a_save(nothing_left, tmp_path, run_python):
    result = run_python('-c', SAVE_UNTIL_KILLED, tmp_path, 4)
    assert result.code == 0, result.problems
    saved, left = map(int, result.output.split())
    assert saved > 0
    assert left > 0  # Some were killed in the middle.
    variables = {
        name: tf.Variable(tf.zeros([size], tf.int64))
        for name, size in (('large', 20_000), ('small', 1))
    }
    saver = Saver(tmp_path, variables, keep=2)
    said = []
    step = saver.restore(warn=said.append)
    assert saved <= step <= saved + 2 and not said
    assert holds(variables, step)
    saver.save(step + 1)
    best = max(step // 10 * 10, 1)
    assert saver.steps() == sorted({best, step, step + 1})
