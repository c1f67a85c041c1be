"""Sweeps: most of trials that only seem to learn, and one of real ones."""

import csv
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import time

import pytest

import agents
from agents.scripts import configs, sweep
from agents.sweeps import run_sweep, search, sweep_plan, trials
from agents.terminal import launcher
from agents.tools import errors
from agents.tools.runs import progress

# Seems to train: its score is a thousandth of the learning rate's inverse, and
# the seed. Beside its directory it notes when it begins and ends.
FAKE = """
import json, os, pathlib, signal, sys, time
run, seed, settings = pathlib.Path(sys.argv[1]), *map(json.loads, sys.argv[2:])
notes = run.parent.parent / 'notes'
def note(text):
    with notes.open('a') as file:
        file.write(f'{text} {run.name}\\n')
note('begin')
for _ in range(3000 if 'policy_layers' in settings else 0):
    if notes.read_text().count('begin') > 1:  # Another runs beside it.
        break
    time.sleep(0.01)
run.mkdir(exist_ok=True)
score = 1e-3 / settings['learning_rate'] + settings.get('discount', 0) + seed
(run / 'progress.csv').write_text(
    'step,phase,score,score_std,seconds\\n'
    f'10,eval,{score / 2},1,1\\n20,eval,{score},1,2\\n'
)
if seed == 7:
    print('error: It broke.', file=sys.stderr)
    sys.exit(1)
if seed == 8:
    os.kill(os.getpid(), signal.SIGKILL)
if seed == 9 or run.name.startswith('001-discount'):
    time.sleep(60)
time.sleep(0.05)
note('end')
"""


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """Lets trials only seem to train; returns what these have noted."""

    def command(self, trial):
        settings = {'learning_rate': 1e-3, **trials.simplify(trial.settings)}
        directory = self._directory / trial.name
        given = [str(trial.seed), json.dumps(settings)]
        return [sys.executable, '-c', FAKE, str(directory), *given]

    monkeypatch.setattr(trials.Runner, '_command', command)
    return lambda: (tmp_path / 'notes').read_text().splitlines()


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_grid_is_tried_with_all_seeds(fake, tmp_path, nothing_left):
    made = agents.sweep(
        'debug',
        [0, 1],
        {'learning_rate': [1e-3, 5e-4], 'policy_layers': '[4],[4, 4]'},
        jobs=2,
        logdir=tmp_path,
    )
    assert made.directory == tmp_path / 'sweep-debug'
    assert [each.state for each in made.trials] == ['finished'] * 8
    labels = [each.group for each in made.summaries]
    assert labels[0] == 'learning_rate=0.0005 policy_layers=[4]'
    assert [each.score for each in made.summaries] == [2.5, 2.5, 1.5, 1.5]
    assert made.best == {'learning_rate': 0.0005, 'policy_layers': [4]}
    runs = [each.name for each in made.trials]
    assert '003-learning_rate=0.0005-policy_layers=4_4-seed=1' in runs
    others = ['curves.png', 'lock', 'logs', 'sweep.yaml']
    others += ['trials.csv', 'trials.json']
    assert names(made.directory) == sorted([*runs, *others])
    count = most = 0
    for line in fake():
        count += 1 if line.startswith('begin') else -1
        most = max(most, count)
    assert most == 2
    with open(made.directory / 'trials.csv') as file:
        rows = list(csv.DictReader(file))
    assert rows[1] == {
        'trial': '000-learning_rate=0.001-policy_layers=4-seed=1',
        'learning_rate': '0.001',
        'policy_layers': '[4]',
        'seed': '1',
        'state': 'finished',
        'score': '2',
        'score_std': '1',
        'best': '2',
        'steps': '20',
        'seconds': '2',
        'reason': '',
    }


