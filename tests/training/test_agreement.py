"""What ranks have to agree on, told by what another rank would say."""

import gymnasium as gym
import numpy as np
import pytest

from agents.scripts import configs
from agents.tools import errors
from agents.tools.world import World
from agents.training import agreement


class Others(World):
    """The first of several ranks; the others say what they are told to."""

    def __init__(self, *changes):
        self.size = 1 + len(changes)
        self._changes = changes

    def gather(self, value):
        return [value, *[change(value) for change in self._changes]]


def same(value):
    return value


def test_equal_ranks_may_start_and_go_on():
    ranks = Others(same, same)
    agreement.require_same_start(ranks, configs.pendulum(), None)
    agreement.require_same_weights(ranks, [np.ones(3)])


@pytest.mark.parametrize(
    'change, message',
    [
        ({'seed': '7'}, 'Rank 2 has seed=7, where the first has 0.'),
        ({'tensorflow': '2.0'}, 'Rank 2 has tensorflow=2.0, where the first'),
        ({'more': '1'}, 'Rank 2 has more=1, where the first has None.'),
    ],
)
def test_ranks_that_differ_are_refused_by_name(change, message):
    def differ(value):
        return {**value, **change} if isinstance(value, dict) else value

    with pytest.raises(errors.ConfigError, match=message):
        agreement.require_same_start(Others(same, differ), configs.pendulum(), None)


def test_environments_that_differ_are_refused():
    env = gym.make('Pendulum-v1')
    agreement.require_same_spaces(Others(same), env)

    def differ(value):
        return {**value, 'actions': 'Discrete(2)'}

    with pytest.raises(errors.ConfigError, match='Rank 1 has actions=Discrete'):
        agreement.require_same_spaces(Others(differ), env)


@pytest.mark.parametrize(
    'first, second, refused',
    [
        (None, None, False),
        ('5 (ab)', None, False),  # On another machine.
        ('5 (ab)', '5 (ab)', False),
        ('5 (ab)', '5 (cd)', True),
        (None, '5 (ab)', True),
    ],
)
def test_checkpoints_may_be_missing_but_not_differ(monkeypatch, first, second, refused):
    monkeypatch.setattr(agreement, '_describe_checkpoint', lambda _: first)

    def differ(value):
        return value if isinstance(value, dict) else second

    def start():
        agreement.require_same_start(Others(differ), configs.pendulum(), None)

    if refused:
        with pytest.raises(errors.ConfigError, match=r'finds the checkpoint 5'):
            start()
    else:
        start()


def test_weights_that_differ_in_a_bit_end_the_run():
    weights = [np.ones(3, np.float32), np.zeros(2, np.float32)]
    digests = []

    def remember(value):
        digests.append(value)
        return value

    agreement.require_same_weights(Others(remember), weights)
    weights[1][1] = np.nextafter(np.float32(0), np.float32(1))
    with pytest.raises(errors.UserError, match='must be equal on all ranks, but 1 differ'):
        agreement.require_same_weights(Others(lambda _: digests[0]), weights)
