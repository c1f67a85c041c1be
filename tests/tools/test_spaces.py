"""Spaces of Gymnasium as arrays, and as plain values."""

import re

import gymnasium as gym
import numpy as np
import pytest

from agents.tools import EnvError, spaces
from agents.tools.layout import Spec

gym_spaces = gym.spaces

SPECS = [
    (gym_spaces.Box(-1, 1, (2,), np.float32), Spec((2,), 'float32')),
    (gym_spaces.Box(-1, 1, (), np.float64), Spec((), 'float32')),
    (gym_spaces.Box(-1, 1, (2,), np.float16), Spec((2,), 'float32')),
    (gym_spaces.Box(0, 255, (4, 3), np.uint8), Spec((4, 3), 'uint8')),
    (gym_spaces.Box(0, 9, (2,), np.int64), Spec((2,), 'int32')),
    (gym_spaces.Box(0, 9, (2,), np.uint16), Spec((2,), 'int32')),
    (gym_spaces.Discrete(3, start=-1), Spec((), 'int32')),
    (gym_spaces.MultiDiscrete([2, 3]), Spec((2,), 'int32')),
    (gym_spaces.MultiDiscrete([[2, 3], [4, 5]]), Spec((2, 2), 'int32')),
    (gym_spaces.MultiBinary(3), Spec((3,), 'int32')),
    (gym_spaces.MultiBinary((2, 2)), Spec((2, 2), 'int32')),
]


@pytest.mark.parametrize('space, spec', SPECS, ids=str)
def test_specs(space, spec):
    assert spaces.specs(space) == spec


def test_specs_of_nests():
    space = gym_spaces.Dict(
        b=gym_spaces.Discrete(2),
        a=gym_spaces.Tuple([gym_spaces.Discrete(2), gym_spaces.Box(0, 1, ())]),
    )
    assert spaces.specs(space) == {
        'a': (Spec((), 'int32'), Spec((), 'float32')),
        'b': Spec((), 'int32'),
    }


def test_unsupported_observations_are_refused():
    with pytest.raises(EnvError, match=r'Text.*not supported.*Discrete.*Dict'):
        spaces.specs(gym_spaces.Tuple([gym_spaces.Text(3)]))


def test_kinds_of_spaces_that_are_not_known_are_named_with_their_place():
    class Odd(gym.Space):
        def __repr__(self):
            return f'Odd({object()})'

    space = gym_spaces.Dict(a=gym_spaces.Tuple([Odd()]))
    with pytest.raises(EnvError, match=r"space Odd of observation\['a'\]\[0\] is"):
        spaces.specs(space)


def test_text_of_a_dict_is_left_out():
    inner = gym_spaces.Dict(text=gym_spaces.Text(9), n=gym_spaces.Discrete(3))
    space = gym_spaces.Dict(b=inner, a=gym_spaces.Text(9))
    assert spaces.specs(space) == {'b': {'n': Spec((), 'int32')}}
    assert spaces.leaves(space) == [inner['n']] and spaces.width(space) == 3
    assert sorted(spaces.texts(space)) == ['a', 'b/text']
    plain = spaces.with_plain_text(space)
    assert plain != space and plain == spaces.decode(spaces.encode(space))
    value = {'a': 'x', 'b': {'n': 1, 'text': 'y'}}
    assert spaces.without_text(space, value) == {'b': {'n': 1}}


@pytest.mark.parametrize(
    'space',
    [
        gym_spaces.Dict(a=gym_spaces.Discrete(2)),
        gym_spaces.Tuple([gym_spaces.Discrete(2)]),
        gym_spaces.Text(3),
        gym_spaces.Box(0, 9, (1,), np.int64),
        gym_spaces.Box(0, 255, (1,), np.uint8),
    ],
    ids=str,
)
def test_unsupported_actions_are_refused(space):
    with pytest.raises(EnvError, match='action space .* is not supported'):
        spaces.require_supported(gym_spaces.Discrete(2), space)


@pytest.mark.parametrize(
    'space',
    [
        gym_spaces.Box(-1, 1, (1,), np.float64),
        gym_spaces.Discrete(2),
        gym_spaces.MultiDiscrete([2]),
        gym_spaces.MultiBinary(2),
    ],
    ids=str,
)
def test_supported_actions(space):
    spaces.require_supported(gym_spaces.Discrete(2), space)


def test_shape_start_and_count():
    discrete = gym_spaces.Discrete(3, start=-1)
    assert spaces.shape(discrete) == ()
    assert (spaces.start(discrete), spaces.count(discrete)) == (-1, 3)
    several = gym_spaces.MultiDiscrete([2, 3], start=[5, 0])
    assert spaces.shape(several) == (2,)
    assert spaces.start(several).tolist() == [5, 0]
    assert spaces.count(several).tolist() == [2, 3]
    binary = gym_spaces.MultiBinary(3)
    assert (spaces.start(binary), spaces.count(binary)) == (0, 2)
    box = gym_spaces.Box(1, 2, (2,))
    assert (spaces.start(box), spaces.count(box)) == (0, None)


def test_bounded():
    assert spaces.is_bounded(gym_spaces.Box(-1, 1, (2,)))
    half = gym_spaces.Box(np.array([-1, -np.inf], np.float32), 1.0)
    assert not spaces.is_bounded(half)
    assert not spaces.is_bounded(gym_spaces.Box(0, np.inf, (2,)))
    assert not spaces.is_bounded(gym_spaces.Discrete(2))


