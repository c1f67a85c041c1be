"""Networks: what they compute, from which spaces, and how they begin."""

import math

import gymnasium as gym
import numpy as np
import pytest

from agents.algorithms.algorithm import Networks
from agents.parts import distributions, encodings, layers, sequences
from agents.scripts import configs
from agents.tools import errors, nested, spaces
from agents.tools.graph import devices
from agents.tools.graph.backend import keras, tf
from agents.training import networks

BATCH = 4

OBSERVS = {
    'Box': gym.spaces.Box(-1, 1, (3, 2), np.float32),
    'scalar Box': gym.spaces.Box(-1, 1, (), np.float32),
    'float64 Box': gym.spaces.Box(-1, 1, (3,), np.float64),
    'integer Box': gym.spaces.Box(-9, 9, (3,), np.int64),
    'bytes': gym.spaces.Box(0, 255, (4, 4, 3), np.uint8),
    'Discrete': gym.spaces.Discrete(5, start=2),
    'MultiDiscrete': gym.spaces.MultiDiscrete([[2, 3], [4, 5]]),
    'MultiBinary': gym.spaces.MultiBinary((2, 2)),
    'Tuple': gym.spaces.Tuple([gym.spaces.Discrete(3), gym.spaces.Box(-1, 1, (2,), np.float32)]),
    'Dict': gym.spaces.Dict(
        b=gym.spaces.Dict(d=gym.spaces.MultiBinary(2), c=gym.spaces.Discrete(3)),
        a=gym.spaces.Box(0, 255, (2, 2), np.uint8),
    ),
}
BOX = gym.spaces.Box(-1, 1, (2,), np.float32)
CHOICE = gym.spaces.Discrete(3)


@pytest.fixture(params=OBSERVS.values(), ids=OBSERVS)
def observ_space(request):
    return request.param


def config(**settings):
    small = {'policy_layers': [8], 'value_layers': [8], 'recurrent_units': 5}
    return configs.ppo(**{**small, **settings})


def zeros(space):
    """Observations as they come out of the graph, `[batch, ...]`."""
    return nested.map(lambda spec: tf.zeros((BATCH, *spec.shape), spec.dtype), spaces.specs(space))


def apply(network, inputs):
    state = sequences.zero_state(network, BATCH)
    return sequences.step(network, inputs, state)[0]


def require_outputs_fit(observs, actions, recurrent):
    network = 'recurrent' if recurrent else 'feed_forward'
    made = networks.define(observs, actions, config(network=network))
    output = apply(made.policy, zeros(observs))
    assert output.shape == (BATCH, distributions.output_size(actions))
    assert apply(made.value, zeros(observs)).shape == (BATCH, 1)
    assert sequences.is_recurrent(made.policy) == recurrent
    assert sequences.is_recurrent(made.value) == recurrent


@pytest.mark.parametrize('recurrent', [False, pytest.param(True, marks=pytest.mark.slow)])
def test_outputs_fit_the_actions(recurrent, subtests):
    # What reads observations knows of no actions, and the other way round.
    for name, observs in OBSERVS.items():
        with subtests.test(name):
            require_outputs_fit(observs, CHOICE, recurrent)
    for actions in (BOX, gym.spaces.MultiDiscrete([2, 3])):
        with subtests.test(str(actions)):
            require_outputs_fit(OBSERVS['Dict'], actions, recurrent)


def flat(space, value):
    return layers.Flatten(space)(value).numpy().tolist()


def test_flattening_computed_by_hand():
    box = gym.spaces.Box(-9, 9, (2, 2), np.float32)
    assert flat(box, tf.constant([[[1.0, 2], [3, 4]]])) == [[1, 2, 3, 4]]
    flags = gym.spaces.Box(0, np.uint8([1, 4]), dtype=np.uint8)
    assert flat(flags, tf.constant([[1, 1]], tf.uint8)) == [[1, 0.25]]
    image = gym.spaces.Box(0, 255, (2,), np.uint8)
    assert flat(image, tf.constant([[0, 51]], tf.uint8)) == [[0, pytest.approx(0.2)]]
    assert flat(gym.spaces.Discrete(3), tf.constant([2, 0])) == [[0, 0, 1], [1, 0, 0]]
    counts = gym.spaces.MultiDiscrete([2, 3])
    assert flat(counts, tf.constant([[1, 2]])) == [[0, 1, 0, 0, 1]]
    assert flat(gym.spaces.MultiBinary(3), tf.constant([[1, 0, 1]])) == [[1, 0, 1]]


