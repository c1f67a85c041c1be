"""Environments by name and by function, in this process and in workers."""

import functools
import importlib.metadata
import itertools
import re
import resource
import sys
import warnings

import cloudpickle
import gymnasium as gym
import numpy as np
import psutil
import pytest

from agents import tools
from agents.config.settings import SETTINGS
from agents.scripts import configs
from agents.tools import errors
from agents.tools.workers import launch
from agents.training import env_arguments, env_kinds, env_setup, plan, simulation_graph, vectors
from agents.training.env_kinds import native


def config(**settings):
    return configs.ppo(**{'env': 'CartPole-v1', 'max_length': 5, **settings})


@pytest.fixture
def start():
    """A function that starts a batch of environments, which is closed."""
    batches = []

    def run(constructor, count=1, **settings):
        envs = env_setup.start(constructor, count, **settings)
        batches.append(tools.BatchEnv(envs))
        return batches[-1]

    yield run
    for batch in batches:
        batch.close()


@pytest.fixture
def counter():
    """A function that makes an environment of a nest of settings.

    It observes its settings, and rewards with the sum of them.
    """

    def make(sizes, name='none', render_mode=None):
        # Within the function, so that workers need not import this file.
        class Counter(gym.Env):
            observation_space = gym.spaces.Box(-9.0, 9.0, (2,), np.float32)
            action_space = gym.spaces.Discrete(2)
            title = f'{name} {render_mode}'

            def reset(self, *, seed=None, options=None):
                super().reset(seed=seed)
                return np.float32([sizes['a'], sizes['deep']['b']]), {}

            def step(self, action):
                total = sizes['a'] + sizes['deep']['b']
                return self.reset()[0], float(total), False, False, {}

        return Counter()

    return make


@pytest.fixture
def registered():
    """A function that registers an environment under a name."""
    names = []

    def register(name, entry_point, **settings):
        gym.register(name, entry_point, **settings)
        names.append(name)

    yield register
    for name in names:
        del gym.registry[name]


def test_seed_depends_on_index_alone(nothing_left, start):
    constructor = env_setup.constructor(config())
    observs = [
        start(constructor, **settings).reset()
        for settings in (
            {'count': 5, 'env_processes': False},
            {'count': 3, 'env_processes': False},
            {'count': 5, 'num_workers': 1},
            {'count': 5, 'num_workers': 2},
            {'count': 3, 'num_workers': 3},
        )
    ]
    assert len(np.unique(observs[0][:, 0])) == 5
    for observ in observs[1:]:
        np.testing.assert_array_equal(observ, observs[0][: len(observ)])


