"""The command that checks an environment, as it is given and as it answers."""

import importlib.util
import textwrap

import gymnasium as gym
import numpy as np
import pytest

import agents
from agents.scripts import check
from agents.tools import errors
from agents.tools.checking import inspection_worker
from agents.tools.checking.inspection_report import Watch
from agents.training import check_env

MAZE = """
    import gymnasium as gym
    import numpy as np
    from agents.scripts import configs

    class Maze(gym.Env):
        action_space = gym.spaces.Discrete(4)

        def __init__(self, size=4, reward=0.0, far=0, fault=None):
            self.size, self.value = size, reward
            self.far, self.fault = far, fault
            self.observation_space = gym.spaces.Dict(
                place=gym.spaces.Box(far - 1, far + 1, (2,)),
                door=gym.spaces.Discrete(3),
            )

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.time = 0
            return self.observe(), {}

        def step(self, action):
            self.time += 1
            if self.fault in ('raise', 'both') and self.time == 3:
                raise KeyError('wall')
            over = self.time == self.size
            return self.observe(), self.value, over, False, {}

        def observe(self):
            place = self.np_random.uniform(-1, 1, 2).astype(np.float32)
            if self.fault in ('bounds', 'both'):
                place += 2
            return {'place': place + np.float32(self.far), 'door': 0}

    class Seen(Maze):
        def __init__(self):
            super().__init__()
            shape = 64, 64, 3
            self.observation_space = gym.spaces.Box(0, 255, shape, np.uint8)

        def observe(self):
            return self.np_random.integers(0, 256, (64, 64, 3), np.uint8)

    def make_many():
        return gym.make_vec('CartPole-v1')

    def maze():
        return configs.ppo(env=Maze, env_kwargs={'size': 6}, max_length=5)
"""


@pytest.fixture(autouse=True)
def here(monkeypatch):
    """Inspects in this process, which is sooner done."""

    def inspect(inspector, seconds, progress, **arguments):
        return inspector(**arguments)

    monkeypatch.setattr(inspection_worker, 'inspect', inspect)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / 'mazes.py'
    path.write_text(textwrap.dedent(MAZE))
    return path


@pytest.fixture
def run(capsys):
    """A function that runs the command; returns its code and its topics."""

    def call(*arguments):
        code = check.main([*map(str, arguments), '--steps=200'])
        said = capsys.readouterr()
        assert not said.err
        return code, topics(said.out)

    return call


def topics(text):
    """What is said of each topic, its lines joined."""
    found, topic = {}, ''
    for line in text.splitlines():
        topic = line[:11].strip() or topic
        found[topic] = f'{found.get(topic, "")} {line[11:]}'
    return {topic: ' '.join(text.split()) for topic, text in found.items()}


def test_sound_environment_is_told_and_how_to_train_on_it(run):
    code, said = run('--env=CartPole-v1')
    assert code == 0
    assert [*said] == [
        'env', 'observ', 'actions', 'rewards', 'episodes', 'speed', 'seed',
        'video', 'contract', 'network', 'train',
    ]  # fmt: skip
    assert said['env'] == 'CartPole-v1, 200 steps of random actions'
    header = 'bounds min max mean std Box 4 float32 some -'
    assert said['observ'].startswith(header)
    assert said['actions'] == 'Discrete 2'
    assert said['rewards'] == 'always 1'
    assert 'terminated; score ' in said['episodes']
    assert said['seed'].startswith('gives the same again for 200 steps')
    assert said['contract'] == 'nothing wrong'
    assert said['train'] == 'agents train --env=CartPole-v1'


def test_episodes_are_cut_as_those_of_a_training(run):
    _, said = run('--env=Pendulum-v1')
    assert said['episodes'].startswith('1 truncated at 200 steps (max_l')
    assert said['actions'] == 'Box 1 float32, -2 to 2'
    _, said = run('--env=Pendulum-v1', '--set', 'max_length=50')
    assert said['episodes'].startswith('4 truncated at 50 steps (max_length)')
    assert said['train'] == ('agents train --env=Pendulum-v1 --set max_length=50')
    _, said = run('--env=MountainCar-v0', '--set', 'max_length=9000')
    assert said['episodes'].startswith('1 truncated at 200 steps')


def test_mask_is_told(run):
    code, said = run('--env=Taxi-v4')
    assert code == 0
    assert 'Discrete 6; ' in said['actions']
    assert 'possible by the mask in the info' in said['actions']
    assert 'choice of 6, masked; ' in said['network']