def test_leaves_are_joined_in_the_order_of_their_names():
    space = gym.spaces.Dict(b=gym.spaces.Discrete(2), a=gym.spaces.Tuple([BOX, BOX]))
    pair = tf.constant([[1.0, 2]]), tf.constant([[3.0, 4]])
    value = {'b': tf.constant([1]), 'a': pair}
    assert flat(space, value) == [[1, 2, 3, 4, 0, 1]]


@pytest.mark.parametrize(('actions', 'expected'), [(BOX, 'GaussianHead'), (CHOICE, 'Dense')])
def test_actions_decide_where_no_network_is_named(actions, expected):
    made = networks.define(BOX, actions, config())
    assert type(made.policy.layers[-1]).__name__ == expected


@pytest.mark.parametrize('network', ['feed_forward', 'recurrent'])
def test_deviations_begin_where_the_settings_say(network):
    settings = config(network=network, init_std=0.6, init_output_factor=0.0)
    made = networks.define(BOX, BOX, settings)
    output = apply(made.policy, tf.ones((BATCH, 2)))
    expected = [0, 0, math.log(0.6), math.log(0.6)]
    np.testing.assert_allclose(output, [expected] * BATCH, atol=1e-6)
    names = [v.path for v in made.policy.trainable_variables]
    assert sum('log_std' in name for name in names) == 1


def test_first_actions_are_scaled_by_the_factor():
    outputs = []
    for factor in (1.0, 0.01):
        settings = config(init_output_factor=factor)
        made = networks.define(BOX, CHOICE, settings)
        outputs.append(made.policy(tf.ones((BATCH, 2))))
    np.testing.assert_allclose(outputs[1], 0.01 * outputs[0], rtol=1e-4)


def test_layers_have_the_sizes_of_the_settings():
    settings = config(policy_layers=[7, 6], value_layers=[])
    made = networks.define(BOX, CHOICE, settings)
    sizes = [list(w.shape) for w in made.policy.trainable_variables]
    assert sizes == [[2, 7], [7], [7, 6], [6], [6, 3], [3]]
    sizes = [list(w.shape) for w in made.value.trainable_variables]
    assert sizes == [[2, 1], [1]]


def test_memory_comes_right_behind_an_encoder_if_there_are_no_layers():
    settings = config(network='recurrent', policy_layers=[], shared_encoder=True)
    made = networks.define(BOX, CHOICE, settings)
    inputs = made.encoder(zeros(BOX))
    assert apply(made.policy, inputs).shape == (BATCH, 3)
    assert list(made.policy.trainable_variables[0].shape) == [2, 3 * 5]


def test_policy_and_value_share_no_weights():
    for name in ('feed_forward', 'recurrent'):
        made = networks.define(BOX, BOX, config(network=name))
        both = [id(w) for n in made[:2] for w in n.trainable_variables]
        assert len(set(both)) == len(both)


def weights(**settings):
    made = networks.define(BOX, CHOICE, config(**settings))
    return np.concatenate([w.numpy().ravel() for n in made[:2] for w in n.trainable_variables])


def test_weights_repeat_with_the_seed_and_differ_without():
    np.testing.assert_array_equal(weights(seed=3), weights(seed=3))
    assert (weights(seed=3) != weights(seed=4)).any()


def test_recurrent_network_remembers():
    settings = config(network='recurrent', init_output_factor=1.0)
    made = networks.define(BOX, CHOICE, settings)
    ones, start = tf.ones((BATCH, 2)), sequences.zero_state(made.policy, BATCH)
    assert start.shape == (BATCH, 5)
    output, state = sequences.step(made.policy, ones, start)
    again, _ = sequences.step(made.policy, ones, state)
    assert (output.numpy() != again.numpy()).all()


def linear(observ_space, action_space, config):
    """The example of the module's documentation."""
    size = distributions.output_size(action_space)
    dense, flatten = keras.layers.Dense, layers.Flatten
    policy = keras.Sequential([flatten(observ_space), dense(size)])
    value = keras.Sequential([flatten(observ_space), dense(1)])
    return Networks(policy, value)


