"""Settings from the command line: typed, known and plain."""

import pytest

from agents.config import overrides
from agents.scripts import configs
from agents.tools import errors
from agents.tools.attr_dict import AttrDict


@pytest.fixture
def config():
    return configs.ppo()


@pytest.mark.parametrize(
    'text, expected',
    [
        ('steps=5000', 5000),
        ('steps=1e6', 1_000_000),
        ('steps=1_000', 1000),
        ('learning_rate=1e-3', 0.001),
        ('discount=1', 1.0),
        ('discount=.5', 0.5),
        ('normalize_observ=false', False),
        ('policy_layers=[32, 16]', [32, 16]),
        ('policy_layers=[]', []),
        ('activation=relu', 'relu'),
        ('env=Pendulum-v1', 'Pendulum-v1'),
        ('env=native:CartPole-v1', 'native:CartPole-v1'),
        ('env_kwargs={gravity: 9.8}', {'gravity': 9.8}),
        ('num_workers=3', 3),
        ('num_workers=null', None),
        ('num_workers=', None),
        ('kl_stop=None', None),
        ('value_clip=1', 1.0),
        ('network=recurrent', 'recurrent'),
    ],
)
def test_value_has_type_of_default(config, text, expected):
    value = overrides.apply(config, [text])[text.partition('=')[0]]
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    'text, expected',
    [
        ('steps=many', 'a whole number of at least 1, not '),
        ('steps=1.5', 'a whole number'),
        ('steps=.inf', 'a whole number'),
        ('steps=true', 'a whole number'),
        ('steps=', 'a whole number of at least 1, not None'),
        ('steps="5"', 'a whole number'),
        ('discount=true', 'a number from 0 to 1, not True'),
        ('discount=null', 'a number'),
        ('normalize_observ=1', 'true or false, not 1'),
        ('normalize_observ=yes', 'true or false'),
        ('policy_layers=64', r'a list of .*, such as \[64, 64\], each a whole'),
        ('policy_layers=[64, big]', 'a list'),
        ('env=5', 'the name of an environment, or a class or function'),
        ('env_kwargs=[1]', 'names with their values, such as {size: 9}'),
        ('num_workers=two', 'a whole number from 1 to 10,000 or None'),
        ('kl_stop=much', 'a number above 0 or None, not '),
        ('network=[64]', 'one of feed_forward, '),
    ],
)
def test_value_of_other_type_is_refused_with_what_is_expected(config, text, expected):
    key = text.partition('=')[0]
    message = f"The setting '{key}' has to be {expected}"
    with pytest.raises(errors.ConfigError, match=message):
        overrides.apply(config, [text])


@pytest.mark.parametrize('text', ['null', 'None', 'none', ''])
def test_nothing_is_null_as_in_yaml_or_none_as_in_python(text):
    config = configs.ppo(kl_stop=0.1)
    assert overrides.apply(config, [f'kl_stop={text}']).kl_stop is None


def test_types_are_those_of_settings_rather_than_of_config():
    config = configs.ppo(discount=1, env=lambda: None, gradient_clip=None)
    changed = overrides.apply(config, ['discount=0.5', 'env=CartPole-v1'])
    assert (changed.discount, changed.env) == (0.5, 'CartPole-v1')
    assert overrides.apply(config, ['gradient_clip=1']).gradient_clip == 1.0
    assert overrides.apply(config, ['gradient_clip=']).gradient_clip is None


def test_setting_of_the_users_keeps_its_type():
    config = AttrDict(configs.ppo(), mine=3)
    assert overrides.apply(config, ['mine=1e1']).mine == 10
    with pytest.raises(errors.ConfigError, match="'mine' has to be a whole"):
        overrides.apply(config, ['mine=many'])


def test_last_of_several_overrides_counts_and_config_is_unchanged(config):
    changed = overrides.apply(config, ['seed=1', 'steps=5', 'seed=2'])
    assert (changed.seed, changed.steps) == (2, 5)
    assert (config.seed, config.steps) == (0, 1_000_000)


def test_value_may_contain_equals_sign(config):
    changed = overrides.apply(config, ['env=a=b'])
    assert changed.env == 'a=b'


def test_unknown_setting_suggests_nearest_and_lists_all(config):
    with pytest.raises(errors.ConfigError) as info:
        overrides.apply(config, ['lerning_rate=1'])
    message = str(info.value)
    assert "no setting 'lerning_rate'; did you mean 'learning_rate'? " in message
    assert all(key in message for key in config)
    with pytest.raises(errors.ConfigError, match="mean 'learning_rate'?"):
        overrides.apply(config, ['lr=1'])


def test_override_without_equals_sign_is_refused(config):
    with pytest.raises(errors.ConfigError, match='Expected --set key=value'):
        overrides.apply(config, ['steps'])


@pytest.mark.parametrize('value', ['[1', '!!int 5', '!!python/name:os.system'])
def test_override_that_is_not_plain_is_one_line(config, value):
    with pytest.raises(errors.ConfigError, match='The value of steps') as info:
        overrides.apply(config, [f'steps={value}'])
    assert '\n' not in str(info.value)
