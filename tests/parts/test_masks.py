"""Actions that observations forbid, in acting, learning and loading alike."""

import gymnasium as gym
import numpy as np
import pytest

import agents
from agents.algorithms.algorithm import Networks
from agents.parts import distributions, masks
from agents.scripts import configs
from agents.tools import errors
from agents.tools.graph.backend import compiled, keras, tf
from agents.training import networks

VECTOR = gym.spaces.Box(-1, 1, (2,), np.float32)
CHOICE = gym.spaces.Discrete(3)


def observs(mask, **others):
    return gym.spaces.Dict({'action_mask': mask, **(others or {'x': VECTOR})})


def test_only_choices_of_a_dict_have_masks():
    mask = gym.spaces.MultiBinary(3)
    assert masks.has_mask(observs(mask), CHOICE)
    assert masks.has_mask(observs(mask), gym.spaces.MultiDiscrete([2, 1]))
    assert not masks.has_mask(observs(mask), VECTOR)
    assert not masks.has_mask(gym.spaces.Dict(x=VECTOR), CHOICE)
    assert not masks.has_mask(VECTOR, CHOICE)
    whole = observs(mask)
    assert masks.visible_space(whole, CHOICE) == gym.spaces.Dict(x=VECTOR)
    assert masks.visible_space(whole, VECTOR) is whole


@pytest.mark.parametrize(
    'mask',
    [gym.spaces.MultiBinary(4), gym.spaces.MultiBinary((3, 1)), gym.spaces.Discrete(3)],
    ids=str,
)
def test_mask_of_another_shape_is_refused(mask):
    with pytest.raises(errors.ConfigError, match=r'of shape \(3,\)'):
        masks.visible_space(observs(mask), CHOICE)


def test_nothing_but_a_mask_is_refused():
    space = gym.spaces.Dict(action_mask=gym.spaces.MultiBinary(3))
    with pytest.raises(errors.ConfigError, match='must have more than the action_mask'):
        masks.visible_space(space, CHOICE)


def masked(logits, mask, space=CHOICE):
    return distributions.from_output(space, tf.constant(logits), tf.constant(mask))


@pytest.mark.parametrize('how', [lambda f: f, compiled], ids=['eager', 'xla'])
def test_masked_choices_count_as_if_they_did_not_exist(how):
    logits, mask = [[1.0, 5.0, 2.0]], [[True, False, True]]
    distribution = masked(logits, mask)
    other = masked([[0.0, -7.0, 3.0]], mask)
    alone, other_alone = [
        distributions.Categorical(tf.constant(x)) for x in ([[1.0, 2.0]], [[0.0, 3.0]])
    ]

    def numbers(one, another):
        return one.entropy(), one.kl(another)

    for found, expected in zip(how(numbers)(distribution, other), numbers(alone, other_alone)):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert distribution.mode == 2
    for choice, same in ((0, 0), (2, 1)):
        np.testing.assert_allclose(
            distribution.log_prob(tf.constant([choice])),
            alone.log_prob(tf.constant([same])),
            rtol=1e-6,
        )
    impossible = distribution.log_prob(tf.constant([1]))
    assert np.isfinite(impossible) and impossible < -1e8


def test_where_masks_differ_all_numbers_are_finite():
    one = masked([[1.0, 5.0, 2.0]], [[True, False, True]])
    other = masked([[1.0, 5.0, 2.0]], [[False, True, True]])
    nothing = masked([[1.0, 5.0, 2.0]], [[False, False, False]])
    for first in (one, other, nothing):
        assert np.isfinite(first.entropy())
        for second in (one, other, nothing):
            assert np.isfinite(first.kl(second))


def test_masked_logits_have_no_gradient_and_others_have():
    logits = tf.constant([[1.0, 5.0, 2.0]])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        new = distributions.from_output(CHOICE, logits, tf.constant([[True, False, True]]))
        total = new.log_prob(tf.constant([0])) + new.entropy() + new.kl(new)
    gradient = tape.gradient(total, logits).numpy()[0]
    assert gradient[1] == 0
    assert np.isfinite(gradient).all() and gradient[[0, 2]].all()


def test_each_dimension_has_its_own_part_of_the_mask():
    space = gym.spaces.MultiDiscrete([2, 3])
    logits = np.zeros((500, 5), np.float32)
    mask = np.tile([True, False, False, True, True], (500, 1))
    distribution = masked(logits, mask, space)
    sample = distribution.sample(tf.constant([1, 2])).numpy()
    assert set(sample[:, 0]) == {0}
    assert set(sample[:, 1]) == {1, 2}
    expected = np.full(500, np.log(2))
    np.testing.assert_allclose(distribution.entropy(), expected, rtol=1e-6)


