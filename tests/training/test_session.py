"""Training as a library: scores, what it writes, and how it is resumed.

The command line is in `test_train_command.py`. What would be compiled runs
eagerly here, which is the same program in a fraction of the time.
"""

import csv
import gc
import itertools
import re
import shutil
import signal

import gymnasium as gym
import numpy as np
import psutil
import pytest
from tensorboard.backend.event_processing import event_accumulator

from agents.config import store
from agents.terminal import interrupts
from agents.terminal.console import Console
from agents.tools import errors
from agents.tools.batch import mock_environment
from agents.tools.graph.backend import tf
from agents.tools.runs import progress, saver
from agents.tools.workers import launch
from agents.training import env_setup, networks, run_directory, storage
from agents.training.reporter import Reporter
from agents.training.session import Session
from agents.training.train import train

pytestmark = pytest.mark.usefixtures('eagerly')


@pytest.fixture
def run(tiny_run, tmp_path):
    """A copy of a complete run of `tiny()`, to be changed."""
    return shutil.copytree(tiny_run, tmp_path / 'run')


def rows(directory):
    with open(directory / 'progress.csv', newline='') as file:
        return list(csv.DictReader(file))


def files(directory):
    found = {path: path.read_bytes() for path in directory.rglob('*.*')}
    return {path: data for path, data in found.items() if path.is_file()}


def steps(directory):
    return [(row['phase'], int(row['step'])) for row in rows(directory)]


def listener():
    """A reporter, and the list that it fills with what it is told."""
    told = []

    class Listener(Console):
        def say(self, topic, text):
            told.append(f'{topic} {text}')

    return Reporter(Listener(None)), told


