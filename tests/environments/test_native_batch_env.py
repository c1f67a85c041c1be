"""Batches of native environments."""

import numpy as np

from agents.environments.cartpole import CartPole
from agents.environments.native_batch_env import NativeBatchEnv
from agents.environments.pendulum import Pendulum
from agents.tools.graph.backend import tf

AGENTS = 5


def play(batch_env, steps, action=0):
    """Repeat an action; returns what was seen, `[time, agent, ...]`."""
    seen = []
    actions = tf.fill([len(batch_env)], action)
    for _ in range(steps):
        before, begins = batch_env.observ, batch_env.begins
        batch_env.simulate(actions)
        transition = batch_env.transition
        seen.append((before, begins, *transition))
    return [np.stack(column) for column in zip(*seen, strict=True)]


def test_an_ended_episode_begins_anew_and_its_successor_is_kept():
    batch_env = NativeBatchEnv(CartPole(), AGENTS, max_length=500)
    batch_env.reset()
    observ, begins, reward, terminated, truncated, following, lost = play(batch_env, 30)
    # Pushed to one side, the pole falls within some ten steps.
    assert terminated.any(0).all() and not truncated.any()
    assert np.all(reward == 1) and not lost.any()
    np.testing.assert_array_equal(begins[1:], terminated[:-1])
    over = terminated[:-1]
    np.testing.assert_array_equal(following[:-1][~over], observ[1:][~over])
    # The successor has fallen, the next episode begins upright.
    fallen, upright = following[:-1][over][:, 2], observ[1:][over][:, 2]
    assert np.all(np.abs(fallen) > 0.2) and np.all(np.abs(upright) <= 0.05)


def test_episodes_are_cut_off_after_their_length():
    batch_env = NativeBatchEnv(CartPole(), AGENTS, max_length=4)
    batch_env.reset()
    *_, terminated, truncated, _, _ = play(batch_env, 9)
    assert not terminated.any()
    # Steps   0 1 2 3 4 5 6 7 8
    # Cut           ^       ^
    cut = np.arange(9) % 4 == 3
    np.testing.assert_array_equal(truncated, np.tile(cut[:, None], AGENTS))


def test_reset_by_mask_leaves_the_others_alone():
    batch_env = NativeBatchEnv(CartPole(), AGENTS, max_length=500)
    batch_env.reset()
    play(batch_env, 3)
    before = batch_env.observ.numpy()
    mask = np.array([True, False, False, True, False])
    batch_env.reset(tf.constant(mask))
    after = batch_env.observ.numpy()
    np.testing.assert_array_equal(batch_env.begins, mask)
    np.testing.assert_array_equal(after[~mask], before[~mask])
    assert np.all(after[mask] != before[mask])


def test_what_happens_follows_from_seed_and_purpose():
    def first(**kwargs):
        batch_env = NativeBatchEnv(CartPole(), AGENTS, 500, **kwargs)
        batch_env.reset()
        return play(batch_env, 20)[0]

    np.testing.assert_array_equal(first(seed=1), first(seed=1))
    assert np.all(first(seed=1) != first(seed=2))
    assert np.all(first(seed=1) != first(seed=1, purpose='eval'))


def test_bounded_actions_are_scaled():
    batch_env = NativeBatchEnv(Pendulum(), AGENTS, max_length=200)
    actions = tf.constant([[-2.0], [-1.0], [0.0], [0.5], [3.0]])
    np.testing.assert_allclose(batch_env.prepare(actions)[:, 0], [-2, -2, 0, 1, 2])