def test_steps_and_name_are_those_of_a_training(fake, tmp_path):
    where = f'--logdir={tmp_path}'
    command = ['--config=debug', '--steps=20', '--name=two/short', where]
    assert sweep.main(command) == 0
    directory = tmp_path / 'two' / 'short'
    assert sweep_plan.load(directory)[0].set == ['steps=20']
    assert len(agents.results(tmp_path).runs) == 1


def test_failed_trials_end_no_others_and_are_tried_again(fake, tmp_path, capsys):
    given = ['--config=debug', '--seeds=7..8,1', f'--logdir={tmp_path}']
    assert sweep.main([*given, '--jobs=2', '--name=x']) == 1
    output = capsys.readouterr().out
    assert re.search('failed +debug-seed=7: It broke.\n', output)
    assert re.search('failed +debug-seed=8: killed by SIGKILL; is', output)
    assert re.search('finished +debug-seed=1: score 2.00 after 0:02', output)
    assert re.search('debug +1 +2.00 +2.00 +20 +0:02', output)
    # Once more, but what is finished.
    assert sweep.main([f'--logdir={tmp_path}/x', '--quiet']) == 1
    assert capsys.readouterr() == ('', '')
    begun = [line for line in fake() if line.startswith('begin')]
    assert sorted(begun) == [
        'begin debug-seed=1',
        *['begin debug-seed=7'] * 2,
        *['begin debug-seed=8'] * 2,
    ]


def test_search_finds_what_is_better_and_goes_on(fake, tmp_path):
    space = {'learning_rate': 'log:1e-5..1e-2', 'batch_size': '25,50'}
    made = agents.sweep('debug', search=space, trials=8, jobs=1, logdir=tmp_path)
    assert len(made.trials) == 8
    first = [each.settings['learning_rate'] for each in made.trials]
    assert made.best['learning_rate'] == min(first)
    assert all(1e-5 <= rate <= 1e-2 for rate in first)
    # As if it had been interrupted in the sixth.
    file = made.directory / trials.FILE
    before = json.loads(file.read_text())[:6]
    before[3]['state'], before[4]['state'] = 'failed', 'pruned'
    before[5]['state'] = 'running'
    file.write_text(json.dumps(before))
    again = agents.sweep(logdir=made.directory, jobs=2)
    second = [each.settings['learning_rate'] for each in again.trials]
    assert second[:6] == first[:6] and len({*second}) == 8
    states = [each.state for each in again.trials]
    kept = [*['finished'] * 3, 'failed', 'pruned']
    assert states == [*kept, *['finished'] * 3]
    assert len(fake()) == 2 * (8 + 3)
    before[0]['settings']['learning_rate'] = 2.0
    file.write_text(json.dumps(before))
    with pytest.raises(errors.ConfigError, match='which the plan does not'):
        agents.sweep(logdir=made.directory)


def test_search_gives_up_what_is_worse(fake, tmp_path, monkeypatch):
    monkeypatch.setattr(run_sweep, 'LOOK_SECONDS', 0.1)
    reports = []

    def report(self, *args):
        reports.append(args)
        return args[0] == 1

    monkeypatch.setattr(search.Search, 'report', report)
    space = {'discount': '0..1'}
    made = agents.sweep('debug', [1, 2], search=space, trials=2, jobs=2, logdir=tmp_path)
    states = [each.state for each in made.trials]
    assert states == [*['finished'] * 2, *['pruned'] * 2]
    # The mean over seeds of the first evaluation, once both have it.
    discount = made.trials[2].settings['discount']
    assert [each for each in reports if each[0]] == [
        (1, 0, pytest.approx((1 + discount + 1.5) / 2))
    ]
    assert len(made.summaries) == 1


