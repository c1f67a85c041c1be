"""Policies of finished runs, called on observations."""

import csv
import json
import re
import shutil

import gymnasium as gym
import numpy as np
import pytest

import agents
from agents import tools
from agents.config import store
from agents.parts import policy
from agents.policies.load import LoadedPolicy
from agents.tools import errors
from agents.training import env_setup, networks, plan, storage
from agents.training.train import train

OBSERVS = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)


class Mission(gym.Space):
    """A space of texts as MiniGrid has its own."""

    def __init__(self):
        super().__init__(dtype=str)

    def sample(self):
        return 'go to x'


class Told(gym.Env):
    """Observes a text beside numbers."""

    action_space = gym.spaces.Discrete(2)

    def __init__(self):
        place = gym.spaces.Box(-1, 1, (2,))
        self.observation_space = gym.spaces.Dict({'place': place, 'a mission': Mission()})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 1.0, False, False, {}


@pytest.fixture
def run(debug_run, tmp_path):
    """A copy of the run, to be changed."""
    return shutil.copytree(debug_run.directory, tmp_path / 'run')


def replace(run, old, new):
    file = run / store.CONFIG_FILE
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_single_observations(debug_run):
    loaded = agents.load(debug_run.directory)
    loaded.reset()
    actions = [loaded(observ) for observ in OBSERVS]
    assert all(loaded.action_space.contains(action) for action in actions)
    assert actions == [loaded(observ) for observ in OBSERVS]
    # All of them are not one and the same.
    assert set(map(int, actions)) == {0, 1}


def test_policy_tells_what_it_is(debug_run):
    text = repr(agents.load(debug_run.directory))
    assert re.fullmatch(
        r'LoadedPolicy\(checkpoint=\d+, observation_space=Box.*, '
        r'action_space=Discrete\(2\)\)',
        text,
    )


def test_batch_is_like_single_observations(debug_run):
    single = agents.load(debug_run.directory)
    batch = agents.load(debug_run.directory, num_agents=len(OBSERVS))
    expected = [single(observ) for observ in OBSERVS]
    np.testing.assert_array_equal(batch(OBSERVS), expected)
    assert batch(OBSERVS).dtype == single.action_space.dtype


@pytest.mark.slow
def test_text_is_left_out(tiny, tmp_path, eagerly):
    config = tiny(env=Told, steps=10, eval_every=10)
    agents.train(config, tmp_path, env_processes=False).run()
    # Its space is equal to the one that was saved.
    found = agents.evaluate(tmp_path, 1, config=config, env_processes=False)
    assert found.mean == found.mean_length
    single = agents.load(tmp_path, config)
    batch = agents.load(tmp_path, config, num_agents=2)
    both = single.observation_space, single.action_space
    told = plan.describe_network(*both, config)
    assert told[0] == 'a mission: text, left out'
    observs = {'a mission': ['go to x', ''], 'place': np.ones((2, 2))}
    action = single({'a mission': 'go to x', 'place': np.ones(2)})
    assert [*batch(observs)] == [action] * 2
    assert single({'place': np.ones(2)}) == action
    with pytest.raises(TypeError, match="has the key 'b', which is not in its"):
        single({'place': np.ones(2), 'b': 'text'})
    exported = agents.export(tmp_path, tmp_path / 'policy.npz', config=config)
    assert exported.comparison.source == 'Told'
    assert [each['name'] for each in exported.description['inputs']] == ['observ_place']


@pytest.mark.parametrize('count', [1, 5, 7])
def test_batch_of_another_size_is_refused(debug_run, count):
    batch = agents.load(debug_run.directory, num_agents=6)
    observs = np.resize(OBSERVS, (count, 4))
    with pytest.raises(ValueError, match=f'Expected 6 .* got {count}'):
        batch(observs)


def test_observation_of_another_shape_is_refused(debug_run):
    loaded = agents.load(debug_run.directory)
    with pytest.raises(TypeError, match=r'should have the shape \(4,\)'):
        loaded(OBSERVS)


def test_samples_vary_and_can_be_repeated(debug_run):
    first, second = [agents.load(debug_run.directory) for _ in range(2)]
    observs = [OBSERVS[0]] * 30
    samples = [int(first(o, deterministic=False)) for o in observs]
    assert set(samples) == {0, 1}
    assert samples == [int(second(o, deterministic=False)) for o in observs]


