"""Sizes of minibatches that fit a rollout, by hand."""

import pytest

from agents.algorithms import ALGORITHMS, sizes
from agents.scripts import configs
from agents.tools import errors


def require(size, num_agents=4, update_every=50, recurrent=False, **settings):
    config = configs.ppo(
        num_agents=num_agents,
        update_every=update_every,
        batch_size=size,
        **settings,
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
    recurrent = configs.ppo(
        network='recurrent_gaussian', recurrent_units=11, **layers
    )
    # Gates of the policy's memory see 3 units and 11, those of the value 11.
    assert sizes.count_weights(recurrent) == 50 + 33 * (3 + 11) + 33 * 11
    judge = {'discriminator_layers': [4, 6, 2], **layers}
    assert sizes.count_weights(configs.ppo(**judge)) == 50
    assert sizes.count_weights(configs.gail('ppo', **judge)) == 50 + 24 + 12