def test_interrupted_sweep_leaves_no_process(fake, tmp_path, nothing_left, run_python):
    code = f"""
import os, signal, sys, threading, time
from agents.scripts import sweep
from agents.sweeps import trials
trials.Runner._command = lambda self, trial: [
    sys.executable, '-c', {FAKE!r}, str(self._directory / trial.name), '9',
    '{{"learning_rate": 1}}']
def interrupt():
    while not os.path.exists('logdir/x/debug-seed=1/progress.csv'):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=interrupt).start()
sys.exit(sweep.main(
    ['--config=debug', '--seeds=0..3', '--jobs=2', '--name=x']))
"""
    status, output, problems = run_python('-c', code, cwd=tmp_path)
    assert (status, problems) == (128 + signal.SIGTERM, '')
    assert 'agents sweep --logdir=logdir/x goes on' in output
    states = [each.state for each in trials.load(tmp_path / 'logdir' / 'x')]
    assert states == ['running', 'running', 'waiting', 'waiting']


def test_trials_of_a_killed_sweep_are_waited_for(tmp_path, monkeypatch):
    code = f'sleep 0.3; touch {tmp_path}/ended'
    monkeypatch.setattr(trials.Runner, '_command', lambda self, trial: ['sh', '-c', code])
    plan = sweep_plan.Plan('debug', None, None, [], [0], {}, {}, 1)
    sweep_plan.save(plan, tmp_path)
    with trials.alone(tmp_path) as lock:
        runner = trials.Runner(tmp_path, plan, plan.find(), 1, lock)
        runner.start(*trials.make_trials(0, {}, plan))
    with trials.alone(tmp_path):
        assert (tmp_path / 'ended').exists()


def test_run_of_a_trial_is_left_to_the_training(tmp_path, monkeypatch):
    """It may be another process's, or have lost its checkpoints."""
    monkeypatch.setattr(trials.Runner, '_command', lambda self, trial: ['true'])
    plan = sweep_plan.Plan('debug', None, None, [], [0], {}, {}, 1)
    runner = trials.Runner(tmp_path, plan, plan.find(), 1)
    (trial,) = trials.make_trials(0, {}, plan)
    results = tmp_path / trial.name / progress.FILE
    results.parent.mkdir()
    results.touch()
    runner.start(trial)
    runner.stop()
    assert results.exists()


CONFIG = """
import pathlib, sys, time
import gymnasium as gym
from agents import configs

if sys.argv[0].endswith('train.py'):  # A trial, which nothing is compiled for.
    import tensorflow
    tensorflow.config.run_functions_eagerly(True)

WAIT = pathlib.Path(__file__).with_name('wait')

class Waiting(gym.Wrapper):
    count = 0

    def step(self, action):
        self.count += 1
        while self.count > 60 and WAIT.exists():
            time.sleep(0.01)
        return super().step(action)

def make(works):
    if not works:
        raise ArithmeticError('It broke.')
    return Waiting(gym.make('CartPole-v1'))

def mine():
    return configs.debug().copy(
        env=make, max_length=10, update_epochs=1, steps=400, eval_every=200
    )
"""


def rows(run):
    return list(progress.read(run)) if (run / progress.FILE).exists() else []


@pytest.mark.slow
def test_real_trials_are_killed_in_the_middle_and_go_on(tmp_path, nothing_left, start_python):
    (tmp_path / 'mine.py').write_text(CONFIG)
    # The second rollout of 50 steps waits until that is removed.
    (tmp_path / 'wait').touch()
    command = ['-m', 'agents.scripts.sweep', '--jobs=1']
    command += ['--config=mine.py:mine', '--name=x']
    command += ['--grid', 'env_kwargs={works: true},{works: false}']
    directory = tmp_path / 'logdir' / 'x'
    run = directory / '000-env_kwargs=works_true-seed=0'
    process = start_python(*command, cwd=tmp_path)
    while not rows(run):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    code, output, problems = process.finish()
    assert (code, problems) == (130, ''), output
    assert rows(run)[-1].step == 200
    (tmp_path / 'wait').unlink()
    code, output, problems = start_python(*command, cwd=tmp_path).finish()
    assert (code, problems) == (1, '')
    # It has gone on, and not begun anew.
    log = (directory / 'logs' / f'{run.name}.out').read_text()
    assert re.search(r'resumed', log)
    steps = [row.step for row in rows(run)]
    assert steps == sorted(steps) and steps[-1] == 400
    finished, failed = trials.load(directory)
    assert (finished.state, failed.state) == ('finished', 'failed')
    assert 'It broke.' in failed.reason
    assert 'finished   000-env_kwargs=works_true-seed=0' in output
    assert f'{tmp_path}' not in output