@pytest.mark.parametrize('kind', ['compiled', pytest.param('recurrent', marks=pytest.mark.slow)])
def test_scores_are_those_of_the_evaluation(debug_run, recurrent_run, kind):
    directory = debug_run.directory if kind == 'compiled' else recurrent_run
    with open(directory / 'progress.csv', newline='') as file:
        rows = [row for row in csv.DictReader(file) if row['phase'] == 'eval']
    assert len(rows) == 2
    config = store.load_config(directory)
    count = config.eval_episodes
    envs = env_setup.start(
        env_setup.constructor(config),
        count,
        env_processes=False,
        seed=(config.seed, env_setup.EVAL, 0),
    )
    batch = tools.BatchEnv(envs)
    for row in rows:
        step = int(row['step'])
        loaded = agents.load(directory, None, step, count)
        scores = evaluate(batch, loaded)
        assert scores.mean() == pytest.approx(float(row['score']), rel=1e-5)


def evaluate(batch, loaded):
    """One episode of each environment; the later ones wait for all."""
    observ, counts = batch.reset(), np.ones(len(batch), bool)
    scores = np.zeros(len(batch))
    loaded.reset()
    while counts.any():
        observ, reward, terminated, truncated, _ = batch.step(loaded(observ))
        scores += reward * counts
        counts &= ~(terminated | truncated)
        loaded.reset(terminated | truncated)
    return scores


def test_loading_writes_nothing(run):
    before = {path: path.stat().st_mtime_ns for path in run.rglob('*')}
    agents.load(run)(OBSERVS[0])
    assert before == {path: path.stat().st_mtime_ns for path in run.rglob('*')}


@pytest.fixture(scope='module')
def recurrent_run(train_once):
    """A run with a recurrent network and continuous actions."""
    config = agents.configs.ppo(
        env='Pendulum-v1',
        network='recurrent',
        max_length=10,
        num_agents=2,
        update_every=5,
        steps=20,
        batch_size=5,
        update_epochs=1,
        eval_every=10,
        eval_episodes=2,
        policy_layers=[4],
        value_layers=[4],
        recurrent_units=4,
        init_output_factor=3.0,
    )
    return train_once('recurrent', config)


STATES = np.float32([[1, 0, 1], [0, 1, -2], [-1, 0, 0.5]])


def test_recurrent_state_goes_on_until_reset(recurrent_run):
    loaded = agents.load(recurrent_run)
    loaded.reset()
    first = [loaded(observ) for observ in STATES]
    assert not np.array_equal(loaded(STATES[0]), first[0])
    loaded.reset()
    np.testing.assert_array_equal([loaded(o) for o in STATES], first)


def test_recurrent_state_is_reset_where_the_mask_is_true(recurrent_run):
    loaded = agents.load(recurrent_run, num_agents=3)
    first, second = loaded(STATES), loaded(STATES)
    assert (first != second).all()
    loaded.reset()
    np.testing.assert_array_equal(loaded(STATES), first)
    loaded.reset([True, False, True])
    third = loaded(STATES)
    np.testing.assert_array_equal(third[::2], first[::2])
    np.testing.assert_array_equal(third[1], second[1])


@pytest.mark.slow
def test_agents_of_a_batch_have_states_of_their_own(recurrent_run):
    batch = agents.load(recurrent_run, num_agents=3)
    batch(STATES)
    together = batch(STATES)
    for row, observ in enumerate(STATES):
        single = agents.load(recurrent_run)
        single(observ)
        np.testing.assert_allclose(single(observ), together[row], rtol=1e-5)


def test_actions_are_within_the_bounds(recurrent_run):
    loaded = agents.load(recurrent_run, num_agents=3)
    actions = np.concatenate([loaded(STATES, deterministic=False) for _ in range(50)])
    assert all(loaded.action_space.contains(action) for action in actions)
    # The bounds are at 2 and, with a deviation of 1 in the range from -1 to 1,
    # often reached.
    assert (actions.min(), actions.max()) == (-2, 2)
    assert (abs(actions) < 1).any()


@pytest.mark.parametrize(
    'space',
    [
        gym.spaces.Discrete(3, start=5),
        gym.spaces.MultiDiscrete([2, 3], start=[4, -1]),
        gym.spaces.MultiBinary(3),
        gym.spaces.Box(-0.1, 0.1, (2,), np.float64),
        gym.spaces.Box(-np.inf, 0.5, (2, 2), np.float32),
    ],
)
def test_actions_are_those_of_the_environment(space, tiny, eagerly):
    config, observs = tiny(), gym.spaces.Box(-1, 1, (3,), np.float32)
    made = networks.define(observs, space, config)
    loaded = LoadedPolicy(policy.define(made.policy, observs, space, config), observs)
    actions = [loaded(STATES[0], deterministic=False) for _ in range(20)]
    actions.append(loaded(STATES[0]))
    assert all(space.contains(action) for action in actions)
    assert len({str(action) for action in actions}) > 1


