"""Environments of other packages through every command, as a table.

    pip install minigrid highway-env 'shimmy[dm-control]' ...
    python -m benchmarks.foreign
    python -m benchmarks.foreign MiniGrid ALE/ --directory /tmp/foreign

Each environment whose package is installed is checked, trained for a thousand
steps, evaluated and filmed by the commands, in a process of its own, and its
policy is loaded in another. A cell is `works`, the sentence that the command
ends with, or `TRACEBACK`.
"""

from __future__ import annotations  # Workers get functions without `Any`.

import argparse
import contextlib
import importlib
import importlib.util
import io
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from typing import Any, NamedTuple

HERE = pathlib.Path(__file__)
COMMANDS = 'check', 'train', 'evaluate', 'visualize', 'load'
SECONDS = 600

# So that a thousand steps are a training, whatever the settings.
SMALL = 'max_length=100', 'eval_episodes=1', 'eval_every=1000'


class Task(NamedTuple):
    """An environment, the module that it needs, and settings for it."""

    env: str
    module: str
    settings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.env.replace(f'{HERE}', 'foreign.py')


def own(function: str) -> str:
    return f'{HERE}:{function}'


TASKS = (
    *(
        Task(env, module)
        for env, module in (
            ('LunarLander-v3', 'Box2D'),
            ('BipedalWalkerHardcore-v3', 'Box2D'),
            ('CarRacing-v3', 'Box2D'),
            ('FrozenLake-v1', 'gymnasium'),
            ('Taxi-v4', 'gymnasium'),
            ('Blackjack-v1', 'gymnasium'),
            ('CliffWalking-v1', 'gymnasium'),
            ('minigrid:MiniGrid-Empty-5x5-v0', 'minigrid'),
            ('highway_env:highway-fast-v0', 'highway_env'),
            ('highway_env:parking-v0', 'highway_env'),
            ('flappy_bird_gymnasium:FlappyBird-v0', 'flappy_bird_gymnasium'),
            ('gymnasium_robotics:PointMaze_UMaze-v3', 'gymnasium_robotics'),
            ('gymnasium_robotics:FetchReachDense-v4', 'gymnasium_robotics'),
            ('pybullet_envs_gymnasium:HopperBulletEnv-v0', 'pybullet_envs_gymnasium'),
            ('panda_gym:PandaReachDense-v3', 'panda_gym'),
            ('vizdoom.gymnasium_wrapper:VizdoomBasic-v1', 'vizdoom'),
            ('popgym:popgym-RepeatPreviousEasy-v0', 'popgym'),
            ('tetris_gymnasium.envs:tetris_gymnasium/Tetris', 'tetris_gymnasium'),
            ('ale_py:ALE/Breakout-v5', 'ale_py'),
            ('ALE/Breakout-v5', 'ale_py'),
            ('shimmy:dm_control/walker-walk-v0', 'dm_control'),
            ('shimmy:dm_control/cartpole-balance-v0', 'dm_control'),
            ('shimmy:dm_control/humanoid-stand-v0', 'dm_control'),
            ('shimmy:dm_control/fish-swim-v0', 'dm_control'),
            ('shimmy:dm_control/dog-walk-v0', 'dm_control'),
            ('shimmy:dm_control/RodentMazeForage-v0', 'dm_control'),
            ('mo_gymnasium:deep-sea-treasure-v0', 'mo_gymnasium'),
            ('envpool:Pong-v5', 'envpool'),
            ('envpool:HalfCheetah-v4', 'envpool'),
            ('vector:phys2d/CartPole-v1', 'jax'),
            ('phys2d/CartPole-v1', 'jax'),
            ('vector:phys2d/Pendulum-v0', 'jax'),
            (own('minigrid_pixels'), 'minigrid'),
            (own('crafter'), 'crafter'),
            (own('scaled_breakout'), 'ale_py'),
            (own('wrapped'), 'gymnasium'),
            (own('gymnax'), 'gymnax'),
            (own('mario'), 'gym_super_mario_bros'),
            (own('procgen'), 'procgen'),
        )
    ),
    Task('ale_py:ALE/Breakout-v5', 'ale_py', ('env_kwargs={obs_type: ram}',)),
    Task('gym_anytrading:stocks-v0', 'gym_anytrading'),
    Task('metaworld:Meta-World/MT1', 'metaworld', ('env_kwargs={env_name: reach-v3}',)),
    Task('vector:metaworld:Meta-World/MT10', 'metaworld'),
)


