"""Results can be read from progress.csv and by TensorBoard."""

import contextlib
import csv
import math
import re
import resource

import numpy as np
import pytest
from tensorboard.backend.event_processing import event_accumulator

from agents.tools import Loop, UserError
from agents.tools.errors import WriteError
from agents.tools.graph.backend import tf
from agents.tools.runs.loop import Evaluation, Report, Training
from agents.tools.runs.progress import COLUMNS
from agents.tools.runs.records import Records
from agents.tools.runs.saver import Saver


def make_report(step, phase='train', score=1.5, **metrics):
    nothing = math.isnan(score)
    spread = [math.nan] * 3 if nothing else [0.5, score - 1, score + 2]
    return Report(phase, step, score, *spread, 20.0, 3, 0.25, 1e5 / 3, metrics)


def write(directory, *reports, resumed_at=0):
    with contextlib.closing(Records(directory, resumed_at)) as records:
        for report in reports:
            records.report(report)


def read(directory):
    with open(directory / 'progress.csv', newline='') as file:
        return list(csv.DictReader(file))


def steps(directory):
    return [int(row['step']) for row in read(directory)]


def events(directory):
    """Numbers `{name: [(step, value)]}` as TensorBoard reads them."""
    found = event_accumulator.EventAccumulator(str(directory))
    found.Reload()
    tensors = {
        name: [(event.step, event.value) for event in found.Scalars(name)]
        for name in found.Tags()['scalars']
    }
    for name in found.Tags()['tensors']:
        tensors[name] = [
            (event.step, tf.make_ndarray(event.tensor_proto)) for event in found.Tensors(name)
        ]
    return tensors


def test_columns(tmp_path):
    write(tmp_path, make_report(100, loss=0.125, kl=1e-9))
    lines = (tmp_path / 'progress.csv').read_text().splitlines()
    assert lines == [
        'step,phase,score,score_std,score_min,score_max,length,episodes,'
        'seconds,steps_per_second,loss,kl',
        '100,train,1.5,0.5,0.5,3.5,20,3,0.25,33333.3,0.125,1e-09',
    ]
    assert lines[0].startswith(','.join(COLUMNS))


def test_what_is_not_known_is_empty(tmp_path):
    write(
        tmp_path, make_report(100, score=math.nan, loss=0.5), make_report(100, 'eval', score=-2.0)
    )
    train, evaluation = read(tmp_path)
    assert train['score'] == '' and train['loss'] == '0.5'
    assert evaluation['score'] == '-2' and evaluation['loss'] == ''
    spread = 'score_std', 'score_min', 'score_max'
    assert [train[name] for name in spread] == ['', '', '']
    assert [evaluation[name] for name in spread] == ['0.5', '-3', '0']


def test_rows_are_there_at_once(tmp_path):
    records = Records(tmp_path)
    records.report(make_report(1))
    assert steps(tmp_path) == [1]
    assert events(tmp_path / 'train')['rollout/score'] == [(1, 1.5)]
    records.report(make_report(2))
    assert steps(tmp_path) == [1, 2]
    records.close()


def test_resume_drops_rows_later_than_the_checkpoint(tmp_path):
    reports = [
        make_report(step, phase, loss=float(step))
        for step in (100, 200, 300)
        for phase in ('train', 'eval')
    ]
    write(tmp_path, *reports)
    write(tmp_path, make_report(300, loss=7.0), resumed_at=200)
    assert steps(tmp_path) == [100, 100, 200, 200, 300]
    assert [row['loss'] for row in read(tmp_path)][-2:] == ['200', '7']


def test_resume_keeps_the_columns(tmp_path):
    write(tmp_path, make_report(100, loss=1.0, kl=2.0))
    write(tmp_path, make_report(200, kl=4.0, loss=3.0, new=9.0), resumed_at=100)
    assert [(row['loss'], row['kl']) for row in read(tmp_path)] == [
        ('1', '2'), ('3', '4')
    ]  # fmt: skip


def test_resume_of_an_older_table_adds_its_new_columns_at_the_end(tmp_path):
    (tmp_path / 'progress.csv').write_text(
        'step,phase,score,length,episodes,seconds,steps_per_second,loss\r\n'
        '100,train,7,20,3,0.25,1000,0.5\r\n'
        '200,train,8,20,3,0.25,1000,0.5\r\n'
    )
    write(tmp_path, make_report(200, loss=0.25), resumed_at=100)
    assert (tmp_path / 'progress.csv').read_text().splitlines() == [
        'step,phase,score,length,episodes,seconds,steps_per_second,loss,'
        'score_std,score_min,score_max',
        '100,train,7,20,3,0.25,1000,0.5,,,',
        '200,train,1.5,20,3,0.25,33333.3,0.25,0.5,0.5,3.5',
    ]
    # What is resumed once more stays as it is.
    before = (tmp_path / 'progress.csv').read_bytes()
    write(tmp_path, resumed_at=200)
    assert (tmp_path / 'progress.csv').read_bytes() == before