def test_scores_are_floats_with_a_report(nothing_left, tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scores = list(train(tiny()))
    assert all(isinstance(score, float) for score in scores)
    assert [float(score) for score in scores] == [score.report.score for score in scores]
    reports = [score.report for score in scores]
    assert [(report.phase, report.step) for report in reports] == [
        ('train', 20), ('eval', 20), ('train', 40), ('eval', 40),
    ]  # fmt: skip
    # Episodes of CartPole have a reward of 1 for each of at most 10 steps.
    assert all(0 < report.score <= 10 for report in reports)
    assert all(report.score == report.length for report in reports)
    assert [report.episodes for report in reports[1::2]] == [2, 2]
    assert reports[0].metrics['update_seconds'] > 0
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_when_closed_early(nothing_left, tiny, tmp_path):
    scores = train(tiny(), tmp_path)
    next(scores)
    scores.close()
    assert storage.last_checkpoint(tmp_path) == 20
    with run_directory.locked(tmp_path):
        pass


def test_run_directory(tiny, tiny_run, checkpoint):
    assert {path.name for path in tiny_run.iterdir()} == {
        'config.yaml', 'spaces.bin', 'checkpoints', 'progress.csv', 'train',
        'eval', 'lock',
    }  # fmt: skip
    assert store.load_config(tiny_run) == tiny()
    observ_space, action_space = storage.load_spaces(tiny_run)
    assert (observ_space.shape, action_space.n) == ((4,), 2)
    names = sorted(path.name for path in (tiny_run / 'checkpoints').iterdir())
    assert names == ['000000000020', '000000000040']
    assert checkpoint(tiny_run)['step'] == 2 * 40 + 1
    assert checkpoint(tiny_run)['algo/collector/rollouts'] == 4


def test_progress_and_events_say_what_scores_say(tiny, tmp_path):
    scores = list(train(tiny(), tmp_path, env_processes=False))
    table = rows(tmp_path)
    assert list(table[0])[:10] == [
        'step', 'phase', 'score', 'score_std', 'score_min', 'score_max',
        'length', 'episodes', 'seconds', 'steps_per_second',
    ] == list(progress.COLUMNS)  # fmt: skip
    metrics = scores[0].report.metrics
    assert list(table[0])[10:] == list(metrics)
    assert {'policy_loss', 'value_loss', 'kl', 'entropy'} <= set(metrics)
    assert steps(tmp_path) == [(score.report.phase, score.report.step) for score in scores]
    for row, score in zip(table, scores, strict=True):
        for name in ('score', 'score_std', 'score_min', 'score_max'):
            told = getattr(score.report, name)
            assert float(row[name]) == pytest.approx(told, rel=1e-5)
    for phase, tag in (('train', 'rollout/score'), ('eval', 'eval/score')):
        reports = [s.report for s in scores if s.report.phase == phase]
        values = [(event.step, event.value) for event in events(tmp_path / phase).Scalars(tag)]
        assert values == [(r.step, pytest.approx(r.score)) for r in reports]


def events(directory):
    found = event_accumulator.EventAccumulator(str(directory))
    return found.Reload()


def test_no_tag_is_used_by_two_kinds(tiny_run):
    tags = events(tiny_run / 'train').Tags()
    scalars, others = {*tags['scalars']}, {*tags['tensors']}
    assert {'train/kl', 'train/entropy', 'train/policy_loss'} <= scalars
    assert {'rollout/score', 'rollout/length', 'eval/length'} <= scalars
    assert {'time/seconds', 'time/steps_per_second'} <= scalars
    assert {'histograms/entropy', 'config'} <= others
    assert not scalars & others
    groups = {tag.partition('/')[0] for tag in scalars}
    assert groups == {'rollout', 'train', 'eval', 'time'}
    assert {*events(tiny_run / 'eval').Tags()['scalars']} == {
        'eval/score', 'eval/score_std', 'eval/score_min', 'eval/score_max'
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.usefixtures('eagerly')
def test_there_are_rows_between_evaluations(tiny, tmp_path):
    train(tiny(log_every=None), tmp_path, env_processes=False).run()
    found = [(row['phase'], int(row['step'])) for row in rows(tmp_path)]
    assert found == [
        ('train', 10), ('train', 20), ('eval', 20),
        ('train', 30), ('train', 40), ('eval', 40),
    ]  # fmt: skip


@pytest.mark.slow
def test_histograms_are_of_the_training(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr('agents.training.phases.REPORTING_SHARE', 1.0)
    for _ in train(tiny(), tmp_path, env_processes=False):
        pass
    found = events(tmp_path / 'train')
    kinds = {
        name: found.SummaryMetadata(name).plugin_data.plugin_name
        for name in found.Tags()['tensors']
    }
    for name in ('action', 'reward', 'weights/policy', 'gradients/value'):
        assert kinds[f'histograms/{name}'] == 'histograms'
    # Twice per phase of 20 steps, and rows of (from, to, how many).
    weights = found.Tensors('histograms/weights/policy')
    assert [event.step for event in weights] == [10, 20, 30, 40]
    # A layer of 4 → 4 and one of 4 → 2.
    table = tf.make_ndarray(weights[0].tensor_proto)
    assert table[:, 2].sum() == (4 * 4 + 4) + (4 * 2 + 2)


@pytest.mark.slow
def test_what_is_left_out_changes_no_weight(tiny, tmp_path, checkpoint, monkeypatch):
    final, best, config = [], [], tiny(steps=80)
    # Of four checkpoints the first two are written, after which the next one
    # would have to wait for a minute, and the one at the end.
    for share, steps in ((1.0, [20, 40, 60, 80]), (1e-9, [20, 40, 80])):
        monkeypatch.setattr('agents.training.phases.REPORTING_SHARE', share)
        directory = tmp_path / f'{share}'
        for _ in train(config, directory, env_processes=False):
            pass
        saved = (directory / 'checkpoints').iterdir()
        found = sorted(int(path.name) for path in saved)
        # And the best, which is the same one whether it was held or not.
        best.append(storage.find_checkpoint(directory, 'best'))
        assert found == sorted({*steps, best[0]})
        assert len(rows(directory)) == 2 * 4
        final.append(checkpoint(directory, 80))
    assert best[0] == best[1]
    assert final[0].keys() == final[1].keys()
    for name in final[0]:
        np.testing.assert_array_equal(final[0][name], final[1][name], name)


def test_resume_restores_everything(tiny, tmp_path, checkpoint, monkeypatch):
    scores = train(tiny(), tmp_path, env_processes=False)
    assert next(scores).report.step == 20
    scores.close()
    before, seen = checkpoint(tmp_path), {}
    define_saver = storage.define_saver

    def remember(variables, *args, **kwargs):
        seen.update(variables)
        return define_saver(variables, *args, **kwargs)

    monkeypatch.setattr(storage, 'define_saver', remember)
    reporter, told = listener()
    at_resume = {}

    def say(topic, text):
        told.append(f'{topic} {text}')
        if 'resumed' in text:
            at_resume.update({n: v.numpy() for n, v in seen.items()})

    reporter.say = say
    rest = list(Session(tiny(), tmp_path, env_processes=False, reporter=reporter).scores())
    assert 'train resumed at step 20; tracing and compiling' in told
    assert before['step'] == 2 * 20 and before['algo/collector/rollouts'] == 2
    assert before['policy/normalizer/observ/count'] == 20
    # Environments are not saved, and so the scores of episodes begin anew.
    for name in before.keys() - {'scores/running'}:
        np.testing.assert_array_equal(at_resume[name], before[name], name)
    assert [score.report.phase for score in rest] == ['eval', 'train', 'eval']
    assert checkpoint(tmp_path)['algo/collector/rollouts'] == 4


@pytest.mark.slow
def test_curves_go_on_without_going_back(tiny, tmp_path):
    scores = train(tiny(steps=80), tmp_path, env_processes=False)
    for _ in itertools.islice(scores, 3):
        pass
    scores.close()
    until_then = rows(tmp_path)
    for _ in train(tiny(steps=80), tmp_path, env_processes=False):
        pass
    assert rows(tmp_path)[: len(until_then)] == until_then
    assert steps(tmp_path) == [(phase, step) for step in (20, 40, 60, 80) for phase in PHASES]
    for phase, tag in (('train', 'rollout/score'), ('eval', 'eval/score')):
        scalars = events(tmp_path / phase).Scalars(tag)
        assert [event.step for event in scalars] == [20, 40, 60, 80]


PHASES = 'train', 'eval'


@pytest.mark.slow
def test_resumed_run_goes_through_other_episodes(tiny, tmp_path):
    # A policy that never changes, so that equal episodes have equal scores.
    still = {'learning_rate': 1e-30, 'normalize_observ': False}
    config = tiny(env='Pendulum-v1', steps=20, **still)
    first = list(train(config, tmp_path, env_processes=False))
    again = list(train(config, env_processes=False))
    assert [float(score) for score in first] == [float(s) for s in again]
    longer = config.copy(steps=40)
    resumed = list(train(longer, tmp_path, env_processes=False))
    assert [score.report.step for score in resumed] == [40, 40]
    assert float(resumed[1]) != float(first[1])


def test_complete_run_stays_as_it_is(tiny, run):
    before = files(run)
    assert not list(train(tiny(), run, env_processes=False))
    assert files(run) == before


@pytest.mark.slow
def test_complete_run_that_was_renamed_is_signed_anew(tiny, tmp_path):
    file = tmp_path / 'mine.py'
    file.write_text('def callback(report):\n    return None\n')
    config = tiny(callbacks=[f'{file}:callback'])
    train(config, tmp_path / 'run', env_processes=False).run()
    run = (tmp_path / 'run').rename(tmp_path / 'renamed')
    assert store.read(run).doubt
    train(config.copy(seed=5), run, env_processes=False).run()
    assert store.read(run).doubt  # As another seed was not used.
    train(config, run, env_processes=False).run()
    assert not store.read(run).doubt


@pytest.mark.parametrize(
    'changes',
    [
        {'eval_episodes': 3, 'eval_every': 40},
        pytest.param({'eval_episodes': 1}, marks=pytest.mark.slow),
        pytest.param({'eval_episodes': 3}, marks=pytest.mark.slow),
    ],
)
def test_resumed_run_goes_on_at_its_step_with_other_phases(tiny, run, changes):
    reporter, told = listener()
    config = tiny(steps=80, **changes)
    reports = [s.report for s in Session(config, run, False, reporter=reporter).scores()]
    assert 'train resumed at step 40; tracing and compiling' in told
    assert [(report.phase, report.step) for report in reports] == [
        (phase, step)
        for step in range(40 + config.eval_every, 81, config.eval_every)
        for phase in PHASES
    ]


RECURRENT = {'network': 'recurrent', 'recurrent_units': 2}


@pytest.mark.slow
@pytest.mark.parametrize(
    'changes', [{'env': 'native:CartPole-v1'}, RECURRENT], ids=['native', 'recurrent']
)
def test_resumes_with_another_number_of_agents(tiny, tmp_path, checkpoint, monkeypatch, changes):
    config = tiny(learning_rate_schedule='linear', **changes)
    for _ in train(config, tmp_path, env_processes=False):
        pass
    before, after = checkpoint(tmp_path), {}
    restore = saver.Saver.restore

    def remember(self, *args, **kwargs):
        step = restore(self, *args, **kwargs)
        after.update({n: v.numpy() for n, v in self._variables.items()})
        return step

    monkeypatch.setattr(saver.Saver, 'restore', remember)
    reporter, told = listener()
    config = config.copy(num_agents=4, eval_episodes=3, steps=80)
    scores = list(Session(config, tmp_path, env_processes=False, reporter=reporter).scores())
    reports = [score.report for score in scores if score.report.phase == 'eval']
    assert [report.step for report in reports] == [60, 80]
    assert [report.episodes for report in reports] == [3, 3]
    final = checkpoint(tmp_path)
    assert final['algo/collector/rollouts'] == 80 // 20
    assert final['scores/running'].shape == (3, 4)
    rates = [
        score.report.metrics['learning_rate'] for score in scores if score.report.phase == 'train'
    ]
    expected = [3e-4 * (1 - step / 80) for step in (40, 60)]
    assert rates == pytest.approx(expected)
    same = {n for n in before if before[n].shape == after[n].shape}
    assert {n.rpartition('/')[2] for n in before.keys() - same}.isdisjoint(
        {'0-kernel', 'mean', 'square', 'squares', 'count'}
    )
    for name in same:
        np.testing.assert_array_equal(after[name], before[name], name)
    line = 'checkpoint was saved with num_agents=2, and goes on with 4; their '
    assert f'{line}episodes begin anew' in told


@pytest.mark.slow
def test_counts_on_from_within_a_rollout_of_another_size(tiny, run, checkpoint):
    # As if killed after that was changed, before there was a checkpoint.
    text = (run / 'config.yaml').read_text()
    changed = text.replace('num_agents: 2', 'num_agents: 3')
    (run / 'config.yaml').write_text(changed)
    reporter, told = listener()
    config = tiny(num_agents=3, steps=90, eval_every=30)
    scores = list(Session(config, run, env_processes=False, reporter=reporter).scores())
    assert 'train resumed at step 40; tracing and compiling' in told
    assert [(s.report.phase, s.report.step) for s in scores] == [
        ('train', 70), ('eval', 70), ('train', 100), ('eval', 100)
    ]  # fmt: skip
    # 40 steps are counted as 3 rollouts of 15.
    assert checkpoint(run)['algo/collector/rollouts'] == 3 + 4


@pytest.mark.slow
def test_run_that_was_stopped_at_its_last_evaluation_is_completed_once(tiny, tmp_path):
    scores = train(tiny(), tmp_path, env_processes=False)
    for _ in itertools.islice(scores, 3):
        pass
    scores.close()
    for _ in range(2):
        for _ in train(tiny(), tmp_path, env_processes=False):
            pass
    assert steps(tmp_path) == [(p, step) for step in (20, 40) for p in PHASES]


def test_second_run_in_a_directory_is_refused(tiny, tmp_path):
    scores = train(tiny(), tmp_path, env_processes=False)
    next(scores)
    before = files(tmp_path)
    with pytest.raises(errors.ConfigError, match='Another process is training'):
        next(train(tiny(seed=5), tmp_path, env_processes=False))
    assert files(tmp_path) == before
    assert len(list(scores)) == 3


@pytest.mark.slow
def test_how_often_evaluation_runs_changes_no_weight(tiny, tmp_path, checkpoint):
    final = []
    for every, episodes in ((20, 2), (10, 3)):
        directory = tmp_path / f'{every}'
        config = tiny(eval_every=every, eval_episodes=episodes)
        for _ in train(config, directory, env_processes=False):
            pass
        final.append(checkpoint(directory, 40))
    first, second = final
    assert first.keys() == second.keys()
    for name in first.keys() - {'step'}:
        np.testing.assert_array_equal(first[name], second[name], name)


@pytest.mark.slow
def test_workers_change_no_weight(tiny, tmp_path, checkpoint):
    for processes in (False, True):
        for _ in train(tiny(), tmp_path / str(processes), processes):
            pass
    here, there = checkpoint(tmp_path / 'False'), checkpoint(tmp_path / 'True')
    for name in here:
        np.testing.assert_array_equal(here[name], there[name], name)


def test_cancelled_run_is_saved(nothing_left, tiny, tmp_path):
    config = tiny(steps=10_000)
    with interrupts.Interrupts() as signals:
        scores = train(config, tmp_path)
        next(scores)
        signals.cancel()
        with pytest.raises(errors.Cancelled):
            list(scores)
    assert storage.last_checkpoint(tmp_path) == 20


@pytest.mark.slow
def test_cancelled_native_run_is_saved(tiny, tmp_path):
    config = tiny(env='native:CartPole-v1')
    with interrupts.Interrupts() as signals:
        scores = train(config, tmp_path)
        next(scores)
        signals.cancel()
        with pytest.raises(errors.Cancelled):
            list(scores)
    assert storage.last_checkpoint(tmp_path) == 20


@pytest.fixture
def fragile():
    """A function that makes an environment which raises in a certain step."""

    def make(last):
        class Fragile(gym.Wrapper):  # In here, so that it is sent by value.
            left = last

            def step(self, action):
                self.left -= 1
                if not self.left:
                    raise ArithmeticError('It broke.')
                return self.env.step(action)

        return Fragile(gym.make('Pendulum-v1'))

    return make


@pytest.mark.parametrize('env_processes', [False, pytest.param(True, marks=pytest.mark.slow)])
def test_what_was_learnt_before_an_error_is_saved(
    nothing_left, tiny, tmp_path, fragile, env_processes
):
    config = tiny(env=fragile, env_kwargs={'last': 14})
    scores = train(config, tmp_path, env_processes)
    # The third of the rollouts of 5 steps is not completed.
    assert next(scores).report.step == 20
    with pytest.raises(errors.EnvError) as info:
        list(scores)
    # All of them do, and any may be the first.
    assert re.match(r'Environment \d raised an error in step', str(info.value))
    assert 'ArithmeticError: It broke.' in str(info.value)
    assert storage.last_checkpoint(tmp_path) == 20


@pytest.mark.slow
def test_killed_workers_are_started_anew(nothing_left, tiny, tmp_path):
    reporter, told = listener()
    config = tiny(worker_restarts=3)
    scores = Session(config, tmp_path, reporter=reporter).scores()
    counts = [next(scores).report.metrics['restarts']]
    workers = sorted(psutil.Process().children(), key=lambda w: w.pid)
    # Those of the training were started first; it goes on after an evaluation.
    for victim in (workers[0], workers[-1]):
        victim.kill()
        counts.append(next(scores).report.metrics['restarts'])
    counts += [score.report.metrics['restarts'] for score in scores]
    assert counts == [0, 0, 1, 2]
    lines = [line for line in told if 'anew' in line]
    for number, line in enumerate(lines, 1):
        assert re.fullmatch(
            rf'workers a worker is started anew, {number} of 3: The worker '
            r'process \d+ was killed by SIGKILL while environment \d was at '
            r'work\.',
            line,
        )
    assert len(lines) == 2
    assert [row['restarts'] for row in rows(tmp_path)] == ['0', '0', '1', '2']


@pytest.mark.slow
def test_environment_that_goes_on_failing_uses_up_the_restarts(
    nothing_left, tiny, tmp_path, fragile
):
    config = tiny(env=fragile, env_kwargs={'last': 3}, worker_restarts=3)
    with pytest.raises(errors.EnvError) as info:
        list(train(config, tmp_path))
    assert 'ArithmeticError: It broke.' in str(info.value)
    assert 'worker_restarts=3 times already' in str(info.value)


def test_failing_to_save_does_not_hide_what_went_wrong_first(tiny, tmp_path, fragile, monkeypatch):
    monkeypatch.setattr(saver, 'PAUSE_SECONDS', 0.0)
    # So that the first checkpoint is that of the end.
    monkeypatch.setattr(saver.Saver, 'is_better', lambda *_: False)
    reporter, told = listener()
    config = tiny(env=fragile, env_kwargs={'last': 14}, checkpoint_every=9)
    scores = Session(config, tmp_path, env_processes=False, reporter=reporter).scores()
    next(scores)
    (tmp_path / 'checkpoints').write_text('In the way.')
    with pytest.raises(errors.EnvError, match='It broke'):
        list(scores)
    assert told[-1].startswith('checkpoint The checkpoint')
    assert 'cannot be written' in told[-1]


def test_error_at_the_start_leaves_nothing(nothing_left, tiny, tmp_path):
    def make():
        raise ArithmeticError('It never worked.')

    with pytest.raises(errors.EnvError, match='It never worked'):
        next(train(tiny(env=make), tmp_path / 'run'))
    assert not (tmp_path / 'run').exists()


class Unready(gym.Wrapper):
    """Breaks in its first reset or step."""

    def __init__(self, method):
        super().__init__(gym.make('CartPole-v1'))
        self._method = method

    def reset(self, **kwargs):
        assert self._method != 'reset', 'It never worked.'
        return self.env.reset(**kwargs)

    def step(self, action):
        raise ArithmeticError('It never worked.')


@pytest.mark.parametrize('method', ['reset', 'step'])
def test_run_that_never_learnt_leaves_no_directory(tiny, tmp_path, method):
    config = tiny(env=Unready, env_kwargs={'method': method})
    with pytest.raises(errors.EnvError, match='It never worked'):
        next(train(config, tmp_path / 'run', env_processes=False))
    assert not (tmp_path / 'run').exists()


def test_resumed_run_whose_environment_breaks_stays_as_it_is(tiny, run):
    before = files(run)
    config = tiny(env=Unready, env_kwargs={'method': 'step'}, steps=80)
    with pytest.raises(errors.EnvError, match='It never worked'):
        next(train(config, run, env_processes=False))
    assert files(run) == before


def test_run_that_does_not_fit_says_which_setting(tiny, run):
    before = files(run)
    for changes, message in (
        ({'value_layers': [5]}, r'was trained with value_layers=\[4\].*=\[5\]'),
        ({'env': 'Pendulum-v1'}, 'observations of .* Leave env and env_kwargs'),
    ):
        with pytest.raises(errors.ConfigError, match=message) as info:
            next(train(tiny(**changes), run, env_processes=False))
        assert 'algo/' not in str(info.value)
        assert 'policy/' not in str(info.value)
    assert files(run) == before


@pytest.mark.slow
def test_network_of_the_user_that_has_changed_is_named(tiny, tmp_path):
    def make(*args):
        return networks.feed_forward(*args[:-1], args[-1].copy(**sizes))

    sizes = {}
    config = tiny(network=make)
    train(config, tmp_path, env_processes=False).run()
    sizes['policy_layers'] = [5]
    with pytest.raises(errors.ConfigError, match='make> makes net.* network as'):
        train(config, tmp_path, env_processes=False).run()


def test_training_that_nobody_iterates_over_warns(tiny, tmp_path):
    with pytest.warns(UserWarning, match=r'write `agents.train\(...\).run\(\)`'):
        train(tiny(), tmp_path / 'run')
        gc.collect()
    assert not (tmp_path / 'run').exists()


@pytest.mark.slow
def test_training_is_run_to_its_end(tiny, tmp_path):
    training = train(tiny(), tmp_path / 'run', env_processes=False)
    name = f'Training in {str(tmp_path / "run")!r}'
    assert repr(training) == (f'<{name}, not begun: call its run(), or iterate over its scores>')
    next(training)
    assert repr(training) == f'<{name}, begun, step 20>'
    last = training.run()
    assert last.report[:2] == ('eval', 40)
    assert repr(training) == f'<{name}, ended, step 40>'
    assert storage.last_checkpoint(tmp_path / 'run') == 40
    assert training.run() is None
    again = train(tiny(), tmp_path / 'run', env_processes=False)
    assert again.run() is None
    assert 'ended, step 0' in repr(again)
    silent = train(tiny(steps=20), env_processes=False)
    assert repr(silent).startswith('<Training without a logdir, not begun')
    silent.run()


def test_mistake_is_raised_by_the_call(tiny, tmp_path):
    with pytest.raises(errors.ConfigError, match="'clip_range' has to be"):
        train(tiny(clip_range=-1), tmp_path / 'run')
    with pytest.raises(errors.ConfigError, match='There is no environment'):
        train(tiny(env='CartPol-v1'), tmp_path / 'run')
    assert not (tmp_path / 'run').exists()


def test_library_leaves_signals_alone(tiny):
    before = [signal.getsignal(number) for number in interrupts.SIGNALS]
    scores = train(tiny(), env_processes=False)
    next(scores)
    assert [signal.getsignal(n) for n in interrupts.SIGNALS] == before
    signal.set_wakeup_fd(wakeup := signal.set_wakeup_fd(-1))
    assert wakeup == -1
    scores.close()


def test_too_few_descriptors_are_told_before_any_worker_starts(nothing_left, tiny, monkeypatch):
    monkeypatch.setattr(env_setup, 'OTHER_DESCRIPTORS', 10**9)
    monkeypatch.setattr(launch, 'start', None)  # It does not come to that.
    config = tiny(num_agents=3, eval_episodes=4, num_workers=4, batch_size=5)
    with pytest.raises(errors.ConfigError, match='7 workers need'):
        next(train(config))


def test_status_is_told(tiny, tmp_path):
    reporter, told = listener()
    for _ in Session(tiny(), tmp_path, env_processes=True, reporter=reporter).scores():
        pass
    assert told[0] == (
        'plan 2 agents × 5 steps → update of 10 rows; 4 updates = 40 steps; '
        'evaluation of 2 episodes every 20'
    )
    assert told[1] == 'tensorflow importing'
    assert told[2].startswith('workers ')
    assert told[3].startswith('network 4 numbers; policy → ')
    del told[3]
    assert told[3] == 'train from the beginning; tracing and compiling'
    assert told[4].startswith(' compiled in ')
    assert told[5] == 'eval tracing and compiling'
    assert told[6].startswith('train step 20 (50%)  ')
    assert told[7].startswith('train step 40 (100%)  train ')
    assert told[8].startswith('best score ')
    assert len(told) == 9


@pytest.mark.slow
@pytest.mark.usefixtures('eagerly')
def test_episodes_without_limit_are_told_once_and_evaluation_ends_them(tiny, monkeypatch):
    monkeypatch.setattr(env_setup, 'ENDLESS', 15)
    reporter, told = listener()
    config = tiny(
        env=mock_environment.MockEnvironment,
        env_kwargs={'min_duration': 10**6, 'max_duration': 10**6},
        max_length=None,
    )
    scores = list(Session(config, env_processes=False, reporter=reporter).scores())
    lines = [line for line in told if line.startswith('max_length')]
    assert lines == [
        'max_length an episode has lasted 15 steps and was stopped by '
        'evaluation; set max_length to truncate episodes'
    ]
    evaluated = [s.report for s in scores if s.report.phase == 'eval']
    assert [report.length for report in evaluated] == [15, 15]
    assert [report.episodes for report in evaluated] == [2, 2]


def test_complete_run_is_told_how_to_go_on(tiny, run):
    reporter, told = listener()
    assert not list(Session(tiny(), run, False, reporter=reporter).scores())
    assert told[-2] == ('train complete at step 40; --steps=<more> goes on from there')
    assert told[-1].startswith('best score ')
