"""Two ranks that learn together learn what one of all agents does."""

import threading

import numpy as np
import pytest

from agents.config import sizes
from agents.parts.distributions import Gaussian
from agents.tools import errors, nested
from agents.tools.graph.backend import tf
from agents.tools.graph.communicator import ALONE, Communicator
from agents.tools.transition import Transition

pytestmark = pytest.mark.usefixtures('eagerly')

RANKS, AGENTS, STEPS, ROLLOUTS = 2, 2, 6, 2


class Threads(Communicator):
    """Ranks that are threads of one process and wait for each other."""

    size = RANKS

    def __init__(self, rank, box, barrier):
        self.rank = rank
        self._box, self._barrier = box, barrier

    def gather(self, nest):
        self._box[self.rank] = nest
        self._barrier.wait()
        every = list(self._box)
        self._barrier.wait()
        return every

    def mean(self, nest):
        return nested.map(lambda *parts: tf.add_n(parts) / RANKS, *self.gather(nest))

    def any(self, flag):
        return tf.reduce_any(self.gather(flag))


def play(rng, agents=RANKS * AGENTS):
    """Random steps of all agents, whose episodes end at random moments."""
    lead = STEPS, agents
    observ, after = rng.normal(size=(2, *lead, 3)).astype(np.float32)
    action = rng.normal(size=(*lead, 2)).astype(np.float32)
    reward = rng.normal(size=lead).astype(np.float32)
    done, never = rng.random(lead) < 0.25, np.zeros(lead, bool)
    return observ, action, Transition(reward, done, never, after, never)


def learn(algo, rollouts, agents):
    """Learn from what some of the agents did; returns numbers and weights."""
    for rollout in rollouts:
        mine = nested.map(lambda x: tf.constant(x[:, agents]), rollout)
        for time in range(STEPS):
            algo.experience(*nested.map(lambda x, t=time: x[t], mine))
        metrics = algo.update()
    networks = algo.policy.network, algo.value_network
    weights = [w.numpy() for n in networks for w in n.trainable_variables]
    return nested.map(float, metrics), weights


def sample_alike(policy, key):
    """A deviation of about one that depends on the distribution alone."""
    noise = 1.4 * tf.sin(100 * policy.mean)
    return policy.mean + tf.exp(policy.log_std) * noise


@pytest.fixture
def learn_together(define):
    """A function that lets two ranks learn, and one of all their agents."""

    def make(algorithm, ranks, changes):
        agents = RANKS * AGENTS // ranks.size
        name = sizes.MINIBATCHES[algorithm]
        # One minibatch, as ranks shuffle their own rows only.
        whole = {'num_agents': agents, name: agents * STEPS, **changes}
        task = {'num_agents': agents, 'ranks': ranks}
        return define(algorithm, task=task, learning_rate=0.01, **whole)

    def run(algorithm, rollouts, **changes):
        box, barrier = [None] * RANKS, threading.Barrier(RANKS, timeout=60)
        algos = [make(algorithm, Threads(rank, box, barrier), changes) for rank in range(RANKS)]
        results = [None] * RANKS

        def learn_as(rank):
            mine = slice(rank * AGENTS, (rank + 1) * AGENTS)
            results[rank] = learn(algos[rank], rollouts, mine)

        threads = [threading.Thread(target=learn_as, args=[rank]) for rank in range(RANKS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        one = make(algorithm, ALONE, changes)
        return algos, results, learn(one, rollouts, slice(None))

    return run


@pytest.mark.parametrize(
    ('algorithm', 'changes'),
    [
        pytest.param('reinforce', {}, marks=pytest.mark.slow),
        ('ppo', {'kl_stop': 1e-4, 'update_epochs': 4}),
        # Near its target, so that the cutoff has a part in the gradient.
        pytest.param('ppo', {'surrogate': 'penalty', 'kl_target': 1e-4}, marks=pytest.mark.slow),
        # All rows, as each rank leaves out others than one alone; and not so
        # many steps that rounding is all that is left to find.
        ('trpo', {'fisher_every': 1, 'conjugate_steps': 5}),
        pytest.param('acktr', {'inverse_every': 1, 'value_cold_steps': 1}, marks=pytest.mark.slow),
    ],
    ids=['reinforce', 'clip', 'penalty', 'trpo', 'acktr'],
)
def test_two_ranks_learn_what_one_does(learn_together, monkeypatch, algorithm, changes):
    # Ranks draw actions of their own, which the curvature of ACKTR is of.
    monkeypatch.setattr(Gaussian, 'sample', sample_alike)
    rng = np.random.default_rng(0)
    rollouts = [play(rng) for _ in range(ROLLOUTS)]
    _, (first, second), one = learn_together(algorithm, rollouts, **changes)
    # Each decides by the same numbers, to the last bit.
    assert first[0] == second[0]
    for mine, others in zip(first[1], second[1], strict=True):
        np.testing.assert_array_equal(mine, others)
    assert first[0].keys() == one[0].keys()
    for name, value in one[0].items():
        assert first[0][name] == pytest.approx(value, rel=1e-3, abs=1e-5), name
    for mine, alone in zip(first[1], one[1], strict=True):
        np.testing.assert_allclose(mine, alone, atol=1e-5)


def test_all_stop_where_one_cannot_learn(learn_together):
    rollout = play(np.random.default_rng(0))
    rollout[2].reward[3, AGENTS] = np.nan  # Of the second rank.
    algos, _, _ = learn_together('ppo', [rollout])
    failures = [algo.failure() for algo in algos]
    assert 'Another rank' in str(failures[0])
    assert f'Environment {AGENTS} returned the reward nan' in str(failures[1])
    assert all(isinstance(error, errors.UserError) for error in failures)


@pytest.mark.parametrize(
    'distribute', ['average', pytest.param('average_epochs', marks=pytest.mark.slow)]
)
def test_useless_gradient_on_one_rank_moves_none(learn_together, distribute):
    rollout = play(np.random.default_rng(0))
    # Beyond what its squared error can be, but not its square.
    rollout[2].reward[3, AGENTS] = 1e19  # Of the second rank.
    algos, (first, second), _ = learn_together(
        'ppo', [rollout], normalize_reward=False, distribute=distribute
    )
    assert first[0]['skipped'] == second[0]['skipped'] > 0
    for mine, others in zip(first[1], second[1], strict=True):
        np.testing.assert_array_equal(mine, others)
        assert np.isfinite(mine).all()
    skipped = {int(algo.value_learner.optimizer.skipped) for algo in algos}
    assert len(skipped) == 1


def test_ranks_begin_alike_and_act_differently(define):
    first, second = [define(task={'ranks': Threads(rank, None, None)}) for rank in (0, 1)]
    for mine, others in zip(first.policy.network.weights, second.policy.network.weights):
        np.testing.assert_array_equal(mine, others)
    observ = tf.zeros((4, 3))
    actions = [algo.perform(observ).numpy() for algo in (first, second)]
    assert (actions[0] != actions[1]).all()