def test_function_of_a_file_with_its_arguments(run, file):
    code, said = run(f'--env={file}:Maze', '--set=env_kwargs={size: 8}')
    assert code == 0
    assert said['env'].startswith('Maze, ')
    assert said['episodes'] == '25 terminated; score 0, length 8'
    assert 'always 0; random actions meet no reward' in said['rewards']
    assert 'door Discrete 3 0 0 0 0 never changes' in said['observ']
    assert 'place Box 2 float32 -1 to 1' in said['observ']
    assert 'none; Maze takes no argument render_mode' in said['video']
    command = f"agents train --env={file}:Maze --set 'env_kwargs={{size: 8}}'"
    assert said['train'] == command


def test_network_is_that_of_a_training(run, file):
    _, said = run(f'--env={file}:Seen')
    assert 'policy → choice of 4; value → 1 number' in said['network']
    _, said = run(f'--env={file}:Seen', '--set=policy_layers=[8]')
    assert 'policy → 8 → choice of 4; value → 1 number' in said['network']


def test_environment_of_a_config(run, file):
    code, said = run(f'--config={file}:maze', '--set=env_kwargs={size: 9}')
    assert code == 0
    # The 9 steps of an episode are more than the config allows.
    assert said['episodes'].startswith('40 truncated at 5 steps (max_length)')
    command = f"--config={file}:maze --set 'env_kwargs={{size: 9}}'"
    assert said['train'].endswith(command)


def test_breach_is_told_with_what_to_do(run, file):
    code, said = run(f'--env={file}:Maze', '--set=env_kwargs={fault: bounds}')
    assert code == 1
    assert 'contract' not in said and 'error' not in said
    start = "reset of episode 1 (251 times): observation['place'] is "
    assert said['wrong'].startswith(start)
    assert said['wrong'].endswith("clip them by observ_bounds='clip'.")
    assert 'train' in said  # As it would put up with that.
    maze = f'--env={file}:Maze', '--set=env_kwargs={fault: bounds}'
    for choice in ('clip', 'error'):
        assert run(*maze, f'--set=observ_bounds={choice}')[1]['wrong']


def test_what_ends_a_training_is_told_first(run, file):
    _, said = run(f'--env={file}:Maze', '--set=env_kwargs={fault: both}')
    assert [*said][-3:] == ['error', 'wrong', 'train']


def test_error_is_told_with_its_lines(run, file):
    code, said = run(f'--env={file}:Maze', '--set=env_kwargs={fault: raise}')
    assert code == 1
    start = 'step 3 of episode 1 (5 times): step raised, given the action '
    assert said['error'].startswith(start)
    assert "KeyError: 'wall'. " in said['error']
    assert said['error'].endswith("in step: raise KeyError('wall')")
    assert said['train'].startswith('not as it is')
    assert 'network' not in said


def test_what_had_better_be_normalized_is_told(run, file):
    maze = f'--env={file}:Maze', '--set=env_kwargs={reward: 500, far: 30}'
    _, said = run(*maze)
    assert said['rewards'] == 'always 500'
    assert 'large' not in said['observ']
    _, said = run(*maze, '--set=normalize_reward=false')
    assert said['rewards'] == 'always 500; large, set normalize_reward=true'
    _, said = run(*maze, '--set=normalize_observ=false')
    assert said['observ'].endswith('large; set normalize_observ=true')


@pytest.mark.parametrize(
    'arguments, message',
    [
        (['--env=CartPol-v1'], "did you mean 'CartPole-v1'"),
        (['--env=vector:CartPole-v1'], 'needs a single environment'),
        pytest.param(
            ['--env=envpool:Pong-v5'],
            'needs a single environment',
            marks=pytest.mark.skipif(
                importlib.util.find_spec('envpool') is None, reason='Needs EnvPool.'
            ),
        ),
        (['--env={file}:make_many'], 'is a vector of'),
        (['--env={file}:make'], "There is no function 'make' in"),
        (['--env=nowhere.py:make'], "There is no file 'nowhere.py'"),
        (['--env=CartPole-v1', '--steps=0'], 'steps must be at least 1, got'),
        (['--env=CartPole-v1', '--seed=-1'], 'seed must be an integer from 0'),
        (['--env=CartPole-v1', '--seconds=0'], 'seconds must be positive'),
        (['--env=CartPole-v1', '--set=sed=1'], "did you mean 'seed'"),
        (['--config=cartpol'], "did you mean 'cartpole'"),
        ([], 'there is nothing to check: give --env or --config'),
        (['--env=CartPole-v1', '--env_kwargs=1'], '--set env_kwargs=1'),
    ],
)
def test_mistake(capsys, file, arguments, message):
    given = [argument.format(file=file) for argument in arguments]
    try:
        code = check.main(given)
    except SystemExit as exit:  # As the parser of options ends.
        code = exit.code
    said = capsys.readouterr()
    assert code == 2 and not said.out
    assert message in said.err
    assert said.err.splitlines()[-1].count('error: ') == 1