@pytest.mark.parametrize(
    'arguments, message',
    [
        ([], 'There is no sweep in .* --config or --env'),
        (['--seeds=0..3'], 'A new sweep needs --config or --env'),
        (['--config=debgu'], "did you mean 'debug'"),
        (['--config=debug', '--seeds=3..1'], 'no seeds in 3..1'),
        (['--config=debug', '--seeds=a'], 'Expected seeds such as 0..7'),
        (['--config=debug', '--seeds=1,1'], 'have one twice'),
        (['--config=debug', '--grid', 'seed=1,2'], 'given by --seeds'),
        (['--config=debug', '--grid', 'steps'], 'Expected --grid key=value'),
        (['--config=debug', '--grid', 'step=1'], "did you mean 'steps'"),
        (['--config=debug', '--grid', 'steps=1,x'], "'steps' has to be"),
        (['--config=debug', '--grid', 'batch_size=50,33'], 'Choose 25 or 40'),
        (['--config=debug', '--search', 'steps=1'], 'A search must have the form'),
        (['--config=debug', '--search', 'steps=9..1'], 'must have its low end below'),
        (['--config=debug', '--search', 'steps=log:0..1'], "'steps' has to"),
        (['--config=debug', '--search', 'env=a..b'], 'must be numbers'),
        (['--config=debug', '--search', 'nowhere'], 'nowhere: No such file'),
        (['--config=debug', '--jobs=0'], 'jobs must be at least 1, got 0'),
        (
            ['--config=debug', '--search', 'steps=1..2', '--trials=0'],
            'nothing to try with 0 points',
        ),
        (['--config=debug', '--seeds=0..2000'], 'These are 2,001 trials, where at most 2,000'),
        (['--config=debug', '--search', 'list.yaml'], 'must hold lines such as'),
        (['--config=debug', '--grid', 'steps='], 'no value to try of steps'),
        (['--config=debug', '--grid', 'steps=9,9'], 'have one twice'),
        (['--config=debug', '--search', 'steps=1,2..3'], 'must be numbers'),
        (['--config=debug', '--name=../x'], 'name a directory within'),
        (['--config=debug', '--name=taken'], 'holds other things than a sweep'),
        (
            ['--config=debug', '--grid', 'steps=1,2', '--search', 'steps=1..2'],
            'give --grid or --search',
        ),
    ],
)
def test_mistakes_are_a_line_and_leave_nothing(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'logdir/taken/file').mkdir(parents=True)
    (tmp_path / 'list.yaml').write_text('[1, 2]')
    assert sweep.main(arguments) == 1
    problems = capsys.readouterr().err
    assert re.fullmatch(r'error: [^\n]+\n', problems)
    assert re.search(message, problems)
    assert names(tmp_path / 'logdir') == ['taken']


def test_other_plans_are_refused(fake, tmp_path):
    agents.sweep('debug', [0, 1], logdir=tmp_path)
    with pytest.raises(errors.ConfigError, match=r'seeds: \[0, 1\], where you ask for \[0, 2\]'):
        agents.sweep('debug', [0, 2], logdir=tmp_path)
    with pytest.raises(errors.ConfigError, match=r'a sweep of set: \[\], where'):
        agents.sweep('debug', [0, 1], changes=['steps=9'], logdir=tmp_path)
    with pytest.raises(errors.ConfigError, match='of a sweep under way cannot be changed'):
        agents.sweep(changes=['steps=9'], logdir=tmp_path / 'sweep-debug')