@pytest.fixture
def few_files():
    """Allows few file descriptors."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (250, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_more_workers_than_file_descriptors(nothing_left, few_files, monkeypatch):
    monkeypatch.setattr(launch, 'start', None)  # It does not come to that.
    with pytest.raises(errors.ConfigError) as caught:
        env_setup.start(env_setup.constructor(config()), 100, num_workers=80)
    message = str(caught.value)
    needed = re.search(r'80 workers need (\d+) file desc', message)
    assert needed and 80 * launch.DESCRIPTORS < int(needed[1]) < 80 * 6 + 250
    assert 'may have 250' in message and f'ulimit -n {needed[1]}' in message
    assert 'num_workers' in message


def test_workers_of_all_batches_are_counted(few_files):
    env_setup.require_descriptors([8], 8)
    with pytest.raises(errors.ConfigError, match='80 workers need'):
        env_setup.require_descriptors([8] * 10, 8)


def test_worker_that_cannot_be_started_ends_the_others(nothing_left, monkeypatch):
    def fail_third(first):
        if first == 2:
            raise errors.EnvError('It cannot be started.')
        return start(first)

    start = launch.start
    monkeypatch.setattr(launch, 'start', fail_third)
    with pytest.raises(errors.EnvError, match='be started') as caught:
        env_setup.start(env_setup.constructor(config()), 3, num_workers=3)
    # The frames of the error could keep them alive.
    assert caught.tb and not psutil.Process().children()


def test_seeds_differ_by_run_purpose_and_session(start):
    constructor = env_setup.constructor(config())
    found = [
        start(constructor, env_processes=False, seed=seed).reset()[0, 0]
        for seed in (
            (0, env_setup.TRAIN, 0),
            (1, env_setup.TRAIN, 0),
            (0, env_setup.EVAL, 0),
            (0, env_setup.VIDEO, 0),
            (0, env_setup.TRAIN, 1000),
        )
    ]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize('count, num_workers, sizes', [(5, 2, [3, 2]), (2, 4, [1, 1]), (4, 1, [4])])
def test_environments_are_divided_among_workers(count, num_workers, sizes):
    envs = env_setup.start(env_setup.constructor(config()), count, num_workers=num_workers)
    try:
        assert [len(env) for env in envs] == sizes
    finally:
        for env in envs:
            env.close()


ASK_FOR_ATARI = "Ask for it as 'ale_py:ALE/Pong-v5', after pip install 'agents[atari]'."


@pytest.mark.parametrize(
    'name, messages',
    [
        ('CartPol-v1', ["no environment 'CartPol-v1'; did you mean 'CartPol"]),
        ('CartPole', ["did you mean 'CartPole-v1'?"]),
        ('CartPole-v9', ["did you mean 'CartPole-v1'?", 'v9']),
        ('None/Pong-v5', ["no environment 'None/Pong-v5'", 'Namespace None']),
        ('None/Pong-v5', ['name its module as well: MODULE:None/Pong-v5.']),
        ('no_such:ALE/Pong-v5', ['cannot be imported', ASK_FOR_ATARI]),
        (
            'dm_control/walker-walk-v0',
            ["'shimmy:dm_control/walker-walk-v0', after pip install 'shimmy[d"],
        ),
        (
            'shimmy:dm_control/walker-walk-v0',
            ["It is there after pip install 'shimmy[dm-control]'."],
        ),
        ('breaks_on_import:A-v0', ['cannot be imported: No luck.']),
        ('no_such:A-v0', ["'no_such:A-v0' cannot be imported: No module"]),
        ('json:CartPol-v1', ["did you mean 'CartPole-v1'?"]),
        ('native:CartPol-v1', ["did you mean 'CartPole-v1'?"]),
    ],
)  # fmt: skip
def test_unregistered_name_suggests(name, messages, tmp_path, monkeypatch):
    for key in [key for key in gym.registry if key.startswith('ALE/')]:
        monkeypatch.delitem(gym.registry, key)  # As if nobody had asked.
    (tmp_path / 'breaks_on_import.py').write_text('raise OSError("No luck")')
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(errors.ConfigError) as info:
        plan.require_valid(config(env=name))
    assert all(message in str(info.value) for message in messages)
    assert '\n' not in str(info.value)


@pytest.mark.parametrize(
    'entry_point, package, remedy',
    [
        ('no_such_package.envs:Env', 'no_such_package', '.'),
        ('gymnasium.envs.mujoco.ant_v5:AntEnv', 'mujoco', ": pip install 'gymnasium[mujoco]'"),
        ('gymnasium.envs.box2d:LunarLander', 'Box2D', ": pip install 'gymnasium[box2d]'"),
    ],
)
def test_missing_package_is_named_before_workers_start(
    registered, monkeypatch, entry_point, package, remedy
):
    for name in ('mujoco', 'Box2D'):
        monkeypatch.setitem(sys.modules, name, None)
    registered('Lacking-v0', entry_point)
    with pytest.raises(errors.ConfigError) as info:
        env_setup.constructor(config(env='Lacking-v0'))
    assert str(info.value) == (
        f"The environment 'Lacking-v0' needs the package {package!r}, which is "
        f'not installed{remedy}'
    )


@pytest.mark.parametrize('env_processes', [False, True])
def test_function_that_makes_a_vector_of_environments_is_refused(start, env_processes):
    def make():
        return gym.make_vec('CartPole-v1', num_envs=2)

    constructor = env_setup.constructor(config(env=make))
    message = '^Environment 0: What make makes is a vector.*argument num_envs'
    with pytest.raises(errors.EnvError, match=message) as info:
        start(constructor, 1, env_processes=env_processes)
    assert '\n' not in str(info.value)


def test_module_that_registers_an_environment(start, tmp_path, monkeypatch):
    (tmp_path / 'module_of_a_user.py').write_text(
        'import gymnasium\n'
        'from gymnasium.envs.classic_control import cartpole\n'
        'class Mine(cartpole.CartPoleEnv):\n'
        '    title = "mine"\n'
        'gymnasium.register("Mine-v0", "module_of_a_user:Mine")\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = config(env='module_of_a_user:Mine-v0')
    batch = start(env_setup.constructor(found))
    assert batch.call('title') == ['mine']


def test_what_a_known_package_has_registered_is_not_asked_for(
    start, tmp_path, monkeypatch, counter
):
    (tmp_path / 'shimmy.py').write_text(
        'import gymnasium\n'
        'from gymnasium.envs.classic_control import cartpole\n'
        'gymnasium.register("dm_control/pole-v0", cartpole.CartPoleEnv)\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, 'shimmy', raising=False)
    try:
        batch = start(env_setup.constructor(
            config(env='shimmy:dm_control/pole-v0')
        ))  # fmt: skip
        assert batch.reset().shape == (1, 4)
        with pytest.raises(errors.ConfigError) as info:
            plan.require_valid(config(env='shimmy:dm_control/pale-v0'))
        message = str(info.value)
        assert 'did you mean' in message and 'Ask for it' not in message
    finally:
        sys.modules.pop('shimmy', None)
        gym.registry.pop('dm_control/pole-v0', None)


class OldStep(gym.Env):
    """Has a step of before Gymnasium 0.26."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, False, {}