def test_command_needs_no_tensorflow(file, run_python):
    """Run as a user does; it has none to import."""
    program = (
        "import runpy, sys; sys.modules['tensorflow'] = None; sys.argv[1:] = "
        f"['--env={file}:Maze']; "
        "runpy.run_module('agents.scripts.check', run_name='__main__')"
    )
    code, output, problems = run_python('-c', program)
    assert code == 0 and not problems
    assert topics(output)['contract'] == 'nothing wrong'


def test_policy_is_described():
    found = agents.check('CartPole-v1', 10, policy_layers=[7])
    assert topics('\n'.join(found.lines(200)))['network'] == (
        '4 numbers; policy → 7 → choice of 2; value → 64 → 64 → 1 number'
    )
    network = topics(str(agents.check(One, 10)))['network']
    assert network.startswith('1 number; policy ')
    found = agents.check(Image, 10)
    said = topics('\n'.join(found.lines(200)))['network']
    assert 'flattened; images for convolutions are of bytes, uint8' in said


def test_check_in_python():
    found = agents.check(Image, steps=30, max_length=10)
    assert not found.breaches
    assert found.report.lengths == [10, 10, 10]
    assert 'Box 8×8×3 float32  0 to 255' in str(found)
    assert 'if an image, make it uint8' in str(found)
    assert 'none ended so far; ' in str(agents.check(Image, steps=30))
    with pytest.raises(errors.ConfigError, match="did you mean 'max_length'"):
        agents.check(Image, max_lenth=10)


class Image(gym.Env):
    observation_space = gym.spaces.Box(0, 255, (8, 8, 3))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observe(), {}

    def step(self, action):
        return self.observe(), 0.0, False, False, {}

    def observe(self):
        return self.np_random.uniform(0, 255, (8, 8, 3)).astype(np.float32)


class One(Image):
    observation_space = gym.spaces.Box(0, 1, (1,))

    def observe(self):
        return self.np_random.uniform(0, 1, 1).astype(np.float32)


def test_lines_fit_the_terminal():
    found = agents.check('Pendulum-v1', 50)
    for width in (60, 80):
        wrapped = [
            line
            for line in found.lines(width)
            if not line.startswith(('observ', 'train', ' ' * 11))
        ]
        assert wrapped and max(map(len, wrapped)) <= width


def test_check_that_ends_early_says_so(monkeypatch):
    monkeypatch.setattr(Watch, 'is_over', lambda *_: next(over))
    over = iter([False] * 12 + [True] * 9)
    found = agents.check(Image, 30)
    assert found.report.steps == 12
    said = topics(str(found))['env']
    assert said == ('Image, 12 of 30 steps of random actions in 0 s; --seconds allows more')


def test_native_environment(capsys):
    assert check.main(['--env=native:CartPole-v1', '--steps=320']) == 0
    said = topics(capsys.readouterr().out)
    assert said['env'] == 'native:CartPole-v1, 320 steps of random actions'
    assert said['observ'].startswith('bounds min max mean std Box 4 float32')
    assert 'terminated; score ' in said['episodes']
    assert said['speed'].endswith('by a compiled program of 16 agents')
    assert said['seed'] == 'gives the same again for 320 steps, to the last bit'
    assert said['contract'] == 'nothing wrong'
    assert said['train'] == 'agents train --env=native:CartPole-v1'


class Cells(gym.Env):
    """Observes which of too many cells it is in."""

    observation_space = gym.spaces.Discrete(10**7)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return action, 0.0, False, False, {}


def test_observations_too_large_for_networks_are_told():
    (breach,) = check_env.check(Cells, steps=20).breaches
    assert breach.ends and 'at most 262,144 numbers' in breach.text