def test_resume_with_further_columns(tmp_path):
    write(tmp_path, make_report(100, loss=0.5))
    report = make_report(200, **{'info/x': 3.0, 'loss': 0.25})
    records = Records(tmp_path, 100, ['info/x'])
    with contextlib.closing(records):
        records.report(report)
    cells = [(row['loss'], row['info/x']) for row in read(tmp_path)]
    assert cells == [('0.5', ''), ('0.25', '3')]


def test_resume_from_the_start_keeps_no_rows(tmp_path):
    write(tmp_path, make_report(100), make_report(200))
    write(tmp_path, make_report(100), resumed_at=0)
    assert steps(tmp_path) == [100]


@pytest.mark.parametrize('text', ['', 'step,phase', f'{",".join(COLUMNS)}\n\n'])
def test_resume_with_a_file_that_was_hardly_begun(tmp_path, text):
    (tmp_path / 'progress.csv').write_text(text)
    write(tmp_path, make_report(100), resumed_at=50)
    assert steps(tmp_path) == [100]


@pytest.mark.parametrize('kept', [1, 5, 12])
def test_resume_drops_a_row_that_was_cut_short(tmp_path, kept):
    write(tmp_path, make_report(100), make_report(2000))
    path = tmp_path / 'progress.csv'
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(''.join([*lines[:2], lines[2][:kept]]))
    write(tmp_path, make_report(2000), resumed_at=1000)
    assert steps(tmp_path) == [100, 2000]


def test_resume_with_what_is_no_table(tmp_path):
    for text in (b'\xff\xfe\n', b'step,phase,score\n' + b'9' * 400 + b',a,1\n'):
        (tmp_path / 'progress.csv').write_bytes(text)
        with pytest.raises(UserError, match=r'Cannot read line \d of .*csv'):
            write(tmp_path, make_report(100), resumed_at=50)
        assert (tmp_path / 'progress.csv').read_bytes() == text
        assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize('place', ['train', 'train/events.out.tfevents.1'])
def test_events_are_not_written_through_links(tmp_path, place):
    run, victim = tmp_path / 'run', tmp_path / 'victim'
    (run / place).parent.mkdir(parents=True)
    victim.mkdir()
    (run / place).symlink_to(victim)
    with pytest.raises(UserError, match='is a symbolic link'):
        write(run, make_report(100))
    assert not list(victim.iterdir())


def test_rows_are_not_written_through_links(tmp_path):
    victim, link = tmp_path / 'victim', tmp_path / 'run' / 'progress.csv'
    victim.write_text('step,phase,score\n1,train,2\n')
    link.parent.mkdir()
    for target in (victim, tmp_path / 'nowhere'):
        link.symlink_to(target)
        with pytest.raises(UserError, match='It is a symbolic link'):
            write(link.parent, make_report(100))
        link.unlink()
    assert victim.read_text() == 'step,phase,score\n1,train,2\n'
    assert not (tmp_path / 'nowhere').exists()


def test_events(tmp_path):
    write(
        tmp_path,
        make_report(100, loss=0.5),
        make_report(200, score=math.nan, loss=0.25),
        make_report(200, 'eval', score=-3.0),
    )
    train = events(tmp_path / 'train')
    episodes = [f'rollout/{name}' for name in COLUMNS[2:8]]
    times = [f'time/{prefix}{n}' for n in COLUMNS[8:] for prefix in ('', 'eval_')]
    evaluation = ['eval/length', 'eval/episodes']
    assert sorted(train) == sorted([*episodes, *times, *evaluation, 'train/loss'])
    assert train['train/loss'] == [(100, 0.5), (200, 0.25)]
    assert train['rollout/score'] == [(100, 1.5)]
    assert train['rollout/episodes'] == [(100, 3), (200, 3)]
    assert train['rollout/score_std'] == [(100, 0.5)]
    assert train['rollout/score_min'] == [(100, 0.5)]
    assert train['rollout/score_max'] == [(100, 3.5)]
    scores = events(tmp_path / 'eval')
    assert [*scores] == [f'eval/{name}' for name in COLUMNS[2:6]]
    assert scores['eval/score'] == [(200, -3.0)]


def test_events_of_a_resumed_run_go_on(tmp_path):
    write(tmp_path, make_report(100))
    write(tmp_path, make_report(200, score=2.0), resumed_at=100)
    assert events(tmp_path / 'train')['rollout/score'] == [(100, 1.5), (200, 2.0)]