ROUND_TRIPS = [
    *[space for space, _ in SPECS],
    gym_spaces.Box(-np.inf, np.inf, (3,), np.float64),
    gym_spaces.Box(np.array([0, -5.5], np.float32), np.inf),
    gym_spaces.Discrete(4, start=7),
    gym_spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[1, 0], [0, -2]]),
    gym_spaces.Tuple([gym_spaces.Discrete(2), gym_spaces.MultiBinary(1)]),
    gym_spaces.Dict(
        z=gym_spaces.Box(0, 255, (2, 2, 3), np.uint8),
        a=gym_spaces.Dict(x=gym_spaces.Tuple([gym_spaces.Discrete(2)])),
    ),
    gym.make('CartPole-v1').observation_space,
    gym.make('Pendulum-v1').action_space,
]


@pytest.mark.parametrize('space', ROUND_TRIPS, ids=str)
def test_decode_is_the_inverse_of_encode(space):
    decoded = spaces.decode(spaces.encode(space))
    assert decoded == space
    assert type(decoded) is type(space)
    assert spaces.specs(decoded) == spaces.specs(space)


def test_decoded_keys_keep_their_order():
    parts = [('b', gym_spaces.Discrete(2)), ('a', gym_spaces.Discrete(3))]
    space = gym_spaces.Dict(parts)
    assert list(spaces.decode(spaces.encode(space))) == list(space)


def test_unknown_descriptions_are_refused():
    with pytest.raises(ValueError, match="Unknown kind of space: 'Graph'"):
        spaces.decode({'kind': 'Graph'})
    with pytest.raises(EnvError, match='not supported'):
        spaces.encode(gym_spaces.Sequence(gym_spaces.Discrete(2)))
        spaces.encode(gym_spaces.Text(3))


VECTOR = gym_spaces.Box(-1, 1, (2,), np.float32)

# Spaces of observations, and how the error begins that refuses them.
OBSERVATIONS = [
    (gym_spaces.Dict({'a/b': VECTOR, ' \n': VECTOR}), None),
    (gym_spaces.Dict(a=gym_spaces.Box(-1, 1, (0,)), b=VECTOR), None),
    (gym_spaces.Dict(a=gym_spaces.Dict({}), b=VECTOR), None),
    (gym_spaces.Box(1, 1, (2,)), None),
    (gym_spaces.Box(0, 1, (2,), bool), None),
    (gym_spaces.Discrete(1, start=-7), None),
    (
        gym_spaces.Dict(a=gym_spaces.Dict({1: VECTOR, 'b': VECTOR})),
        r"The keys of observation_space\['a'\] must be text, got 1",
    ),
    (
        gym_spaces.Dict({'a/b': VECTOR, 'a': gym_spaces.Dict(b=VECTOR)}),
        "The keys .* must be different for each, got 'a/b' 2 times",
    ),
    (gym_spaces.Dict({'x' * 201: VECTOR}), 'at most 200 characters, got 201'),
    (gym_spaces.Dict({}), 'must have 1 to .* numbers, got 0 of Dict'),
    (gym_spaces.Tuple([]), 'must have 1 to .* numbers, got 0 of Tuple'),
    (gym_spaces.Box(-1, 1, (3, 0)), 'must have 1 to .* numbers, got 0'),
    (
        gym_spaces.Dict(a=gym_spaces.MultiDiscrete([]), b=VECTOR),
        'The observation a must have at least one number',
    ),
    (gym_spaces.Discrete(2**40), 'must have at most 2,147,483,647 values'),
    (gym_spaces.MultiBinary(2**24 + 1), 'numbers, got 16,777,217 of'),
    (gym_spaces.Tuple([gym_spaces.MultiBinary(2**23)] * 3), 'numbers, got 25,165,824 of'),
    (gym_spaces.Sequence(VECTOR), 'Sequence.*not supported'),
    (gym_spaces.Graph(VECTOR, None), 'Graph.*not supported'),
    (gym_spaces.OneOf([VECTOR]), 'OneOf.*not supported'),
]
ACTIONS = [
    (gym_spaces.Discrete(1), None),
    (gym_spaces.MultiDiscrete([[1, 2], [3, 4]]), None),
    (gym_spaces.MultiBinary((2, 3)), None),
    (gym_spaces.Box(1, 1, ()), None),
    (gym_spaces.Box(-1, 1, (0,)), 'An action must have 1 to .*, got 0 of Box'),
    (gym_spaces.MultiDiscrete([]), 'The action must have at least one'),
    (gym_spaces.Discrete(10**7), 'An action must have .*, got 10,000,000 of'),
]


def test_spaces_are_supported_or_refused_with_a_reason():
    pairs = [
        *((space, gym_spaces.Discrete(2), error) for space, error in OBSERVATIONS),
        *((VECTOR, space, error) for space, error in ACTIONS),
    ]
    failures = []
    for observ, action, expected in pairs:
        message = None
        try:
            spaces.require_supported(observ, action)
        except EnvError as error:
            message = str(error)
        if not re.search(expected or '^None$', str(message)):
            failures.append((observ, action, message))
    assert not failures


def test_huge_bounds_are_none():
    for dtype in (np.float16, np.float32, np.float64):
        most = np.finfo(dtype).max
        space = gym_spaces.Box(-most, most, (2,), dtype)
        assert spaces.is_bounded(space) == (dtype == np.float16)
    sampled = spaces.without_huge_bounds(space).sample()
    assert np.abs(sampled).max() < 100
    low, high = spaces.bounds32(space)
    assert np.isinf([low, high]).all()
