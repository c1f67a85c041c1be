"""A configuration can be read by attribute and not changed by accident."""

import copy
import pickle

import pytest

from agents.tools import AttrDict, ConfigError


def make():
    return AttrDict(learning_rate=1e-3, num_agents=8)


def test_entries_are_attributes():
    config = make()
    assert config.learning_rate == config['learning_rate'] == 1e-3
    assert hasattr(config, 'num_agents')
    assert not hasattr(config, 'num_agent')
    assert getattr(config, 'other', None) is None
    assert config == {'learning_rate': 1e-3, 'num_agents': 8}


@pytest.mark.parametrize(
    'read',
    [
        pytest.param(lambda config: config.lerning_rate, id='attribute'),
        pytest.param(lambda config: config['lerning_rate'], id='item'),
        pytest.param(lambda config: config.copy(lerning_rate=1), id='copy'),
    ],
)
def test_misspelt_key_names_the_nearest(read):
    with pytest.raises((AttributeError, KeyError, ConfigError)) as raised:
        read(make())
    message = str(raised.value)
    assert "'lerning_rate'; did you mean 'learning_rate'?" in message
    assert 'Among: learning_rate, num_agents.' in message


def test_key_like_no_other_lists_all():
    with pytest.raises(AttributeError) as raised:
        print(make().zzz)
    assert str(raised.value) == ("There is no 'zzz'. Among: learning_rate, num_agents.")


def _set_attribute(config):
    config.num_agents = 2


def _set_item(config):
    config['num_agents'] = 2


def _add_attribute(config):
    config.new = 2


def _delete_attribute(config):
    del config.num_agents


def _delete_item(config):
    del config['num_agents']


def _update_in_place(config):
    config |= {'num_agents': 2}


CHANGES = {
    'set attribute': _set_attribute,
    'set item': _set_item,
    'add attribute': _add_attribute,
    'delete attribute': _delete_attribute,
    'delete item': _delete_item,
    'update': lambda config: config.update(num_agents=2),
    'update in place': _update_in_place,
    'setdefault': lambda config: config.setdefault('new', 2),
    'pop': lambda config: config.pop('num_agents'),
    'popitem': lambda config: config.popitem(),
    'clear': lambda config: config.clear(),
}


@pytest.mark.parametrize('change', CHANGES.values(), ids=CHANGES)
def test_locked_refuses_and_unlocked_accepts(change):
    config = make()
    with pytest.raises(RuntimeError, match='locked AttrDict'):
        change(config)
    assert config == make()
    with config.unlocked:
        change(config)
    assert config != make()
    with pytest.raises(RuntimeError, match='locked AttrDict'):
        config.other = 1


def test_refused_update_changes_nothing():
    config = make()
    with pytest.raises(RuntimeError, match="Cannot change 'num_agents'"):
        config.update({'num_agents': 2, 'learning_rate': 1.0})
    assert config == make()


def test_lock_returns_after_an_error():
    config = make()
    with pytest.raises(ZeroDivisionError), config.unlocked:
        print(1 / 0)
    with pytest.raises(RuntimeError, match='locked'):
        config.num_agents = 2


def test_unlocked_within_unlocked_stays_so():
    config = make()
    with config.unlocked:
        with config.unlocked:
            config.num_agents = 2
        config.num_agents = 3
    assert config.num_agents == 3


def test_reading_leaves_no_trace():
    config = make()
    assert config.setdefault('num_agents', 1) == 8
    assert config.get('other') is None
    assert config == make()


def test_copy_is_another_and_locked():
    config = make()
    other = config.copy(num_agents=2)
    assert (config.num_agents, other.num_agents) == (8, 2)
    assert other.learning_rate == 1e-3
    with pytest.raises(RuntimeError, match='locked'):
        other.num_agents = 3


@pytest.mark.parametrize(
    'through',
    [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))],
    ids=['copy', 'deepcopy', 'pickle'],
)
def test_python_copies_are_locked(through):
    config = AttrDict(inner=AttrDict(x=[1]))
    other = through(config)
    assert type(other) is type(other.inner) is AttrDict
    assert other == config
    with pytest.raises(RuntimeError, match='locked'):
        other.new = 1