def minigrid_pixels(render_mode: str | None = None) -> Any:
    import gymnasium as gym

    wrappers: Any = importlib.import_module('minigrid.wrappers')
    env = gym.make('MiniGrid-Empty-5x5-v0', render_mode=render_mode)
    return wrappers.RGBImgObsWrapper(env)


def crafter(render_mode: str | None = None) -> Any:
    """Crafter, which has the interface from before Gymnasium 0.26."""
    import gymnasium as gym
    import numpy as np

    package: Any = importlib.import_module('crafter')

    class Crafter(gym.Env):
        metadata = {'render_modes': ['rgb_array']}  # noqa: RUF012
        observation_space = gym.spaces.Box(0, 255, (64, 64, 3), np.uint8)

        def __init__(self) -> None:
            self._env = package.Env()
            self.action_space = gym.spaces.Discrete(self._env.action_space.n)
            self.render_mode = render_mode

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            if seed is not None:
                self._env = package.Env(seed=seed)
            return self._env.reset(), {}

        def step(self, action: Any) -> Any:
            observ, reward, done, _ = self._env.step(action)
            return observ, float(reward), bool(done), False, {}

        def render(self) -> Any:
            return self._env.render()

    return Crafter()


def scaled_breakout(render_mode: str | None = None) -> Any:
    import ale_py
    import gymnasium as gym

    gym.register_envs(ale_py)
    env = gym.make('ALE/Breakout-v5', render_mode=render_mode, frameskip=1)
    env = gym.wrappers.AtariPreprocessing(env, scale_obs=True)
    return gym.wrappers.FrameStackObservation(env, 4)


def wrapped(render_mode: str | None = None) -> Any:
    import gymnasium as gym

    env = gym.make('Pendulum-v1', render_mode=render_mode)
    env = gym.wrappers.NormalizeObservation(env)
    env = gym.wrappers.FrameStackObservation(env, 2)
    return gym.wrappers.TransformReward(env, lambda reward: 0.1 * float(reward))


def gymnax() -> Any:
    """One of gymnax by a wrapper of ours, as it stands on Gym's."""
    import gymnasium as gym
    import jax
    import numpy as np

    package: Any = importlib.import_module('gymnax')

    env, params = package.make('CartPole-v1')

    class Gymnax(gym.Env):
        observation_space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)
        action_space = gym.spaces.Discrete(2)

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            self._key = jax.random.key(int(self.np_random.integers(2**31)))
            observ, self._state = env.reset(self._key, params)
            return np.asarray(observ), {}

        def step(self, action: Any) -> Any:
            self._key, key = jax.random.split(self._key)
            observ, self._state, reward, done, _ = env.step(key, self._state, action, params)
            return np.asarray(observ), reward, bool(done), False, {}

    return Gymnax()


def mario() -> Any:
    package: Any = importlib.import_module('gym_super_mario_bros')
    return package.make('SuperMarioBros-v0')


def procgen() -> Any:
    package: Any = importlib.import_module('gym')
    return package.make('procgen:procgen-coinrun-v0')


def run(task: Task, directory: pathlib.Path) -> Iterator[tuple[str, str, str]]:
    """Run the commands but the last; yields each, its outcome and output."""
    from agents.scripts import check, evaluate, train, visualize

    settings = [f'--set={text}' for text in (*SMALL, *task.settings)]
    only = [f'--set={text}' for text in task.settings]
    env = f'--env={task.env}'
    logdir = [f'--logdir={directory / "run"}', env, *only]
    commands = {
        'check': (check, [env, '--steps=300', *only]),
        'train': (
            train,
            [env, '--steps=1000', *settings] + [f'--logdir={directory}', '--name=run'],
        ),
        'evaluate': (evaluate, [*logdir, '--num_episodes=1']),
        'visualize': (visualize, [*logdir, '--set=max_length=20']),
    }
    for name, (module, arguments) in commands.items():
        outcome, text = _outcome(lambda m=module, a=arguments: m.main(a))
        yield name, outcome, text
        if name == 'train' and outcome != 'works':
            return


