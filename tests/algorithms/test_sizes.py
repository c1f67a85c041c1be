"""Sizes of minibatches that fit a rollout, by hand."""

import pytest

from agents.algorithms import ALGORITHMS
from agents.config import sizes
from agents.scripts import configs
from agents.tools import errors


def require(size, num_agents=4, update_every=50, recurrent=False, **settings):
    config = configs.ppo(
        num_agents=num_agents, update_every=update_every, batch_size=size, **settings
    )
    sizes.require_minibatches(config, recurrent)


@pytest.mark.parametrize(
    'size, recurrent, nearest',
    [
        # Divisors of 200 are 1, 2, 4, 5, 8, 10, 20, 25, 40, 50, 100, 200.
        (33, False, '25 or 40'),
        (3, False, '2 or 4'),
        (150, False, '100 or 200'),
        (300, False, '200'),
        # Multiples of 50 among them.
        (33, True, '50'),
        (25, True, '50'),
        (75, True, '50 or 100'),
        (150, True, '100 or 200'),
    ],
)
def test_nearest_sizes_that_fit_are_suggested(size, recurrent, nearest):
    with pytest.raises(errors.ConfigError, match=f'Choose {nearest}[.]'):
        require(size, recurrent=recurrent)


@pytest.mark.parametrize('size', [1, 25, 50, 200])
def test_sizes_that_fit(size):
    require(size)
    if size % 50 == 0:
        require(size, recurrent=True)


def test_rollout_whose_rows_cannot_be_counted_is_refused():
    with pytest.raises(errors.ConfigError, match='= 10000000000 rows is too'):
        require(64, num_agents=100_000, update_every=100_000)


def test_every_algorithm_has_a_size():
    # But for the one that goes through no rollout.
    others = ALGORITHMS.keys() - {'behaviour_cloning'}
    assert sizes.MINIBATCHES.keys() == others
    for name, setting in sizes.MINIBATCHES.items():
        assert setting in getattr(configs, name)()


def test_weights_between_layers_are_counted_by_hand():
    layers = {'policy_layers': [7, 5, 3], 'value_layers': []}
    assert sizes.count_weights(configs.ppo(**layers)) == 7 * 5 + 5 * 3
    recurrent = configs.ppo(network='recurrent', recurrent_units=11, **layers)
    # Gates of the policy's memory see 3 units and 11, those of the value 11.
    assert sizes.count_weights(recurrent) == 50 + 33 * (3 + 11) + 33 * 11
    judge = {'discriminator_layers': [4, 6, 2], **layers}
    assert sizes.count_weights(configs.ppo(**judge)) == 50
    assert sizes.count_weights(configs.gail('ppo', **judge)) == 50 + 24 + 12


def shared(ranks, algorithm=configs.ppo, **settings):
    small = {'num_agents': 8, 'update_every': 50, 'eval_episodes': 12}
    return sizes.share(algorithm(**{**small, **settings}), ranks)


def test_each_rank_has_its_part():
    part = shared(4, batch_size=80)
    assert (part.num_agents, part.eval_episodes, part.batch_size) == (2, 3, 20)
    assert (part.steps, part.update_every) == (1_000_000, 50)
    whole = shared(1, batch_size=33)
    assert (whole.num_agents, whole.batch_size) == (8, 33)


def test_who_learns_from_the_rollouts_of_all_needs_whole_minibatches():
    part = shared(4, batch_size=25, distribute='gather')
    assert (part.num_agents, part.eval_episodes, part.batch_size) == (2, 3, 25)


def test_sizes_of_other_algorithms_are_divided_as_well():
    part = shared(2, configs.trpo, value_batch_size=100)
    assert part.value_batch_size == 50
    part = shared(
        2,
        configs.gail,
        demonstrations='x',
        value_batch_size=100,
        discriminator_batch=64,
        clone_steps=1,
        clone_batch_size=32,
    )
    assert (part.discriminator_batch, part.clone_batch_size) == (32, 16)


@pytest.mark.parametrize(
    'ranks, settings, message',
    [
        (3, {}, 'num_agents=8 cannot be divided among 3 ranks. Choose 6 or 9.'),
        (16, {}, 'num_agents=8 cannot be divided among 16 ranks. Choose 16.'),
        (8, {}, 'eval_episodes=12 cannot be divided among 8 ranks. Choose 8 or'),
        # Divisors of 400 that are even: 20 and 40 are next to 25.
        (2, {'batch_size': 25}, 'batch_size=25 .* Choose 20 or 40.'),
        # Whole sequences of 50 steps of each rank.
        (2, {'batch_size': 50, 'network': 'recurrent'}, 'batch_size=50 .* Choose 100.'),
    ],
)
def test_what_cannot_be_divided_is_refused(ranks, settings, message):
    with pytest.raises(errors.ConfigError, match=message):
        shared(ranks, **{'batch_size': 80, **settings})
