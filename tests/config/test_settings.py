"""The table of settings: complete, and right about what there is."""

import inspect
import re

import pytest

from agents.algorithms import ALGORITHMS
from agents.config import kinds, settings
from agents.parts import encodings
from agents.scripts import configs
from agents.tools.batch import wrappers

ENTRIES = [
    (name, entry)
    for algorithm in settings.ALGORITHM_GROUPS
    for group in settings.list_groups(algorithm)
    for name, entry in group.settings.items()
]


def test_every_algorithm_has_a_group_and_a_function():
    assert list(settings.ALGORITHM_GROUPS) == list(ALGORITHMS)
    for name in ALGORITHMS:
        assert getattr(configs, name)() == settings.find_defaults(name)
        assert getattr(configs, name)().algorithm == name


def test_table_has_every_setting_and_no_other():
    bases = [getattr(configs, name)() for name in ALGORITHMS]
    assert set(settings.SETTINGS) == {key for base in bases for key in base}


def test_setting_stands_once():
    for name, entry in ENTRIES:
        assert entry.kind is settings.SETTINGS[name].kind
    for algorithm in ALGORITHMS:
        groups = settings.list_groups(algorithm)
        names = [name for group in groups for name in group.settings]
        assert len(names) == len(set(names))


def test_default_is_one_that_the_setting_may_have():
    wrong = [name for name, x in ENTRIES if not x.kind.allows(x.default)]
    assert not wrong


def test_algorithm_changes_defaults_of_settings_that_it_has():
    usual = {key: entry.default for key, entry in settings.SETTINGS.items()}
    for name in ALGORITHMS:
        for key, value in settings.ALGORITHM_GROUPS[name].defaults.items():
            assert settings.SETTINGS[key].kind.allows(value)
            assert settings.find_defaults(name)[key] == value != usual[key]


def test_meaning_is_a_line(subtests):
    for name, entry in ENTRIES:
        with subtests.test(name):
            text = entry.meaning
            assert text[0].isupper() and text[-1].isalnum()
            assert len(text) < 120
            assert not re.search(r'\n|\||  ', text)
            assert text.isascii()  # Not every terminal has other letters.


def test_kl_target_is_described_for_each_algorithm():
    # What is said of PPO was also printed of algorithms without a surrogate.
    for algorithm in ALGORITHMS:
        *_, group = settings.list_groups(algorithm)
        for entry in group.settings.values():
            assert 'surrogate' in group.settings or ('surrogate' not in entry.meaning)


def test_names_are_those_that_there_are():
    from agents.tools.graph.backend import keras
    from agents.training import networks

    functions = {
        name for name, value in vars(keras.activations).items() if inspect.isfunction(value)
    } - {'get', 'serialize', 'deserialize'}
    assert functions <= set(settings.ACTIVATIONS)
    for name in settings.ACTIVATIONS:
        assert callable(keras.activations.get(name))
    assert set(settings.NETWORKS) == set(networks.NETWORKS)
    assert set(kinds.PRESETS) == set(encodings.PRESETS)
    assert settings.OBSERV_BOUNDS == wrappers.BoundObserv.CHOICES


def test_lists_of_a_config_are_its_own():
    config = configs.ppo()
    config.policy_layers.append(5)
    config.env_kwargs['size'] = 5
    assert configs.ppo().policy_layers == [64, 64]
    assert configs.ppo().env_kwargs == {}


@pytest.mark.parametrize('name', [None, 'debug', ['ppo'], {}])
def test_what_is_no_algorithm_has_the_shared_settings(name):
    shared = settings.find_defaults(name)
    assert 'env' in shared and 'algorithm' not in shared
    for algorithm in ALGORITHMS:
        assert set(shared) < set(settings.find_defaults(algorithm))
