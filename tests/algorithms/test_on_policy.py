"""How a rollout is recorded, evaluated and handed over to be learnt from."""

import numpy as np
import pytest

from agents.algorithms import on_policy
from agents.algorithms.learner import scale_advantage
from agents.parts import returns, sequences
from agents.tools import errors, nested
from agents.tools.attr_dict import AttrDict
from agents.tools.graph.backend import keras, tf
from agents.tools.transition import Transition
from agents.training import networks

pytestmark = pytest.mark.usefixtures('eagerly')

KINDS = ['feed_forward', 'recurrent']
each_kind = pytest.mark.parametrize('network', KINDS)


def test_rollout_is_what_happened(recorder, play):
    algo = recorder(normalize_observ=False)
    for number in (1, 2):
        played = play(algo)
        algo.update()
        rollout = algo.rollout
        assert algo.collector.rollouts == number
        np.testing.assert_array_equal(rollout.inputs.visible, played.observ)
        np.testing.assert_array_equal(rollout.begins, played.begins)
        np.testing.assert_array_equal(rollout.action, played.action)


@pytest.mark.parametrize('normalize', [False, True])
def test_advantages_and_returns(recorder, play, normalize):
    algo = recorder(
        normalize_observ=False, normalize_reward=normalize, discount=0.9, gae_lambda=0.7
    )
    played = play(algo)
    algo.update()
    reward = played.reward
    if normalize:
        zeros = np.zeros(reward.shape[1], np.float32)
        past = returns.discounted_past(reward, played.begins, 0.9, zeros)
        reward = reward / np.std(past)
    network = algo.value_network
    value, next_value = [
        np.stack([network(tf.constant(x))[:, 0] for x in observ])
        for observ in (played.observ, played.next_observ)
    ]
    expected = returns.lambda_advantage(
        reward, value, next_value, played.terminated, played.done, 0.9, 0.7
    )
    rollout = algo.rollout
    np.testing.assert_allclose(rollout.predictions.value, value, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(rollout.advantage, expected, atol=1e-4)
    np.testing.assert_allclose(rollout.returns, value + expected, atol=1e-4)


def test_rewards_may_be_replaced_before_they_are_normalized(recorder, play):
    seen = []

    def judge(rollout):
        seen.append(rollout)
        return rollout.action[..., 0] ** 2

    algo = recorder(task={'rewards': judge}, normalize_observ=True, discount=0.0)
    for _ in range(2):
        played = play(algo)
        algo.update()
    # What is judged is what happened, as the environments told it.
    assert len(seen) == 2
    np.testing.assert_array_equal(seen[1].observ, played.observ)
    np.testing.assert_array_equal(seen[1].reward, played.reward)
    judged = np.stack([rollout.action[..., 0] ** 2 for rollout in seen])
    np.testing.assert_allclose(algo.rollout.reward, judged[1] / judged.std(), rtol=1e-4)
    np.testing.assert_allclose(algo.rollout.returns, algo.rollout.reward, atol=1e-5)


class First(keras.Model):
    """Returns the first number of its input."""

    def call(self, inputs):
        return inputs[..., :1]


def first_number(observ_space, action_space, config):
    """Networks of which the value is the first number of the observation."""
    return networks.feed_forward(observ_space, action_space, config)._replace(value=First())


def test_lost_step_teaches_nothing_and_ends_at_the_last_good_one(recorder):
    # The third step is lost: what it was to act on is worth 8.
    #
    #   step        0    1    2    3    4    5
    #   value       2    4    8    6    2   10
    #   reward      1    3    0    5    1    7
    #   successor   4    8    8    2   10    4
    #
    # δ = (1 + 2 - 2, 3 + 4 - 4, 0, 5 + 1 - 6, 1 + 5 - 2, 7 + 2 - 10), and
    # A = (1 + ¼ 3, 3, 0, ¼ 3.75, 4 - ¼, -1).
    expected = np.array([1.75, 3, 0, 0.9375, 3.75, -1])
    value, successor = [2, 4, 8, 6, 2, 10], [4, 8, 8, 2, 10, 4]
    reward, lost = [1, 3, 0, 5, 1, 7], np.arange(6) == 2
    algo = recorder(
        normalize_observ=False,
        normalize_reward=False,
        discount=0.5,
        gae_lambda=0.5,
        normalize_advantage=True,
        network=first_number,
    )
    config = AttrDict(normalize_advantage=True)
    ones, no = tf.ones(4), tf.zeros(4, bool)
    for t in range(6):
        transition = Transition(
            reward[t] * ones,
            terminated=no,
            truncated=no | lost[t],
            next_observ=tf.fill([4, 3], float(successor[t])),
            lost=no | lost[t],
        )
        observ = tf.fill([4, 3], float(value[t]))
        algo.experience(observ, algo.perform(observ), transition)
    algo.update()
    rollout = algo.rollout
    np.testing.assert_allclose(rollout.advantage[:, 0], expected, rtol=1e-6)
    np.testing.assert_allclose(rollout.returns[:, 0], value + expected)
    np.testing.assert_array_equal(rollout.begins[:, 0], [1, 0, 0, 1, 0, 0])
    scaled = scale_advantage(rollout, config).numpy()[:, 0]
    normalized = (expected - expected.mean()) / expected.std()
    np.testing.assert_allclose(scaled[~lost], normalized[~lost], rtol=1e-5)
    assert scaled[2] == 0


def test_statistics_change_between_rollouts_only(recorder, play):
    algo = recorder(observ_clip=100.0)
    first = play(algo)
    algo.update()
    np.testing.assert_array_equal(algo.rollout.inputs.visible, first.observ)
    second = play(algo)
    algo.update()
    seen = first.observ
    expected = (second.observ - seen.mean((0, 1))) / seen.std((0, 1))
    np.testing.assert_allclose(algo.rollout.inputs.visible, expected, atol=1e-4)


@each_kind
def test_learning_sees_the_probabilities_of_acting(recorder, play, network):
    algo = recorder(network=network)
    for _ in range(2):
        played = play(algo, measured=True)
        algo.update()
        rollout = algo.rollout
        actions = algo.policy.unroll(rollout.inputs, rollout.begins, rollout.state.policy)
        log_prob = actions.log_prob(rollout.action)
        np.testing.assert_allclose(log_prob, played.log_prob, atol=1e-6)


@each_kind
def test_successors_are_predicted_where_an_episode_is_cut_off(recorder, play, network):
    algo = recorder(network=network, normalize_observ=False)
    before = sequences.zero_state(algo.value_network, 4)
    for _ in range(2):
        played = play(algo)
        algo.update()
        value, states = sequences.unroll(
            algo.value_network, tf.constant(played.observ), tf.constant(played.begins), before
        )
        before = nested.map(lambda x: x[-1], states)
        after, _ = sequences.step_all(algo.value_network, tf.constant(played.next_observ), states)
        found = algo.rollout.predictions
        np.testing.assert_allclose(found.value, value[..., 0], atol=1e-6)
        cut = played.done & ~played.terminated
        cut[-1] = True
        assert cut[:-1].any()
        np.testing.assert_allclose(found.next_value[cut], after[..., 0][cut], atol=1e-6)


@each_kind
def test_values_go_on_from_one_rollout_to_the_next(recorder, play, network):
    algo = recorder(network=network, normalize_observ=False)
    parts, values = [], []
    for _ in range(2):
        parts.append(play(algo))
        algo.update()
        values.append(algo.rollout.predictions.value)
    observ, begins = [
        np.concatenate([getattr(part, name) for part in parts]) for name in ('observ', 'begins')
    ]
    value, _ = sequences.unroll(
        algo.value_network,
        tf.constant(observ),
        tf.constant(begins),
        sequences.zero_state(algo.value_network, observ.shape[1]),
    )
    expected = value[..., 0]
    np.testing.assert_allclose(np.concatenate(values), expected, atol=1e-6)


@each_kind
def test_restart_forgets_the_episodes_under_way(recorder, play, network):
    algo = recorder(network=network, normalize_observ=False)
    play(algo)
    algo.update()
    play(algo, steps=2)
    algo.restart()
    played = play(algo, anew=True)
    algo.update()
    rollout = algo.rollout
    np.testing.assert_array_equal(rollout.inputs.visible, played.observ)
    assert rollout.begins[0].numpy().all()
    value, _ = sequences.unroll(
        algo.value_network,
        rollout.inputs.visible,
        rollout.begins,
        sequences.zero_state(algo.value_network, 4),
    )
    np.testing.assert_allclose(rollout.predictions.value, value[..., 0], atol=1e-6)


def test_actions_repeat_with_the_seed_and_differ_otherwise(recorder):
    observ = tf.zeros((4, 3))
    actions = {}
    for name, seed in (('one', 0), ('same', 0), ('other', 1)):
        algo = recorder(seed=seed, init_output_factor=0.0)
        actions[name] = algo.perform(observ).numpy()
    np.testing.assert_array_equal(actions['one'], actions['same'])
    assert (actions['one'] != actions['other']).all()


def test_actions_are_drawn_anew_in_each_step_and_rollout(recorder, play):
    algo = recorder(init_output_factor=0.0)
    drawn = [play(algo).action]
    algo.update()
    drawn.append(play(algo).action)
    drawn = np.concatenate(drawn).reshape(-1)
    assert len(np.unique(drawn)) == len(drawn)


def test_log_of_an_update(recorder, play):
    algo = recorder(learning_rate=0.25)
    play(algo)
    metrics = algo.update()
    advantage = algo.rollout.advantage.numpy()
    np.testing.assert_allclose(metrics['advantage_std'], advantage.std(), rtol=1e-5)
    assert metrics['learning_rate'] == 0.25


def test_linear_schedule_falls_to_zero(recorder, play):
    # Two rollouts of 24 steps.
    algo = recorder(learning_rate=1.0, learning_rate_schedule='linear', steps=48)
    rates = []
    for _ in range(4):
        play(algo)
        rates.append(float(algo.update()['learning_rate']))
    np.testing.assert_allclose(rates, [1, 0.5, 0, 0])


@pytest.mark.parametrize('network', KINDS)
@pytest.mark.parametrize('limit', [4096, 13])
def test_summary_is_of_the_last_rollout(recorder, play, network, limit, monkeypatch):
    monkeypatch.setattr(on_policy, 'SUMMARY_STEPS', limit)
    algo = recorder(network=network, normalize_reward=False)
    for _ in range(2):
        played = play(algo)
        algo.update()
    agents = min(4, limit // 6)
    summary = algo.summary()
    np.testing.assert_array_equal(summary['action'], played.action[:, :agents])
    np.testing.assert_array_equal(summary['reward'], played.reward)
    assert summary['observ'].shape == (6, agents, 3)
    assert summary['log_prob'].shape == (6, agents)
    assert summary['entropy'].shape == (6, agents)
    assert summary['mode'].shape == (6, agents, 2)
    np.testing.assert_array_equal(summary['returns'], algo.rollout.returns)
    count = sum(keras.ops.size(w) for w in algo.value_network.trainable_variables)
    assert len(summary['weights/value']) == count
    assert len(summary['gradients/value']) == count


def test_sizes_that_do_not_divide_are_named(define):
    with pytest.raises(errors.ConfigError, match='batch_size=7') as caught:
        define(batch_size=7)
    for number in ('num_agents=4', 'update_every=6', '24 rows', '6 or 8.'):
        assert number in str(caught.value)
    with pytest.raises(errors.ConfigError, match='value_batch_size=16.*12 or'):
        define('reinforce', value_batch_size=16)


def test_recurrent_networks_need_whole_sequences(define):
    with pytest.raises(errors.ConfigError, match=r'batch_size=8.*update_every=6'):
        define(network='recurrent', batch_size=8)
    define(network='recurrent', batch_size=6)
