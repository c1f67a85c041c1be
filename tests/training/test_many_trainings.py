"""Many trainings in one process, which leave nothing behind."""

import gc
import json
import os
import threading

import gymnasium as gym
import pytest

import agents
from agents.tools.graph import programs

OBJECTS = (
    'BatchEnv', 'InGraphBatchEnv', 'NativeBatchEnv', 'ExternalProcess', 'Block',
    'PPO', 'Actor', 'EpisodeScores', 'mmap', 'FuncGraph', 'ConcreteFunction',
    'ResourceVariable',
)  # fmt: skip

TRAIN = f"""
import gc, json, os, sys
import agents

def settings(seed):
    return agents.configs.ppo(
        env=sys.argv[1], num_workers=1, max_length=10, num_agents=2,
        update_every=10, batch_size=20, update_epochs=1, steps=40,
        eval_every=20, eval_episodes=1, policy_layers=[4], value_layers=[4],
        seed=seed,
    )

def look():
    for _ in range(3):  # Some go only after what they belonged to.
        gc.collect()
    names = [type(thing).__name__ for thing in gc.get_objects()]
    with open('/proc/self/statm') as file:
        pages = int(file.read().split()[1])
    with open('/proc/self/maps') as file:
        maps = sum(1 for _ in file)
    return {{
        'objects': {{n: names.count(n) for n in {OBJECTS} if n in names}},
        'descriptors': len(os.listdir('/proc/self/fd')),
        'memory': pages,
        'maps': maps,
    }}

for seed in range(3):
    for _ in agents.train(settings(seed)):
        pass
    print(json.dumps(look()))
"""


class Brittle(gym.Wrapper):
    """Raises an error after so many steps."""

    def __init__(self, steps):
        super().__init__(gym.make('CartPole-v1'))
        self.left = steps

    def step(self, action):
        self.left -= 1
        if self.left < 0:
            raise ValueError('enough')
        return super().step(action)


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists('/proc/self/statm'), reason='There is no /proc.')
def test_three_trainings_take_as_much_as_two(run_python):
    code, output, problems = run_python('-c', TRAIN, 'CartPole-v1')
    assert code == 0, problems
    first, second, last = map(json.loads, output.splitlines())
    assert last['objects'] == {}
    assert last['descriptors'] == first['descriptors']
    assert last['memory'] < 1.04 * second['memory']
    # A program takes three for each of its parts.
    assert last['maps'] < second['maps'] + 30


def left():
    for _ in range(3):
        gc.collect()
    names = [type(thing).__name__ for thing in gc.get_objects()]
    return {name: names.count(name) for name in OBJECTS[:8]}


@pytest.mark.slow
def test_nothing_is_left_of_a_training_that_is_dropped(tiny, eagerly):
    before, descriptors = left(), len(os.listdir('/proc/self/fd'))
    for env in ('CartPole-v1', 'native:CartPole-v1'):
        scores = agents.train(tiny(env=env, num_workers=1))
        next(scores)
        del scores
    assert left() == before
    assert len(os.listdir('/proc/self/fd')) == descriptors


@pytest.mark.slow
def test_nothing_is_left_of_a_training_that_failed(tiny, eagerly):
    before, descriptors = left(), len(os.listdir('/proc/self/fd'))
    config = tiny(env=Brittle, env_kwargs={'steps': 7}, num_workers=1)
    with pytest.raises(agents.tools.EnvError, match='enough'):
        list(agents.train(config))
    assert left() == before
    assert len(os.listdir('/proc/self/fd')) == descriptors


@pytest.mark.slow
def test_training_goes_on_after_another_has_ended(tiny):
    config = tiny(env='native:CartPole-v1')
    alone = list(agents.train(config))
    scores = agents.train(config)
    beside = [next(scores)]
    for _ in agents.train(config.copy(seed=1)):
        pass
    beside.extend(scores)
    assert beside == alone


def test_programs_are_kept_while_another_thread_may_run_them():
    before = programs._is_only_thread()
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert not programs._is_only_thread()
    finally:
        done.set()
        thread.join()
    assert programs._is_only_thread() == before


@pytest.mark.parametrize('module', ['ipykernel.heartbeat', 'mine'])
def test_threads_of_a_notebook_keep_no_programs(module):
    begun, done = threading.Event(), threading.Event()
    names = {'__name__': module, 'begun': begun, 'done': done}
    exec('def run(): begun.set(); done.wait()', names)
    thread = threading.Thread(target=names['run'])
    thread.start()
    begun.wait()
    try:
        assert programs._is_only_thread() == (module != 'mine')
    finally:
        done.set()
        thread.join()