def test_network_of_the_users(observ_space):
    made = networks.define(observ_space, CHOICE, config(network=linear))
    assert apply(made.policy, zeros(observ_space)).shape == (BATCH, 3)
    assert apply(made.value, zeros(observ_space)).shape == (BATCH, 1)


def test_unknown_network_is_refused_with_the_nearest():
    with pytest.raises(errors.ConfigError, match="'recurrent'"):
        networks.define(BOX, BOX, config(network='recurent_gaussian'))


def test_convolution_is_that_of_keras():
    layer = layers.Convolution(4)
    image = np.random.RandomState(0).normal(size=(2, 6, 5, 3))
    image = image.astype(np.float32)
    found = layer(image)
    kernel, bias = layer.get_weights()
    expected = tf.nn.relu(tf.nn.conv2d(image, kernel.reshape(3, 3, 3, 4), 1, 'VALID') + bias)
    np.testing.assert_allclose(found, expected, atol=1e-5)


IMAGE = gym.spaces.Box(0, 255, (6, 5, 2), np.uint8)


@pytest.mark.parametrize('network', ['feed_forward', 'recurrent'])
@pytest.mark.parametrize('shared', [False, True])
def test_image_within_a_dict_goes_through_convolutions(network, shared):
    space = gym.spaces.Dict(image=IMAGE, vector=BOX, choice=gym.spaces.Discrete(3))
    settings = config(network=network, shared_encoder=shared)
    made = networks.define(space, CHOICE, settings)
    assert (made.encoder is not None) == shared
    inputs = zeros(space)
    first = made.encoder or made.policy
    if shared:
        inputs = made.encoder(inputs)
        assert inputs.shape == (BATCH, 3 + 2 * 1 * 32 + 2)
    assert apply(made.policy, inputs).shape == (BATCH, 3)
    shapes = [list(w.shape) for w in first.trainable_variables]
    # Two convolutions, 6 → 4 → 2 and 5 → 3 → 1, and what they leave beside
    # the one-hot choice and the vector.
    assert shapes[:4] == [[3 * 3 * 2, 16], [16], [3 * 3 * 16, 32], [32]]
    rest = made.policy.trainable_variables[0 if shared else 4]
    assert list(rest.shape) == [3 + 2 * 1 * 32 + 2, 8]


def test_encoder_of_atari_trains_all_its_layers():
    frames = gym.spaces.Box(0, 255, (4, 84, 84), np.uint8)
    encoder = networks.define(frames, CHOICE, configs.pong()).encoder
    sizes = [math.prod(w.shape) for w in encoder.trainable_variables]
    assert sizes == [
        *(8 * 8 * 4 * 32, 32),
        *(4 * 4 * 32 * 64, 64),
        *(3 * 3 * 64 * 64, 64),
        *(7 * 7 * 64 * 512, 512),
    ]


def test_leaves_are_encoded_each_on_its_own_and_joined():
    space = gym.spaces.Dict(image=IMAGE, a=gym.spaces.Tuple([BOX, IMAGE]))
    encoder = layers.Encoder(space, config(convolutions=[[4, 3, 1]]))
    rng = np.random.default_rng(0)
    images = tf.constant(rng.integers(0, 256, (2, 2, 6, 5, 2), np.uint8))
    vector = tf.ones((2, 2))
    joined = encoder({'image': images[0], 'a': (vector, images[1])}).numpy()
    np.testing.assert_array_equal(joined[:, :2], vector)
    first, second = encoder._encoders[2], encoder._encoders[1]
    np.testing.assert_allclose(joined[:, 2:50], second(images[1]), rtol=1e-5)
    np.testing.assert_allclose(joined[:, 50:], first(images[0]), rtol=1e-5)


def test_convolutions_that_are_not_for_programs_are_found():
    large = gym.spaces.Dict(a=gym.spaces.Box(0, 255, (3, 40, 40), np.uint8))
    for space, settings, found in (
        (BOX, {}, False),
        (IMAGE, {}, False),
        (IMAGE, {'convolutions': [[4, 3, 2]]}, True),
        (large, {}, True),
        (large, {'network': 'recurrent', 'shared_encoder': False}, True),
    ):
        made = networks.define(space, CHOICE, config(**settings))
        assert made.are_convolutional == found
        assert not (made.are_apart and found)
    kinds = {'Conv', 'SeparableConv', 'DepthwiseConv'}
    names = {f'{kind}{n}D' for kind in kinds for n in (1, 2, 3)}
    names |= {f'Conv{n}DTranspose' for n in (1, 2, 3)}
    for name in names & {*dir(keras.layers)}:
        kind = getattr(keras.layers, name)
        count = {} if 'Depthwise' in name else {'filters': 2}
        inner = keras.Sequential([kind(kernel_size=3, **count)])
        outer = keras.Sequential([inner, keras.layers.Dense(2)])
        assert layers.has_convolutions(outer), name