@pytest.mark.parametrize('key', ['config', 'env'])
@pytest.mark.parametrize('value', [configs.debug, configs.debug()])
def test_configs_and_environments_have_to_be_names(tmp_path, key, value):
    with pytest.raises(errors.ConfigError, match=f'{key} must be a name'):
        agents.sweep(**{key: value}, logdir=tmp_path)


@pytest.mark.parametrize(
    'old, new',
    [
        ('config: debug', 'config: logdir/evil.py:config'),
        ('set: []', """set: ['callbacks=["logdir/evil.py:hook"]']"""),
        ('grid: {}', "grid: {callbacks: [['logdir/evil.py:hook']]}"),
        ('search: {}', r"""search: {callbacks: '["evil.py\x3ahook"]'}"""),
        ('set: []', "set: ['env_kwargs={a: [{b: evil.Wrapper}]}']"),
        ('env: null', 'env: evil:Env-v1'),
        ('set: []', "set: ['env=evil:Env-v1']"),
        ('grid: {}', "grid: {env: ['evil:Env-v1']}"),
        ('set: []', r"""set: ['env="evil\x3aEnv-v1"']"""),
        ('search: {}', r"""search: {env: 'A, "evil\x3aEnv-v1"'}"""),
    ],
)
def test_plan_of_a_stranger_runs_no_code(tmp_path, tmp_path_factory, old, new, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path_factory.mktemp('home'))
    for place in (pathlib.Path(), pathlib.Path('logdir')):
        place.mkdir(exist_ok=True)
        (place / 'evil.py').write_text('raise AssertionError')
    plan = sweep_plan.Plan('debug', None, None, [], [0], {}, {}, 1)
    sweep_plan.save(plan, tmp_path)
    assert sweep_plan.load(tmp_path) == (plan, '')
    file = tmp_path / sweep_plan.FILE
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    with pytest.raises(errors.ConfigError, match='names code.* Pass --trust'):
        agents.sweep(logdir=tmp_path)
    assert os.listdir(tmp_path) == [sweep_plan.FILE]
    # Written by the user it is as good as the command.
    hostile, doubt = sweep_plan.load(tmp_path)
    sweep_plan.require_trust(hostile, tmp_path, doubt, trusted=True)
    assert capsys.readouterr().err.startswith('trust: ')
    sweep_plan.save(hostile, tmp_path)
    assert sweep_plan.load(tmp_path) == (hostile, '')
    (tmp_path / 'copy').mkdir()
    shutil.copy(file, tmp_path / 'copy')
    assert sweep_plan.load(tmp_path / 'copy')[1].startswith('its settings were')


@pytest.mark.parametrize(
    'text',
    [
        'a: 1',
        '[]',
        '!!python/object:os.system {}',
        'config: debug\nenv: null\nalgorithm: null\nset: []\nseeds: [x]\n'
        'grid: {}\nsearch: {}\npoints: 1',
        'config: debug\nenv: null\nalgorithm: null\nset: []\nseeds: []\n'
        'grid: {}\nsearch: {}\npoints: 1',
    ],
)
def test_broken_plan_is_refused(tmp_path, text):
    (tmp_path / sweep_plan.FILE).write_text(text)
    with pytest.raises(errors.ConfigError, match='sweep.yaml'):
        sweep_plan.load(tmp_path)


@pytest.mark.parametrize(
    'changes',
    [
        {'name': '../../evil'},
        {'name': 5},
        {'state': 'x'},
        {'point': -1},
        {'point': 1},
        {'seed': '0'},
        {'reason': '\x1b[2J'},
    ],
)
def test_broken_trials_are_refused(tmp_path, changes):
    trial = trials.Trial('a', 0, 0, {})
    trials.save([trial], tmp_path)
    assert trials.load(tmp_path) == [trial]
    file = tmp_path / trials.FILE
    (value,) = json.loads(file.read_text())
    for values in ([{**value, **changes}], {}, [1], [{}], [value, value]):
        file.write_text(json.dumps(values))
        with pytest.raises(errors.ConfigError, match='does not hold trials'):
            trials.load(tmp_path)


