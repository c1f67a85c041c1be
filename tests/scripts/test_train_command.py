"""Training on the command line, in processes of their own."""

import re
import shlex
import signal
import textwrap
import time

import pytest

import agents
from agents.config import store
from agents.scripts import train
from agents.scripts.train import main
from agents.tools.runs import checkpoints
from agents.training import run_directory, storage

# A run that takes long, once it has begun; the fixture `long` begins sooner.
LONG = ['--config=debug', '--timestamp=now', '--set=steps=1e7']
COMPILED = '           compiled'

CONFIGS = """
import time
import gymnasium as gym
from agents.scripts import configs

class Hostile(gym.Wrapper):
    steps = 0

    def __init__(self, raise_at=None, hang_at_close=False):
        super().__init__(gym.make('CartPole-v1'))
        self._raise_at, self._hang = raise_at, hang_at_close

    def step(self, action):
        self.steps += 1
        if self.steps == self._raise_at:
            raise ArithmeticError('It broke.')
        return self.env.step(action)

    def close(self):
        if self._hang:
            time.sleep(60)

def make(**settings):
    return configs.debug().copy(
        env=Hostile, env_kwargs=settings, steps=10_000_000
    )

def eagerly(config):
    # The same program in the end, without the seconds of compiling it.
    import tensorflow
    tensorflow.config.run_functions_eagerly(True)
    return config

def long():
    return eagerly(configs.debug().copy(steps=10_000_000, eval_every=200))

def raising():
    return eagerly(make(raise_at=120))

def hanging():
    return eagerly(make(hang_at_close=True))

class Slow(gym.Wrapper):
    def __init__(self):
        time.sleep(60)
        super().__init__(gym.make('CartPole-v1'))

def slow():
    return configs.debug().copy(env=Slow, num_agents=16)

def endless():
    return gym.make('Pendulum-v1').unwrapped

def evaluated():
    return configs.debug().copy(env=endless, max_length=10_000_000)

def thorough():
    return make().copy(
        update_every=64, batch_size=64, update_epochs=3200,
        policy_layers=[256, 256], value_layers=[4], eval_every=1_000_000,
    )
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty directory to work in."""
    directory = tmp_path / 'home'
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


@pytest.fixture
def configs_file(tmp_path):
    file = tmp_path / 'experiments.py'
    file.write_text(CONFIGS)
    return file


@pytest.fixture
def long(configs_file):
    """The options of a run that takes long, and begins soon."""
    return [f'--config={configs_file}:long', '--timestamp=now']


@pytest.fixture
def start(home, start_python):
    """A function that starts a training and waits for a line of its output."""

    def run(until, *arguments):
        if '--noenv_processes' not in arguments:
            arguments = [*arguments, '--env_processes']
        training = start_python('-m', 'agents.scripts.train', *arguments)
        training.read_until(until)
        training.below()  # Its end is that of these, too.
        return training

    return run


def whole_checkpoints(directory):
    """The steps of the checkpoints of a run, which can be read."""
    found = sorted((directory / storage.CHECKPOINTS).iterdir())
    for path in found:
        checkpoints.verify(path)
    return [int(path.name) for path in found]


def test_completed_run_prints_our_lines_only(debug_run):
    assert (debug_run.code, debug_run.problems) == (0, '')
    seconds, count = r'\d+\.\d s', r'[\d,]+ steps/s'
    expected = [
        'agents     debug: PPO on CartPole-v1, seed 0',
        r'run        logdir/now-debug \(new run named now\)',
        'plan       4 agents × 50 steps → update of 200 rows; 10 updates = '
        '2,000 steps; evaluation of 2 episodes every 1,000',
        'tensorflow importing',
        r'stepping   in this process, as a step takes \d+\.\d µs '
        r'\(--env_processes for workers\)',
        'network    4 numbers; policy → 64 → 64 → choice of 2; value → 64 → 64 → 1 number',
        'train      from the beginning; tracing and compiling',
        f'           compiled in {seconds}',
        'eval       tracing and compiling',
        r'train      step 1,000 \(50%\)  \d:\d\d left  train \d+\.\d+  '
        rf'eval \d+\.\d+  {count}',
        r'train      step 2,000 \(100%\)  train \d+\.\d+  '
        rf'eval \d+\.\d+  {count}',
        r'best       score [\d.]+ at step [\d,]+; --checkpoint=best takes it',
        'done       see tensorboard --logdir logdir/now-debug',
    ]
    lines = debug_run.output.splitlines()
    assert len(lines) == len(expected)
    for line, pattern in zip(lines, expected, strict=True):
        assert re.fullmatch(pattern, line), line