def test_pixels_are_scaled_by_the_bounds_of_their_space():
    rng = np.random.default_rng(0)
    flags = rng.integers(0, 2, (2, 6, 5, 2), np.uint8)
    found = []
    for largest in (1, 255):
        space = gym.spaces.Box(0, largest, (6, 5, 2), np.uint8)
        keras.utils.set_random_seed(0)
        encoder = layers.Encoder(space, config(convolutions=[[4, 3, 1]]))
        found.append(encoder(tf.constant(flags * np.uint8(largest))))
    np.testing.assert_allclose(*found, rtol=1e-5)
    assert np.max(found) > 0.5


@pytest.mark.parametrize(
    'size, features, stride',
    [
        # Catch, whose policy in the zoo has these layers.
        ((10, 10), 1_152, 1),
        ((12, 12), 2_048, 1),
        ((13, 13), 128, 2),
        ((30, 30), 1_152, 2),
        ((35, 35), 2_048, 2),
        ((20, 200), 1_408, 3),
    ],
)
def test_strides_of_small_images_leave_few_features(size, features, stride):
    space = gym.spaces.Box(0, 255, (*size, 3), np.uint8)
    image = encodings.choose(space, config())
    assert isinstance(image, encodings.Image)
    assert image.filters == ((16, 3, stride), (32, 3, stride))
    assert image.features == features
    (line,) = encodings.describe(space, config())
    assert line.endswith(f'→ {features:,} features')


def test_grey_image_has_one_channel():
    for shape in ((9, 9), (1, 9, 9), (9, 9, 1)):
        space = gym.spaces.Box(0, 255, shape, np.uint8)
        (line,) = encodings.describe(space, config())
        assert line.startswith('image of 9 × 9 pixels, 1 channel → 16 filters')


@pytest.mark.parametrize('shape', [(6, 5, 2), (2, 6, 5), (40, 40, 2)])
def test_convolutions_are_those_of_numpy(shape):
    space = gym.spaces.Box(0, 255, shape, np.uint8)
    encoder = layers.Encoder(space, config(convolutions=[[4, 3, 1]]))
    image = np.random.default_rng(0).integers(0, 256, (2, *shape), np.uint8)
    found = encoder(tf.constant(image)).numpy()
    kernel, bias = encoder.get_weights()
    if shape[0] == 2:
        image = np.moveaxis(image, 1, -1)
    pixels, kernel = image / 255, kernel.reshape(3, 3, 2, 4)
    height, width = (n - 2 for n in pixels.shape[1:3])
    expected = np.zeros((2, height, width, 4)) + bias
    for row in range(3):
        for left in range(3):
            part = pixels[:, row : row + height, left : left + width]
            expected += part @ kernel[row, left]
    expected = np.maximum(expected, 0).reshape(2, -1)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_each_piece_can_be_replaced():
    class Doubled(keras.layers.Layer):
        def call(self, observ):
            return 2 * observ

    def mine(observ_space, action_space, config):
        return networks.compose(
            observ_space,
            action_space,
            config,
            encoder=lambda space, sizes, config: Doubled(),
            memory=lambda config: keras.layers.SimpleRNNCell(7),
            head=lambda space, config: keras.layers.Dense(3, use_bias=False),
        )

    made = networks.define(SPACE, CHOICE, config(network=mine))
    shapes = [list(w.shape) for w in made.policy.trainable_variables]
    assert shapes == [[3, 7], [7, 7], [7], [7, 3]]
    assert made.policy.state_size == made.value.state_size == 7
    output, state = sequences.step(
        made.policy, tf.ones((2, 3)), sequences.zero_state(made.policy, 2)
    )
    kernel, _, bias, head = made.policy.get_weights()
    expected = np.tanh(2 * np.ones((2, 3)) @ kernel + bias)
    np.testing.assert_allclose(state, expected, rtol=1e-5)
    np.testing.assert_allclose(output, expected @ head, rtol=1e-5)


