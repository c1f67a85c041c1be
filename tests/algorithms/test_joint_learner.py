"""A policy and a value that see by one encoder."""

import numpy as np
import pytest

from agents.algorithms.ppo import PPO
from agents.parts import sequences
from agents.tools import errors
from agents.tools.graph import flat
from agents.tools.graph.backend import tf
from agents.tools.transition import Transition

pytestmark = pytest.mark.usefixtures('eagerly')

AGENTS, STEPS = 4, 6


class Keeping(PPO):
    """Keeps the rollout, and the gradient at its beginning."""

    def _learn(self, rollout, inputs):
        self.rollout = rollout
        networks = [self.policy.encoder, self.policy.network]
        networks.append(self.value_network)
        weights = [w.value for n in networks for w in n.trainable_variables]
        with tf.GradientTape() as tape:
            features, _ = sequences.step_all(self.policy.encoder, rollout.inputs.visible, ())
            policy = self.policy.unroll(rollout.inputs, rollout.begins, rollout.state.policy)
            value, _ = sequences.unroll(
                self.value_network, features, rollout.begins, rollout.state.value
            )
            log_prob = policy.log_prob(rollout.action)
            loss = -tf.reduce_mean(rollout.advantage * log_prob)
            loss -= 0.1 * tf.reduce_mean(policy.entropy())
            error = 0.5 * tf.reduce_mean((rollout.returns - value[..., 0]) ** 2)
            loss += 3.0 * error
        self.expected = flat.concat(tape.gradient(loss, weights))
        return super()._learn(rollout, inputs)


def play(algos, rng, begins):
    """Let algorithms that are alike act in the same rollout."""
    observ = normal(rng, 3)
    for _ in range(STEPS):
        actions = []
        for algo in algos:
            algo.begin_episode(tf.constant(begins))
            actions.append(algo.perform(tf.constant(observ)).numpy())
        for action in actions[1:]:
            np.testing.assert_allclose(action, actions[0], atol=1e-6)
        done = rng.random(AGENTS) < 0.4
        terminated = done & (rng.random(AGENTS) < 0.3)
        lost = done & ~terminated & (rng.random(AGENTS) < 0.3)
        after, reward = normal(rng, 3), normal(rng)
        transition = Transition(reward, terminated, done & ~terminated, after, lost)
        transition = tf.nest.map_structure(tf.constant, transition)
        for algo, action in zip(algos, actions, strict=True):
            algo.experience(tf.constant(observ), tf.constant(action), transition)
        observ = np.where(done[:, None], normal(rng, 3), after)
        begins = done
    return begins


def normal(rng, *shape):
    return rng.normal(size=(AGENTS, *shape)).astype(np.float32)


@pytest.mark.parametrize(
    'network', [pytest.param('feed_forward', marks=pytest.mark.slow), 'recurrent']
)
def test_gradient_is_that_of_both_losses(define, network):
    algo = define(
        kind=Keeping,
        network=network,
        shared_encoder=True,
        batch_size=24,
        update_epochs=1,
        gradient_clip=None,
        normalize_advantage=False,
        entropy_bonus=0.1,
        value_weight=3.0,
    )
    rng, begins = np.random.default_rng(0), np.ones(AGENTS, bool)
    for _ in range(2):
        begins = play([algo], rng, begins)
        mean = algo.summary()['gradients/policy']
        metrics = algo.update()
        # The running mean takes in a tenth of each gradient.
        change = algo.summary()['gradients/policy'] - 0.9 * mean
        np.testing.assert_allclose(change, 0.1 * algo.expected, atol=1e-5)
        rollout = algo.rollout
        error = 0.5 * np.mean((rollout.returns - rollout.predictions.value) ** 2)
        np.testing.assert_allclose(metrics['value_loss'], error, rtol=1e-5)
        np.testing.assert_allclose(
            metrics['policy_loss'],
            -np.mean(rollout.advantage) - 0.1 * metrics['entropy'],
            atol=1e-5,
        )


def test_value_that_is_no_number_is_told(define):
    algo = define(shared_encoder=True)
    algo.value_network.weights[-1].assign([np.nan])
    play([algo], np.random.default_rng(0), np.ones(AGENTS, bool))
    algo.update()
    with pytest.raises(errors.EnvError, match='got nan for an observation of environment 0'):
        raise algo.failure()


def test_penalty_adapts(define):
    algo = define(shared_encoder=True, surrogate='penalty', learning_rate=1.0, update_epochs=4)
    play([algo], np.random.default_rng(0), np.ones(AGENTS, bool))
    assert algo.update()['penalty'] == 1.5


def test_one_step_has_one_size(define):
    with pytest.raises(errors.ConfigError, match='Use value_weight'):
        define(shared_encoder=True, value_learning_rate=1e-3)


def test_others_do_not_learn_an_encoder(define):
    def network(observ_space, action_space, config):
        from agents.scripts import configs
        from agents.training import networks

        shared = configs.ppo(shared_encoder=True)
        return networks.feed_forward(observ_space, action_space, shared)

    with pytest.raises(errors.ConfigError, match='which trpo does not learn'):
        define('trpo', network=network)