def test_histograms(tmp_path):
    with contextlib.closing(Records(tmp_path)) as records:
        records.summarize(50, {'action': tf.constant([1.0, 1.0, 4.0])})
    ((step, buckets),) = events(tmp_path / 'train')['histograms/action']
    # Rows of a bucket's left edge, right edge and number of values.
    assert step == 50
    assert buckets[0, 0] == 1 and buckets[-1, 1] == 4
    assert buckets[0, 2] == 2 and buckets[-1, 2] == 1
    assert np.sum(buckets[:, 2]) == 3


@pytest.mark.filterwarnings('error')
def test_histograms_of_anything(tmp_path):
    tensors = {
        'nothing': tf.zeros(0),
        'flags': tf.constant([[True], [False]]),
        'not finite': tf.constant([1.0, math.nan, -math.inf]),
        'huge': tf.constant([-3e38, 3e38]),
        'one': tf.constant(5),
    }
    with (
        np.errstate(all='raise'),  # As an environment may set it.
        contextlib.closing(Records(tmp_path)) as records,
    ):
        records.summarize(50, tensors)
    found = events(tmp_path / 'train')
    assert set(found) == {f'histograms/{name}' for name in tensors}
    ((_, buckets),) = found['histograms/flags']
    assert buckets[0, 2] == buckets[-1, 2] == 1
    ((_, buckets),) = found['histograms/one']
    assert buckets[-1].tolist() == [5, 5, 1]


def test_histograms_are_those_of_tensorflow(tmp_path):
    values = tf.random.stateless_normal([100, 7], [1, 2])
    with contextlib.closing(Records(tmp_path / 'ours')) as records:
        records.summarize(50, {'values': values})
    writer = tf.summary.create_file_writer(str(tmp_path / 'theirs'))
    with contextlib.closing(writer), writer.as_default(50):
        tf.summary.histogram('values', values)
    ((step, ours),) = events(tmp_path / 'ours' / 'train')['histograms/values']
    ((_, theirs),) = events(tmp_path / 'theirs')['values']
    assert step == 50
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_nothing_is_written_after_close(tmp_path):
    records = Records(tmp_path)
    records.report(make_report(100))
    records.close()
    before = files(tmp_path)
    with pytest.raises(RuntimeError, match='already closed'):
        records.summarize(200, {'action': tf.zeros(3)})
    records.close()
    assert files(tmp_path) == before


def files(directory):
    return {path: path.read_bytes() for path in directory.rglob('*.*')}


@contextlib.contextmanager
def files_of_at_most(size):
    """No file may grow beyond some bytes, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_full_disk_is_one_error(tmp_path):
    with contextlib.closing(Records(tmp_path)) as records:
        records.report(make_report(100))
        size = (tmp_path / 'progress.csv').stat().st_size
        with (
            pytest.raises(WriteError, match='Cannot write to .*csv: File too'),
            files_of_at_most(size),
        ):
            records.report(make_report(200))


def test_full_disk_for_events_is_one_error(tmp_path):
    with contextlib.closing(Records(tmp_path)) as records:
        records.report(make_report(100))
        (file,) = (tmp_path / 'train').iterdir()
        with pytest.raises(WriteError) as info, files_of_at_most(file.stat().st_size):
            records.report(make_report(200))
    assert re.fullmatch(
        r'The results in \S+ cannot be written: \S+tfevents\S+; File too '
        r'large\.',
        str(info.value),
    )


def run(directory, max_step, scores):
    """A loop with its checkpoints and records, as a training has it."""
    results = iter(scores)
    ones = dict.fromkeys(COLUMNS[2:8], 1)
    loop = Loop(
        Training(lambda _: {**ones, 'score': next(results)}, 1, max_step),
        Evaluation(lambda: ones, 1, checkpoint_every=2),
    )
    saver = Saver(directory / 'checkpoints', {'step': loop.step})
    saver.restore()
    with contextlib.closing(Records(directory, loop.clock())) as records:
        loop.records = records
        list(loop.run(saver))


def test_loop_that_is_resumed(tmp_path):
    # step        1   2   3 | 3   4   5
    # checkpoint      ^     |     ^
    # score       2   1   0 | 7   8   9
    run(tmp_path, 3, [2, 1, 0])
    assert steps(tmp_path) == [1, 1, 2, 2, 3, 3]
    run(tmp_path, 5, [7, 8, 9])
    rows = [row for row in read(tmp_path) if row['phase'] == 'train']
    assert [row['step'] for row in rows] == ['1', '2', '3', '4', '5']
    assert [row['score'] for row in rows] == ['2', '1', '7', '8', '9']