class OldReset(OldStep):
    """Has a reset of before that, too."""

    def reset(self):
        return np.zeros(2, np.float32)


@pytest.mark.parametrize('observ_bounds', ['ignore', 'clip'])
@pytest.mark.parametrize('env', [OldStep, OldReset])
def test_environments_of_before_are_told_what_to_do(start, env, observ_bounds):
    changed = config(env=env, observ_bounds=observ_bounds)
    batch = start(env_setup.constructor(changed), env_processes=False)
    with pytest.raises(errors.EnvError) as info:
        batch.reset()
        batch.step([0])
    last = str(info.value).splitlines()[-1]
    assert 'as before Gymnasium 0.26; wrap the environment with shimmy' in last


def test_what_is_no_environment_is_named(start, monkeypatch):
    class Duck:
        reset = step = None

    message = 'What Duck makes is no gymnasium.Env but a .*Duck. Derive it'
    for version, wrapper in (('0.21.0', 'GymV21'), ('0.26.2', 'GymV26')):
        monkeypatch.setattr(importlib.metadata, 'version', lambda _, v=version: v)
        with pytest.raises(errors.EnvError, match=wrapper):
            env_setup.constructor(config(env=Duck))()
    with pytest.raises(errors.EnvError, match=message) as info:
        start(env_setup.constructor(config(env=Duck)), env_processes=False)
    assert '\n' not in str(info.value)


def test_environment_registered_here_works_in_a_worker(start, registered, counter):
    def make(**kwargs):
        return counter(**kwargs)

    registered('Counter-v0', make, kwargs={'name': 'given'})
    found = config(env='Counter-v0', env_kwargs={'sizes': SIZES})
    batch = start(env_setup.constructor(found), 2, num_workers=1)
    np.testing.assert_array_equal(batch.reset(), [[1, 2], [1, 2]])
    assert batch.call('title') == ['given None'] * 2


SIZES = {'a': 1, 'deep': {'b': 2}}


@pytest.mark.parametrize('env_processes', [False, True])
def test_function_is_called_with_its_settings(start, counter, env_processes):
    found = config(env=counter, env_kwargs={'sizes': SIZES, 'name': 'x'})
    constructor = env_setup.constructor(found)
    batch = start(constructor, 2, env_processes=env_processes)
    np.testing.assert_array_equal(batch.reset(), [[1, 2], [1, 2]])
    _, reward, terminated, truncated, _ = batch.step([0, 0])
    np.testing.assert_array_equal(reward, [3, 3])
    assert not terminated.any() and not truncated.any()
    assert batch.call('title') == ['x None'] * 2


def test_render_mode_is_one_of_the_settings(start, counter):
    found = config(env=counter, env_kwargs={'sizes': SIZES})
    constructor = env_setup.constructor(found, render_mode='rgb_array')
    batch = start(constructor, env_processes=False)
    assert batch.call('title') == ['none rgb_array']
    assert found.env_kwargs == {'sizes': SIZES}


def test_settings_reach_a_named_environment(start):
    found = config(env='Pendulum-v1', env_kwargs={'g': 2.5})
    batch = start(env_setup.constructor(found), env_processes=False)
    assert batch.call('g') == [2.5]


def test_unknown_setting_of_environment_is_told(start):
    constructor = env_setup.constructor(config(env_kwargs={'colour': 5}))
    with pytest.raises(errors.EnvError) as info:
        start(constructor, 2, num_workers=1)
    assert str(info.value) == (
        'Environment 0: The env_kwargs of CartPole-v1 must be among its '
        "arguments (sutton_barto_reward), got 'colour'."
    )