def sequential(observ_space, action_space, config):
    shape = keras.Input(observ_space.shape)
    size = distributions.output_size(action_space)
    return [
        keras.Sequential([shape, keras.layers.Dense(8), keras.layers.Dense(n)]) for n in (size, 1)
    ]


def functional(observ_space, action_space, config):
    observ = keras.Input(observ_space.shape)
    size = distributions.output_size(action_space)
    return [
        keras.Model(observ, keras.layers.Dense(n)(keras.layers.Dense(8)(observ))) for n in (size, 1)
    ]


SPACE = gym.spaces.Box(-1, 1, (3,), np.float32)


@pytest.mark.parametrize('function', [sequential, functional])
def test_models_that_know_their_inputs_are_on_their_devices(function):
    settings = config(network=function)
    made = networks.define(SPACE, CHOICE, settings, devices.SECOND_DEVICE)
    devices_of = [(made.policy, 'CPU:0'), (made.value, 'CPU:0'), (made.value_copy, 'CPU:1')]
    for network, device in devices_of:
        for weight in network.weights:
            assert weight.value.device.endswith(device)
    # They begin as they would on one device.
    one = networks.define(SPACE, CHOICE, settings)
    pairs = [(made.policy, one.policy), (made.value, one.value), (made.value_copy, one.value)]
    for network, other in pairs:
        for mine, theirs in zip(network.get_weights(), other.get_weights(), strict=True):
            np.testing.assert_array_equal(mine, theirs)


def shared(observ_space, action_space, config):
    observ = keras.Input(observ_space.shape)
    hidden = keras.layers.Dense(8, name='trunk')(observ)
    return [keras.Model(observ, keras.layers.Dense(n)(hidden)) for n in (3, 1)]


def normalized(observ_space, action_space, config):
    layers = [keras.layers.BatchNormalization(), keras.layers.Dense(3)]
    return keras.Sequential(layers), keras.Sequential([keras.layers.Dense(1)])


def late(observ_space, action_space, config):
    """The layer has no weights before it is used."""
    trunk = keras.layers.Dense(3, name='late')
    return [keras.Sequential([trunk, keras.layers.Dense(n)]) for n in (3, 1)]


def encoded(*encoder):
    """Networks with an encoder, of which the policy has the last layer, too."""

    def define(observ_space, action_space, config):
        return Networks(
            keras.Sequential([encoder[-1], keras.layers.Dense(3)]),
            keras.Sequential([keras.layers.Dense(1)]),
            keras.Sequential(encoder),
        )

    return define


def hiding(observ_space, action_space, config):
    """The name of an attribute in which Keras keeps the layers of a model."""

    class Hidden(keras.Model):
        def __init__(self):
            super().__init__()
            self.first = keras.layers.Dense(4)
            self._layers = [keras.layers.Dense(3)]

        def call(self, observ):
            return self._layers[0](self.first(observ))

    return Hidden(), keras.Sequential([keras.layers.Dense(1)])


def remembering(observ_space, action_space, config):
    encoder = layers.Recurrent(
        layers.Flatten(observ_space), keras.layers.GRUCell(4), keras.layers.Dense(3)
    )
    apart = [keras.Sequential([keras.layers.Dense(n)]) for n in (3, 1)]
    return Networks(*apart, encoder)


@pytest.mark.parametrize(
    ('function', 'message'),
    [
        (late, 'policy and the value share the weight .*late/kernel'),
        (
            encoded(keras.layers.Dense(3), keras.layers.Dense(3, name='last')),
            'policy and the encoder share the weight .*last/kernel',
        ),
        (remembering, 'encoder must not be recurrent'),
        (hiding, 'weights of the policy network must all be .*`_layers`'),
        (shared, 'share the weight trunk/kernel'),
        (normalized, 'policy network has .*moving_mean, which nothing would'),
        (lambda *_: keras.Sequential(), 'must return two models'),
        (lambda *_: [keras.Sequential()], 'must return two models'),
    ],
)
def test_models_that_cannot_learn_are_refused(function, message):
    with pytest.raises(errors.ConfigError, match=message):
        networks.define(SPACE, CHOICE, config(network=function))