def test_as_many_trials_as_there_may_be_are_read_again(tmp_path):
    name, reason = 'n' * trials.LONGEST_NAME, 'r' * trials.MOST_CHARACTERS
    some = [
        trials.Trial(name, 0, seed, {'discount': 0.9}, trials.FAILED, reason)
        for seed in range(sweep_plan.MOST_TRIALS)
    ]
    trials.save(some, tmp_path)
    assert trials.load(tmp_path) == some


def test_trials_share_the_cores(tmp_path):
    plan = sweep_plan.Plan('debug', None, None, ['steps=9'], [3], {}, {}, 1)
    config = sweep_plan.check(plan)
    cores = len(os.sched_getaffinity(0))
    for jobs, workers in ((1, cores), (cores, 1), (3 * cores, 1)):
        runner = trials.Runner(tmp_path, plan, config, jobs)
        (trial,) = trials.make_trials(0, {'policy_layers': [4, 4]}, plan)
        assert runner._command(trial) == [
            *launcher.command_of('agents.scripts.train'),
            '--config=debug',
            '--set=steps=9',
            f'--set=num_workers={workers}',
            '--set=policy_layers=[4, 4]',
            '--seed=3',
            f'--logdir={tmp_path}',
            '--name=000-policy_layers=4_4-seed=3',
        ]


def test_trials_import_nothing_of_the_working_directory(tmp_path, run_python):
    (tmp_path / 'argparse.py').write_text('print("evil")')
    plan = sweep_plan.Plan('debug', None, None, [], [0], {}, {}, 1)
    runner = trials.Runner(tmp_path, plan, plan.find(), 1)
    words = runner._command(*trials.make_trials(0, {}, plan))[1:-5]
    code, output, problems = run_python(*words, '--help', cwd=tmp_path)
    assert (code, problems) == (0, '') and 'evil' not in output


@pytest.mark.parametrize(
    'code, log, reason',
    [
        (1, 'warning\nerror: Too bad.\nmore\n', 'Too bad.'),
        (1, 'error: It raised:\nTraceback\nKeyError: 3\n', ': KeyError: 3'),
        (1, 'Traceback\nValueError: 2\n\n', 'ValueError: 2'),
        (2, '', 'exit code 2 and said nothing'),
        (-9, 'error: x', 'killed by SIGKILL'),
        (-40, 'error: x', 'killed by signal 40'),
        (1, 'error: \x1b[2J' + 'x' * 9999, r'\\x1b\[2Jx+ … x+'),
    ],
)
def test_reason_of_a_failure_is_a_line(tmp_path, code, log, reason):
    (tmp_path / 'log').write_text(log)
    found = trials.explain(code, tmp_path / 'log')
    assert re.search(reason, found) and len(found) < 400


def test_search_is_read_from_a_file_as_well(tmp_path):
    file = tmp_path / 'space.yaml'
    file.write_text('learning_rate: log:1e-5..1e-2\nbatch_size: [25, 50]\n')
    expected = {'learning_rate': 'log:1e-5..1e-2', 'batch_size': '25, 50'}
    assert sweep_plan.parse_search([str(file)]) == expected
    texts = ['learning_rate=log:1e-5..1e-2', 'batch_size=25, 50']
    assert sweep_plan.parse_search(texts) == expected


def test_nothing_large_is_imported_before_it_is_needed(run_python):
    code = (
        'import sys, agents.scripts.sweep\n'
        'print({"tensorflow", "optuna", "matplotlib"} & {*sys.modules})'
    )
    assert run_python('-c', code) == (0, 'set()\n', '')