@pytest.mark.parametrize('kind', ['name', 'function'])
def test_episode_is_cut_off_after_max_length(start, counter, kind):
    by_name = config(env='Pendulum-v1', max_length=3)
    by_function = config(env=counter, env_kwargs={'sizes': SIZES}, max_length=3)
    found = by_name if kind == 'name' else by_function
    batch = start(env_setup.constructor(found), env_processes=False)
    batch.reset()
    action = np.zeros((1, *batch.action_space.shape), np.int32)
    outcomes = [batch.step(action)[2:4] for _ in range(6)]
    assert not any(terminated[0] for terminated, _ in outcomes)
    cut = [bool(truncated[0]) for _, truncated in outcomes]
    assert cut == [False, False, True] * 2


@pytest.mark.parametrize(
    'registered, max_length, limit',
    [(1600, None, 1600), (1600, 50, 50), (7, 50, 7), (None, None, None)],
)
def test_limit_is_that_of_the_environment_unless_max_length_is_lower(
    monkeypatch, registered, max_length, limit
):
    name = 'OfSomeSteps-v0'
    monkeypatch.setattr(gym.envs.registration, 'registry', {})
    point = 'gymnasium.envs.classic_control:PendulumEnv'
    gym.register(name, point, max_episode_steps=registered)
    found = config(env=name, max_length=max_length)
    assert env_setup.limit(found) == limit
    made = env_setup.constructor(found)()
    assert made.spec.max_episode_steps == limit
    vector = vectors.start(config(**{**found, 'env': f'vector:{name}'}), 1, [0])
    assert vector.env.envs[0].spec.max_episode_steps == limit
    vector.close()


@pytest.mark.parametrize('max_length, limit', [(None, 200), (300, 200), (50, 50)])
def test_limit_of_a_native_environment(max_length, limit):
    found = config(env='native:Pendulum-v1', max_length=max_length)
    for batch_env in simulation_graph.define_native_batch_envs(found):
        assert batch_env._max_length == limit
    made = native.constructor(found)()
    assert made.get_wrapper_attr('_max_episode_steps') == limit