def load(task: Task, directory: pathlib.Path) -> Iterator[tuple[str, str, str]]:
    """Load the policy and ask it for an action."""
    import agents
    from agents.config import overrides
    from agents.training import env_setup, experiments, vectors

    def act() -> int:
        policy = agents.load(directory / 'run')
        config = experiments.find(env=task.env, look=False).config
        changed = overrides.apply(config, task.settings)
        observ = policy.observation_space.sample()
        if not vectors.is_vector(changed):
            env = env_setup.constructor(changed)()
            observ, _ = env.reset(seed=0)
        policy.reset()
        assert policy(observ) in policy.action_space
        return 0

    yield 'load', *_outcome(act)


def _outcome(command: Any) -> tuple[str, str]:
    """Call a command; returns what came of it and all that was printed."""
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            code = command()
    except SystemExit as error:
        code = error.code
    except Exception:
        output.write(traceback.format_exc())
        code = 99
    text = output.getvalue()
    if not code:
        return 'works', text
    lines = text.splitlines()
    told = [i for i, line in enumerate(lines) if re.match(r'(error|wrong) *', line)]
    if code == 99:
        return f'TRACEBACK {lines[-1]}', text
    if not told:
        return f'exit {code}: {lines[-1] if lines else ""}', text
    sentence = re.sub(r'^(error|wrong):? *', '', lines[told[0]])
    for line in lines[told[0] + 1 :]:
        if not line.startswith(' '):
            break
        sentence += f' {line.strip()}'
    mark = 'TRACEBACK ' if 'Traceback (most' in text else ''
    return f'{mark}{sentence}', text


def measure(task: Task, directory: pathlib.Path) -> dict[str, str]:
    """Run all commands in processes of their own; returns their outcomes."""
    directory.mkdir(parents=True, exist_ok=True)
    outcomes = dict.fromkeys(COMMANDS, '')
    log = open(directory / 'output.txt', 'w')
    with log:
        for part in ('run', 'load'):
            if part == 'load' and outcomes['train'] != 'works':
                break
            arguments = [part, json.dumps(task), str(directory)]
            try:
                subprocess.run(
                    [sys.executable, '-m', 'benchmarks.foreign', '--do', *arguments],
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    timeout=SECONDS,
                    cwd=HERE.parent.parent,
                )
            except subprocess.TimeoutExpired:
                outcomes['load'] = f'more than {SECONDS} s'
            found = directory / f'{part}.json'
            if found.exists():
                outcomes |= json.loads(found.read_text())
    return outcomes


def do(part: str, task: str, directory: str) -> None:
    """Be the process of `measure`."""
    env, module, settings = json.loads(task)
    place = pathlib.Path(directory)
    function = {'run': run, 'load': load}[part]
    outcomes = {}
    for name, outcome, text in function(Task(env, module, tuple(settings)), place):
        print(f'== {name}: {outcome}\n{text}', flush=True)
        outcomes[name] = outcome
        (place / f'{part}.json').write_text(json.dumps(outcomes))


def main() -> None:
    if sys.argv[1:2] == ['--do']:
        do(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('names', nargs='*', help='parts of names (all)')
    parser.add_argument('--directory', type=pathlib.Path, help='keep runs here')
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        home = given.directory or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        print(f'| environment | {" | ".join(COMMANDS)} | seconds |')
        print('| --- ' * (len(COMMANDS) + 2) + '|')
        for number, task in enumerate(TASKS):
            if given.names and not any(n in task.name for n in given.names):
                continue
            if importlib.util.find_spec(task.module) is None:
                continue
            started = time.perf_counter()
            outcomes = measure(task, home.absolute() / f'{number}')
            shown = ' '.join([task.name, *task.settings])
            cells = ' | '.join(outcomes[name] for name in COMMANDS)
            seconds = time.perf_counter() - started
            print(f'| {shown} | {cells} | {seconds:.0f} |', flush=True)


if __name__ == '__main__':
    main()