class Forbidding(gym.Env):
    """Rewards the highest choice there is, and insists on possible ones."""

    def __init__(self, choices):
        self.action_space = (
            gym.spaces.Discrete(choices, start=4)
            if isinstance(choices, int)
            else gym.spaces.MultiDiscrete(choices)
        )
        self._counts = np.atleast_1d(choices)
        self.observation_space = observs(
            gym.spaces.Box(0, 1, (sum(self._counts),), np.float32),
            # The mask is told, so that one without would be easy to learn.
            time=gym.spaces.Box(0, 99, (1,), np.float32),
        )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return self._observe(), {}

    def step(self, action):
        chosen = np.atleast_1d(action) - getattr(self.action_space, 'start', 0)
        starts = np.cumsum([0, *self._counts[:-1]])
        assert self._mask[starts + chosen].all(), (self._mask, action)
        self._time += 1
        return self._observe(), float(chosen.sum()), False, False, {}

    def _observe(self):
        parts = []
        for count in self._counts:
            part = self.np_random.random(count) < 0.5
            part[self.np_random.integers(count)] = True
            parts.append(part)
        self._mask = np.concatenate(parts)
        mask = self._mask.astype(np.float32)
        time = np.float32([self._time])
        return {'action_mask': mask, 'time': time}


def config(choices, **changes):
    small = {
        'env': Forbidding,
        'env_kwargs': {'choices': choices},
        'num_agents': 4,
        'update_every': 16,
        'update_epochs': 4,
        'batch_size': 32,
        'steps': 128,
        'eval_every': 64,
        'log_every': 256,
        'eval_episodes': 2,
        'max_length': 20,
        'policy_layers': [8],
        'value_layers': [8],
        'recurrent_units': 4,
        'learning_rate': 0.02,
        'init_output_factor': 1.0,
    }
    return configs.ppo(**{**small, **changes})


@pytest.mark.parametrize(
    ('choices', 'changes'),
    [
        pytest.param(3, {}, id='one', marks=pytest.mark.slow),
        pytest.param(
            [2, 3], {'surrogate': 'penalty', 'steps': 128, 'eval_every': 64}, id='several'
        ),
        pytest.param(
            3,
            {'network': 'recurrent', 'surrogate': 'penalty'},
            id='recurrent',
            marks=pytest.mark.slow,
        ),
    ],
)
def test_training_never_does_what_is_forbidden(choices, changes, tmp_path, eagerly):
    settings = config(choices, **changes)
    scores = [*agents.train(settings, tmp_path, env_processes=False)]
    assert [score.report.phase for score in scores] == ['train', 'eval'] * 2
    for score in scores:
        numbers = score.report.metrics.values()
        assert np.isfinite([*numbers]).all()
    # Neither does what was learnt, loaded once more.
    policy = agents.load(tmp_path, settings)
    env = Forbidding(choices)
    observ, _ = env.reset(seed=0)
    policy.reset()
    for step in range(40):
        action = policy(observ, deterministic=step % 2 == 0)
        observ, *_ = env.step(action)


def test_networks_do_not_see_the_mask_and_it_is_not_normalized():
    seen = []

    class Seeing(keras.layers.Layer):
        def call(self, observ):
            seen.append(sorted(observ))
            return observ['x']

    def network(observ_space, action_space, config):
        seen.append(sorted(observ_space.spaces))
        policy = keras.Sequential([Seeing(), keras.layers.Dense(3)])
        return Networks(policy, keras.Sequential([Seeing(), keras.layers.Dense(1)]))

    space = observs(gym.spaces.Box(0, 1, (3,), np.float32))
    settings = configs.ppo(network=network)
    made = networks.define(space, CHOICE, settings)
    assert seen and all(keys == ['x'] for keys in seen)
    policy = agents.parts.policy.define(made.policy, space, CHOICE, settings)
    observ = {'action_mask': tf.constant([[0.0, 1, 1]]), 'x': tf.ones((1, 2))}
    policy.update_statistics(observ)
    inputs = policy.normalize(observ)
    assert list(inputs.visible) == ['x']
    np.testing.assert_array_equal(inputs.mask, [[False, True, True]])
    distribution, _ = policy.step(observ, ())
    assert distribution.logits[0, 0] < -1e8 < distribution.logits[0, 1]