def test_environments_of_mujoco_are_quiet(start, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    found = config(env='HalfCheetah-v5', max_length=3)
    batch = start(env_setup.constructor(found), 2, num_workers=1)
    batch.reset()
    batch.step(np.zeros((2, 6), np.float32))
    batch.close()
    assert capfd.readouterr() == ('', '')
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize('policy', ['ignore', 'clip', 'error'])
def test_observations_beyond_the_bounds(start, counter, policy):
    settings = config(
        env=counter, env_kwargs={'sizes': {'a': 20.0, 'deep': {'b': 2.0}}}, observ_bounds=policy
    )
    batch = start(env_setup.constructor(settings))
    if policy == 'error':
        with pytest.raises(errors.EnvError, match=r'is 20.0 at \(0,\), where'):
            batch.reset()
    else:
        first = 9.0 if policy == 'clip' else 20.0
        assert batch.reset().tolist() == [[first, 2.0]]
        assert batch.step(np.zeros(1, int))[0].tolist() == [[first, 2.0]]


def test_constructor_takes_along_what_it_needs_alone(counter):
    settings = {'env': counter, 'env_kwargs': {'sizes': {}}}
    network = [object()] * 10_000
    sizes = [
        len(cloudpickle.dumps(env_setup.constructor(
            config(**settings, observ_bounds=bounds, network=lambda: network)
        )))
        for bounds in SETTINGS['observ_bounds'].kind.choices
    ]  # fmt: skip
    assert max(sizes) < 10_000


def test_bounds_are_for_environments_in_processes():
    with pytest.raises(errors.ConfigError, match='in processes; nothing'):
        plan.require_valid(config(env='native:CartPole-v1', observ_bounds='clip'))


def test_function_that_cannot_be_asked_for_frames_is_refused(counter):
    def blind(size):
        raise AssertionError('It is not called.')

    def open_to_all(**kwargs):
        raise AssertionError('It is not called.')

    env_setup.constructor(config(env=blind))
    for env in (counter, open_to_all, 'CartPole-v1'):
        env_setup.constructor(config(env=env), render_mode='rgb_array')
    for env in (blind, functools.partial(blind, size=3)):
        settings = config(env=env)
        with pytest.raises(
            errors.EnvError, match=r'blind.* takes no argument .*Add render_mode=None'
        ):
            env_setup.constructor(settings, render_mode='rgb_array')


class Unseen(gym.Env):
    metadata = {'render_modes': ['human']}  # noqa: RUF012

    def __init__(self, render_mode=None):
        assert render_mode in (None, 'human')


@pytest.mark.parametrize('modes, told', [(['human'], 'human'), ([], 'none')])
def test_environment_that_draws_no_frames_is_refused(monkeypatch, modes, told):
    monkeypatch.setitem(Unseen.metadata, 'render_modes', modes)
    if not modes:  # Nothing is declared, and nothing can be asked for.
        monkeypatch.setattr(Unseen, '__init__', lambda self: None)
    gym.register('Unseen-v0', Unseen)
    try:
        make = env_setup.constructor(config(env='Unseen-v0'), render_mode='rgb_array')
        message = rf"'Unseen-v0' draws no frames.*'rgb_array', and it has {told}\."
        with pytest.raises(errors.EnvError, match=message):
            make()
    finally:
        del gym.registry['Unseen-v0']


def test_environment_that_is_not_registered_in_the_worker():
    def make():
        return gym.make('Nowhere/Some-v0')

    message = 'Namespace Nowhere not found.*Import the package .* within make,'
    with pytest.raises(errors.EnvError, match=message):
        env_setup.constructor(config(env=make))()


def test_warnings_are_shown_by_the_first_worker_alone(capfd, monkeypatch):
    def make():
        warnings.warn('an oddity', UserWarning, stacklevel=1)
        return gym.make('CartPole-v1')

    monkeypatch.delenv('PYTHONWARNINGS', raising=False)
    monkeypatch.setattr(launch, '_started', itertools.count())
    for each in env_setup.start(make, 4, num_workers=2):
        assert each.observation_space
        each.close()
    assert capfd.readouterr().err.count('UserWarning: an oddity') == 1


def test_camera_follows_the_body(start):
    settings = config(env='HalfCheetah-v5')
    batch = start(env_setup.constructor(settings, 'rgb_array'))

    def body(place):
        """How much of the picture is of the colour of the body."""
        batch.call('set_state', np.eye(9)[0] * place, np.zeros(9))
        (frame,) = batch.call('render')
        red, green, blue = np.moveaxis(frame.astype(int), -1, 0)
        return ((red > green + 20) & (green > blue + 20)).mean()

    batch.reset()
    assert body(0.0) > 0.01
    assert body(30.0) == pytest.approx(body(0.0), rel=0.2)


@pytest.mark.parametrize(
    'name', ['Reacher-v5', pytest.param('InvertedPendulum-v5', marks=pytest.mark.slow)]
)
def test_body_that_stays_has_the_camera_of_gymnasium(start, name):
    def theirs(render_mode):
        return gym.make(name, render_mode=render_mode)

    frames = []
    for env in (name, theirs):
        settings = config(env=env, max_length=50)
        batch = start(env_setup.constructor(settings, 'rgb_array'))
        batch.reset()
        frames.extend(batch.call('render'))
    np.testing.assert_array_equal(*frames)


def test_atari_says_nothing(run_python):
    pytest.importorskip('ale_py')
    program = (
        'from agents.scripts import configs\n'
        'from agents.training import env_setup\n'
        "config = configs.ppo(env='ale_py:ALE/Pong-v5')\n"
        'env_setup.constructor(config)().reset()'
    )
    code, _, problems = run_python('-c', program)
    assert (code, problems) == (0, '')


@pytest.mark.parametrize(
    ('env', 'kwargs', 'message'),
    [
        ('native:Catch-v0', {'frame': 2}, r"\(frames\), got 'frame'; .*'frames'"),
        ('native:CartPole-v1', {'size': 2}, r"\(none\), got 'size'\."),
        ('native:Catch-v0', {'frames': 'a'}, "frames must .*, got 'a'"),
        ('CartPole-v1', {'sutton_barto_rewards': 1}, "'sutton_barto_reward'"),
        ('Pendulum-v1', {1: 2}, r'\(g\), got 1'),
        ('Counter', {'size': 2}, r"\(sizes, name\), got 'size'; .*'sizes'"),
        ('Counter', {'name': 'x'}, 'must have sizes, .* arguments are sizes, n'),
    ],
)
def test_arguments_that_an_environment_does_not_take(env, kwargs, message, counter):
    settings = config(env=counter if env == 'Counter' else env, env_kwargs=kwargs)
    with pytest.raises(errors.UserError, match=message) as raised:
        env_kinds.of(settings).start_playing(settings, 1, env_processes=False)
    assert '\n' not in str(raised.value)


def test_arguments_that_a_class_hands_on_are_looked_up():
    make = gym.make('Ant-v5').unwrapped.__class__
    env_arguments.require_arguments(make, 'Ant-v5', {'width': 100})
    with pytest.raises(errors.EnvError, match="got 'widht'; .*'width'"):
        env_arguments.require_arguments(make, 'Ant-v5', {'widht': 100})