def test_completed_run_left_no_stray_files(debug_run):
    home = debug_run.directory.parent.parent
    assert [path.name for path in home.iterdir()] == ['logdir']
    assert [path.name for path in debug_run.directory.parent.iterdir()] == ['now-debug']
    assert {path.name for path in debug_run.directory.iterdir()} == {
        'config.yaml', 'spaces.bin', 'checkpoints', 'progress.csv', 'train',
        'eval', 'lock',
    }  # fmt: skip
    assert whole_checkpoints(debug_run.directory) == [1000, 2000]


def test_ctrl_c_saves_and_can_be_resumed(start, home, long, checkpoint, eagerly):
    training = start(COMPILED, *long)
    assert len(training.below()) >= 2
    training.send_signal(signal.SIGINT)
    code, output, problems = training.finish()
    assert (code, problems) == (130, '')
    lines = [line for line in output.splitlines() if line]
    assert 'SIGINT: saving; once more to exit at once.' in lines
    assert lines[-1].startswith('stopped    logdir/now-long is saved; ')
    assert lines[-1].endswith('--name=now-long goes on')
    directory = home / 'logdir' / 'now-long'
    *_, stopped = whole_checkpoints(directory)
    assert stopped and stopped % 200 == 0
    assert [path.name for path in home.iterdir()] == ['logdir']

    end = stopped + 200
    assert main([*long, f'--set=steps={end}', '--noenv_processes']) == 0
    assert whole_checkpoints(directory)[-1] == end
    assert checkpoint(directory)['algo/collector/rollouts'] == end // 200


@pytest.mark.slow
def test_ctrl_c_where_saving_fails(start, home, long):
    training = start(COMPILED, *long)
    directory = home / 'logdir' / 'now-long'
    while not [*(directory / storage.CHECKPOINTS).glob('[0-9]*')]:
        time.sleep(0.01)
    (directory / storage.CHECKPOINTS).rename(home / 'aside')
    (directory / storage.CHECKPOINTS).write_text('In the way.')
    training.send_signal(signal.SIGINT)
    code, output, problems = training.finish()
    assert code == 1
    assert 'stopped' not in output
    assert re.fullmatch(r'error: .* cannot be written: .*\n', problems)