def test_missing_run_is_named(tmp_path):
    with pytest.raises(errors.ConfigError, match='Expected the directory of a'):
        agents.load(tmp_path / 'missing')


def test_run_without_checkpoint(run):
    shutil.rmtree(run / storage.CHECKPOINTS)
    with pytest.raises(errors.ConfigError, match='no checkpoint in .*run yet'):
        agents.load(run)


def test_checkpoint_that_does_not_exist(debug_run):
    with pytest.raises(errors.UserError, match='There is no checkpoint 1500'):
        agents.load(debug_run.directory, checkpoint=1500)


def test_checkpoint_that_is_asked_for(debug_run, checkpoint):
    for step in (1000, 2000):
        loaded = agents.load(debug_run.directory, checkpoint=step)
        expected = checkpoint(debug_run.directory, step)
        normalizer = loaded._policy.normalizer._normalizers['observ']
        prefix = 'policy/normalizer/observ'
        np.testing.assert_array_equal(normalizer.mean, expected[f'{prefix}/mean'])
        assert normalizer.count == step


def test_best_is_that_with_the_highest_score(debug_run):
    with open(debug_run.directory / 'progress.csv', newline='') as file:
        rows = [row for row in csv.DictReader(file) if row['phase'] == 'eval']
    best = max(rows, key=lambda row: float(row['score']))
    step, score = int(best['step']), float(best['score'])
    assert storage.find_checkpoint(debug_run.directory, 'best') == step
    assert f'best       score {score:.1f} at step {step:,}' in debug_run.output


@pytest.mark.parametrize('best', [1000, 2000])
def test_best_that_is_asked_for(run, best):
    for step in (1000, 2000):
        tell_score(run, step, float(step == best))
    loaded = agents.load(run, checkpoint='best')
    assert loaded._policy.normalizer._normalizers['observ'].count == best


def test_best_where_no_score_is_known(run):
    for step in (1000, 2000):
        tell_score(run, step, None)
    assert agents.load(run)
    with pytest.raises(errors.ConfigError, match='are 1000, 2000. Give a step'):
        agents.load(run, checkpoint='best')
    with pytest.raises(errors.ConfigError, match="step or 'best', not 'worst'"):
        agents.load(run, checkpoint='worst')


def tell_score(run, step, score):
    """Change the score that a checkpoint tells; None is as without one."""
    path = run / 'checkpoints' / f'{step:012d}' / 'manifest.json'
    known = {**json.loads(path.read_text()), 'score': score}
    path.write_text(json.dumps({k: v for k, v in known.items() if v is not None}))


def test_settings_that_do_not_fit_the_checkpoint(run):
    replace(run, 'policy_layers: [64, 64]', 'policy_layers: [64, 32]')
    with pytest.raises(errors.ConfigError, match='does not fit') as info:
        agents.load(run)
    assert '[64, 2], expected float32 [32, 2]' in str(info.value)


def test_network_of_the_user_needs_the_config(run):
    def network(observ_space, action_space, config):
        made.append(True)
        return networks.feed_forward(observ_space, action_space, config)

    made = []
    expected = agents.load(run)(OBSERVS[0])
    replace(run, 'network: feed_forward', 'network: <function mine.network>')
    with pytest.raises(errors.ConfigError, match='cannot be imported again'):
        agents.load(run)
    config = agents.configs.debug().copy(network=network)
    assert agents.load(run, config)(OBSERVS[0]) == expected
    assert made


def test_environment_of_the_user_is_not_needed(run):
    replace(run, 'env: CartPole-v1', 'env: <function mine.make>')
    agents.load(run)(OBSERVS[0])


@pytest.mark.slow
def test_run_without_limits_is_loaded(tiny, tmp_path, eagerly):
    config = tiny(
        steps=20,
        gradient_clip=None,
        observ_clip=None,
        reward_clip=None,
        learning_rate=np.float32(1e-3),
    )
    for _ in train(config, tmp_path, env_processes=False):
        pass
    for given in (None, config):  # As saved, and as given.
        loaded = agents.load(tmp_path, given)
        assert loaded.action_space.contains(loaded(OBSERVS[0]))