def test_sigterm_while_starting(start, home):
    training = start('tensorflow', *LONG)
    training.send_signal(signal.SIGTERM)
    code, output, problems = training.finish()
    assert (code, problems) == (143, '')
    assert 'SIGTERM: saving; once more to exit at once.\n' in output
    assert output.endswith('stopped    before anything was learnt\n')
    assert not list(home.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize('env_processes', [True, False])
def test_ctrl_c_while_constructors_are_slow(start, home, configs_file, env_processes):
    until = 'tensorflow' if env_processes else 'plan'
    processes = [] if env_processes else ['--noenv_processes']
    training = start(until, f'--config={configs_file}:slow', *processes)
    time.sleep(2)  # Until it waits for them.
    training.send_signal(signal.SIGINT)
    code, output, problems = training.finish(timeout=20)  # Not 60 seconds.
    assert (code, problems) == (130, '')
    assert output.endswith('stopped    before anything was learnt\n')
    assert not list(home.iterdir())


def test_sighup_while_compiling(start, home):
    training = start('train', *LONG)
    training.send_signal(signal.SIGHUP)
    code, output, problems = training.finish()
    assert (code, problems) == (129, '')
    assert output.endswith('stopped    before anything was learnt\n')
    assert not list(home.iterdir())


@pytest.mark.slow
def test_ctrl_c_in_an_evaluation(start, home, configs_file):
    training = start('eval', f'--config={configs_file}:evaluated', '--timestamp=now')
    time.sleep(2)  # Until it is compiled.
    training.send_signal(signal.SIGINT)
    code, output, problems = training.finish()
    assert (code, problems) == (130, '')
    assert output.endswith('is saved; --name=now-evaluated goes on\n')
    directory = home / 'logdir' / 'now-evaluated'
    assert whole_checkpoints(directory) == [1000]


@pytest.mark.slow
def test_ctrl_c_in_a_long_update(start, home, configs_file):
    training = start(COMPILED, f'--config={configs_file}:thorough', '--timestamp=now')
    time.sleep(0.5)  # An update takes several seconds, a rollout does not.
    training.send_signal(signal.SIGINT)
    code, output, problems = training.finish()
    assert (code, problems) == (130, '')
    assert 'finishing the update first\n' in output
    assert output.endswith('is saved; --name=now-thorough goes on\n')


@pytest.mark.slow
def test_second_ctrl_c_in_a_long_update(start, home, configs_file):
    training = start(
        COMPILED,
        f'--config={configs_file}:thorough',
        *('--timestamp=now', '--set', 'update_epochs=4800'),
    )
    time.sleep(0.5)
    training.send_signal(signal.SIGINT)
    training.read_until('           finishing the update')
    training.send_signal(signal.SIGTERM)
    code, output, problems = training.finish()
    assert (code, problems) == (143, ' Ended at once.\n')
    assert 'saved' not in output


@pytest.mark.slow
def test_second_ctrl_c_before_anything_was_learnt(start, home, configs_file):
    training = start('tensorflow', f'--config={configs_file}:slow')
    training.send_signal(signal.SIGINT)
    training.send_signal(signal.SIGTERM)
    assert training.finish(timeout=20).code in (130, 143)
    assert not list((home / 'logdir').glob('*'))


@pytest.mark.slow
def test_ctrl_c_after_the_end_leaves_no_traceback(start, home, long):
    training = start('done', *long, '--set=steps=400')
    training.send_signal(signal.SIGINT)
    code, output, problems = training.finish(timeout=20)
    assert (output, problems) == ('', '')
    assert code in (0, -signal.SIGINT)
    assert whole_checkpoints(home / 'logdir' / 'now-long') == [200, 400]


@pytest.mark.slow
def test_second_ctrl_c_exits_at_once(start, configs_file):
    config = f'--config={configs_file}:hanging'
    training = start(COMPILED, config)
    training.send_signal(signal.SIGINT)
    training.read_until('SIGINT')
    training.send_signal(signal.SIGINT)
    code, output, problems = training.finish()
    assert (code, problems) == (130, ' Ended at once.\n')
    assert 'stopped' not in output


@pytest.mark.slow
def test_environment_that_raises_in_a_worker(start, home, configs_file):
    config = f'--config={configs_file}:raising'
    training = start('workers', config, '--timestamp=now')
    code, output, problems = training.finish()
    assert code == 1
    first, *_, last = problems.splitlines()
    assert re.fullmatch(
        r'error: Environment \d raised an error in step, given the action .:', first
    )
    assert last == 'ArithmeticError: It broke.'
    assert problems.count('Traceback') == 1
    assert 'experiments.py", line' in problems
    told = 'has a checkpoint of step 400; --name=now-raising goes on\n'
    assert output.endswith(told)
    # Of 120 steps, 2 rollouts of 50 steps were completed, of 4 agents each.
    directory = home / 'logdir' / 'now-raising'
    assert whole_checkpoints(directory)[-1] == 2 * 50 * 4


@pytest.mark.slow
def test_killed_worker_is_named(start, home, long):
    training = start(COMPILED, *long)
    # Those of the training were started first.
    victim = min(training.below(), key=lambda worker: worker.pid)
    victim.kill()
    code, _, problems = training.finish()
    assert code == 1
    assert re.fullmatch(
        rf'error: The worker process {victim.pid} was killed by SIGKILL while '
        r'environment \d was at work\.\n',
        problems,
    )
    assert whole_checkpoints(home / 'logdir' / 'now-long')[-1] >= 200


@pytest.mark.slow
def test_killed_worker_is_started_anew_if_asked_for(start, home, long):
    training = start(COMPILED, *long, '--set=worker_restarts=3')
    victim = min(training.below(), key=lambda worker: worker.pid)
    victim.kill()
    told = training.read_until('workers    a worker is started anew')
    assert re.fullmatch(
        r'workers    a worker is started anew, 1 of 3: The worker process '
        rf'{victim.pid} was killed by SIGKILL while environment \d was at '
        r'work\.\n',
        told,
    )
    training.read_until('train')
    training.send_signal(signal.SIGINT)
    code, _, problems = training.finish()
    assert (code, problems) == (130, '')
    assert whole_checkpoints(home / 'logdir' / 'now-long')


@pytest.fixture
def mistake(home, capfd):
    """A function that trains by mistake and returns what that prints."""

    def run(*arguments):
        assert main(arguments) == 1
        problems = capfd.readouterr().err
        assert re.fullmatch(r'error: [^\n]+\n', problems), problems
        return problems

    return run


@pytest.mark.parametrize(
    'arguments, message',
    [
        (['--config=debgu'], "no config 'debgu'; did you mean 'debug'?"),
        (['--config=mine.py:run'], "no file 'mine.py' to take 'run' from"),
        (['--config=debug', '--set', 'stepz=1'], "did you mean 'steps'?"),
        (['--config=debug', '--set', 'steps'], 'Expected --set key=value'),
        (['--config=debug', '--set', 'steps=many'], 'to be a whole number'),
        (['--config=debug', '--set', 'steps=-5'], 'at least 1, not -5'),
        (['--config=debug', '--set', 'steps=[1'], 'steps is not plain YAML'),
        (['--config=debug', '--seed=-1'], "'seed' has to be"),
        (['--config=debug', '--set', 'env=CartPole'], 'did you mean'),
        (['--config=debug', '--set', 'env=no_such:A-v0'], 'cannot be imported'),
        (['--config=debug', '--set', 'algorithm=pppo'], "did you mean 'ppo'?"),
        (['--config=debug', '--set', 'batch_size=33'], 'cannot be divided'),
        (['--config=debug', '--set', 'network=nope'], "not 'nope'."),
        (['--config=debug', '--logdir=/proc/none'], 'Cannot write to /proc/no'),
    ],
)  # fmt: skip
def test_mistake_is_one_line_and_leaves_nothing(mistake, home, arguments, message):
    arguments = [*arguments, '--noenv_processes']
    assert message in mistake(*arguments)
    assert message in mistake(*arguments, '--timestamp=now')
    assert not list(home.iterdir())


def test_mistake_leaves_the_other_runs(mistake, home):
    (home / 'logdir').mkdir()
    (home / 'logdir' / 'notes.txt').write_text('Mine.')
    mistake('--config=debug', '--set', 'env=CartPole')
    assert [path.name for path in home.rglob('*')] == ['logdir', 'notes.txt']


def test_mistakes_in_files_of_configs_are_one_line(mistake, tmp_path):
    file = tmp_path / 'broken.py'
    for text, message in (
        ('1 / 0', 'broken.py raised ZeroDivisionError in line 1'),
        ('def run(:', 'broken.py raised SyntaxError'),
        ('def run():\n    return unknown', 'raised NameError in line 2'),
    ):
        file.write_text(text)
        assert message in mistake(f'--config={file}:run')


def test_environment_whose_package_is_missing_is_one_line(mistake, tmp_path):
    file = tmp_path / 'lacking.py'
    file.write_text(
        textwrap.dedent("""
            import gymnasium
            from agents.scripts import configs
            gymnasium.register('Lacking-v0', 'no_such_package:Env')
            def run():
                return configs.debug().copy(env='Lacking-v0')
        """)
    )
    assert "needs the package 'no_such_package'" in mistake(f'--config={file}:run')


def test_mistaken_setting_of_a_resumed_run_is_one_line(mistake, tmp_path):
    directory = tmp_path / 'now-debug'
    directory.mkdir()
    where = [f'--logdir={tmp_path}', '--timestamp=now']
    for text, message in (
        ('stepz: 5', 'does not know: stepz'),
        ('steps: many', "'steps' has to be a whole number"),
        ('env: !!python/name:os.system', 'has a tag'),
        ('- 5', 'does not hold settings'),
    ):
        (directory / store.CONFIG_FILE).write_text(text)
        assert message in mistake('--config=debug', *where)


@pytest.mark.parametrize(
    'arguments, message',
    [
        ([], 'there is nothing to train: give --config or --env, or --name'),
        (['--config=debug', '--seed=x'], "--seed: invalid int value: 'x'"),
        (['--config=debug', '--color=x'], 'unrecognized arguments: --color=x'),
        (['--config=debug', '--gae_lambda=1'], 'a setting: --set gae_lambda=1'),
        (['--config=debug', '--algorithm=ppo'], 'goes with --env'),
        (['--config=debug', '--name=a', '--timestamp=b'], 'not allowed with'),
        (['--conf=debug', '--config=debug'], 'did you mean --config?'),
    ],
)
def test_mistaken_arguments_show_the_usage(capsys, arguments, message):
    with pytest.raises(SystemExit) as info:
        main(arguments)
    assert info.value.code == 2
    problems = capsys.readouterr().err
    assert problems.startswith('usage: agents train')
    assert message in problems


def test_help_has_examples_that_can_be_parsed(capsys):
    with pytest.raises(SystemExit) as info:
        main(['--help'])
    assert info.value.code == 0
    output = capsys.readouterr().out
    assert 'agents train --config=pendulum\n' in output
    examples = re.findall('^  agents train (.*?)(?:#.*)?$', output, re.M)
    assert len(examples) == 6
    for example in examples:
        assert train._parse(shlex.split(example))


def test_mistake_in_a_process_of_its_own(home, run_python):
    finished = run_python('-m', 'agents.scripts.train', '--config=debgu')
    assert (finished.code, finished.output) == (1, '')
    said = finished.problems
    assert said.startswith("error: There is no config 'debgu'; did")
    assert said.count('\n') == 1
    assert not list(home.iterdir())


def test_second_run_in_a_directory_is_refused(mistake, home):
    with run_directory.locked(home / 'logdir' / 'now-debug'):
        problems = mistake('--config=debug', '--timestamp=now')
    directory = home / 'logdir' / 'now-debug'
    assert f'Another process is training in {directory}' in problems


@pytest.mark.slow
def test_overrides_are_told_and_saved(home, capsys, eagerly, tiny):
    small = tiny(update_epochs=2)
    changed = [f'--set={key}={value}' for key, value in small.items()
               if value is not None and key in CHANGED]  # fmt: skip
    arguments = ['--config=debug', '--timestamp=now', '--noenv_processes']
    assert main([*arguments, *changed, '--seed=3']) == 0
    assert 'PPO on CartPole-v1, seed 3' in capsys.readouterr().out
    directory = home / 'logdir' / 'now-debug'
    saved = store.load_config(directory)
    assert (saved.seed, saved.steps) == (3, 40)

    # What was changed then need not be given again.
    assert main([*arguments, '--set=steps=60']) == 0
    output = capsys.readouterr().out
    assert 'run        logdir/now-debug (resumed)\n' in output
    assert '           steps: 40 → 60\n' in output
    assert 'train      resumed at step 40; tracing and compiling\n' in output
    assert '           seed: 3 as before, not 0; --set changes it\n' in output
    assert store.load_config(directory).steps == 60
    assert whole_checkpoints(directory) == [20, 40, 60]


@pytest.mark.slow
def test_run_has_a_name_that_resumes_it(home, capfd, eagerly, mistake, tiny):
    small = [f'--set={key}={tiny()[key]}' for key in CHANGED]
    arguments = ['--name=two/mine', '--noenv_processes']
    assert main([*arguments, '--env=CartPole-v1', '--quiet', *small]) == 0
    said = capfd.readouterr()
    assert (said.out, said.err) == ('', '')
    assert [path.name for path in (home / 'logdir/two').iterdir()] == ['mine']
    assert [*agents.results(home / 'logdir').runs] == ['two/mine']

    # It needs nothing else to go on.
    assert main([*arguments, '--steps=60', '--seed=4']) == 0
    output = capfd.readouterr().out
    assert 'agents     two/mine: PPO on CartPole-v1, seed 4\n' in output
    assert 'run        logdir/two/mine (resumed)\n' in output
    assert '           steps: 40 → 60\n' in output
    assert 'as before' not in output
    assert whole_checkpoints(home / 'logdir/two/mine')[-1] == 60

    problems = mistake(*arguments, '--env=Acrobot-v1')
    assert 'is a run with env=CartPole-v1, not env=Acrobot-v1.' in problems
    problems = mistake(*arguments, '--config=pendulum_trpo')
    assert 'is a run with algorithm=ppo, not algorithm=trpo.' in problems
    assert main([*arguments, '--config=debug', '--settings']) == 0
    assert '* steps                   60 ' in capfd.readouterr().out
    problems = mistake('--name=two/mine/inner', '--config=debug')
    assert 'must not be within a run, which two/mine is' in problems


def test_run_that_there_is_not_is_one_line(mistake, home):
    problems = mistake('--name=mine')
    assert 'There is no run logdir/mine to go on with.' in problems
    for name in ('../mine', '.mine', 'a/../b', '/a', 'a/', 'a/b/c/d', '-x'):
        problems = mistake(f'--name={name}', '--config=debug')
        assert 'must name a directory within ./logdir' in problems
    problems = mistake('--timestamp=../../x', '--config=debug')
    assert 'must name a directory within ./logdir' in problems
    assert not list(home.iterdir())


CHANGED = (
    'max_length', 'num_agents', 'update_every', 'steps', 'batch_size',
    'eval_every', 'policy_layers', 'value_layers',
)  # fmt: skip
