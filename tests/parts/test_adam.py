"""Adam against NumPy and Keras, and that useless gradients are not applied."""

import numpy as np
import pytest

from agents.parts.gradients import MAX_SKIPPED
from agents.parts.optimizer import Adam
from agents.tools.graph import weights
from agents.tools.graph.backend import compiled, keras, tf
from agents.tools.graph.flat import Weights

SHAPES = {'kernel': (2, 3), 'bias': (3,), 'scale': ()}
SIZE = 10


def start():
    """The weights at the beginning, as a vector."""
    return np.random.default_rng(0).normal(size=SIZE).astype(np.float32)


def variables(keras_ones=False):
    parts = np.split(start(), [6, 9])
    values = [p.reshape(s) for p, s in zip(parts, SHAPES.values(), strict=True)]
    kind = keras.Variable if keras_ones else tf.Variable
    return [kind(value, name=name) for name, value in zip(SHAPES, values, strict=True)]


def gradients(count=5):
    numbers = np.random.default_rng(1).normal(size=(count, SIZE))
    return numbers.astype(np.float32)


def mean_product(model):
    """A loss whose gradient is the mean of the rows."""

    def loss(rows):
        parts = [tf.reshape(tf.convert_to_tensor(w), [-1]) for w in model]
        products = tf.linalg.matvec(rows, tf.concat(parts, 0))
        return {'loss': tf.reduce_mean(products)}

    return loss


def step(optimizer, model, gradient, *scale):
    rows = tf.convert_to_tensor(gradient)[None]
    return optimizer.minimize(mean_product(model), rows, *scale)


def define(model, *args, **kwargs):
    return Adam(Weights(model), *args, **kwargs)


def weights_of(optimizer):
    return optimizer.summary('it')['weights/it']


def mean_of(optimizer):
    return optimizer.summary('it')['gradients/it']


def adam(gradients, rate=0.1, epsilon=1e-5, beta_1=0.9, beta_2=0.999):
    """The weights after a step along each gradient."""
    weights, mean, square = start().astype(np.float64), 0.0, 0.0
    for t, gradient in enumerate(gradients, 1):
        mean = beta_1 * mean + (1 - beta_1) * gradient
        square = beta_2 * square + (1 - beta_2) * gradient**2
        # ε is compared with √v rather than with √(v / (1 − β₂ᵗ)).
        size = rate * np.sqrt(1 - beta_2**t) / (1 - beta_1**t)
        weights = weights - size * mean / (np.sqrt(square) + epsilon)
    return weights


@pytest.mark.parametrize('keras_ones', [False, True], ids=['tf', 'keras'])
def test_steps_are_those_of_adam(keras_ones):
    model = variables(keras_ones)
    optimizer = define(model, 0.1, epsilon=1e-5)
    for gradient in gradients():
        step(optimizer, model, gradient)
    np.testing.assert_allclose(weights_of(optimizer), adam(gradients()), atol=1e-5)


def test_other_betas():
    model = variables()
    optimizer = define(model, 0.1, None, 1e-5, beta_1=0.5, beta_2=0.9)
    for gradient in gradients():
        step(optimizer, model, gradient)
    expected = adam(gradients(), beta_1=0.5, beta_2=0.9)
    np.testing.assert_allclose(weights_of(optimizer), expected, atol=1e-5)


@pytest.mark.parametrize('max_norm', [None, 1.0])
def test_steps_are_those_of_keras(max_norm):
    model, others = variables(), variables(keras_ones=True)
    mine = define(model, 0.1, max_norm, epsilon=1e-5)
    peer = keras.optimizers.Adam(0.1, epsilon=1e-5, global_clipnorm=max_norm)
    for gradient in gradients():
        step(mine, model, gradient)
        parts = np.split(gradient, [6, 9])
        shaped = [
            tf.reshape(part, variable.shape) for part, variable in zip(parts, others, strict=True)
        ]
        peer.apply_gradients(zip(shaped, others, strict=True))
    for one, other in zip(model, others, strict=True):
        np.testing.assert_allclose(one, other.numpy(), rtol=1e-5, atol=1e-6)


def test_first_step_has_the_size_of_the_learning_rate():
    # m = (1 − β₁) g and v = (1 − β₂) g², which the two factors undo.
    model = variables()
    optimizer = define(model, 0.25, epsilon=1e-12)
    step(optimizer, model, np.full(SIZE, 7, np.float32), 0.5)
    change = start() - weights_of(optimizer)
    np.testing.assert_allclose(change, np.full(SIZE, 0.125), rtol=1e-4)


def test_loss_and_norm_are_returned():
    model = variables()
    gradient = gradients()[0]
    metrics = step(define(model, 0.1, max_norm=0.5), model, gradient)
    np.testing.assert_allclose(metrics['loss'], start() @ gradient, rtol=1e-5)
    # Before clipping.
    norm = np.linalg.norm(gradient)
    np.testing.assert_allclose(metrics['gradient_norm'], norm, rtol=1e-6)


@pytest.mark.parametrize(('norm', 'kept'), [(4.0, 1.0), (1.5, 1.5)])
def test_long_gradients_are_shortened(norm, kept):
    model = variables()
    # The mean after a first step is a tenth of the gradient.
    optimizer = define(model, 0.1, max_norm=2.0)
    direction = gradients()[0] / np.linalg.norm(gradients()[0])
    step(optimizer, model, np.float32(norm) * direction)
    expected = 0.1 * (2.0 if norm > 2.0 else kept) * direction
    np.testing.assert_allclose(mean_of(optimizer), expected, rtol=1e-4)


USELESS = {
    'NaN': np.nan,
    'infinite': np.inf,
    'minus infinite': -np.inf,
    'overflow': 1e30,  # Whose square is infinite.
}


@pytest.mark.parametrize('number', USELESS.values(), ids=USELESS)
@pytest.mark.parametrize('max_norm', [None, 1.0])
@pytest.mark.parametrize('position', [0, 7, 9])
def test_useless_gradient_changes_nothing(number, max_norm, position):
    model = variables()
    optimizer = define(model, 0.1, max_norm)
    step(optimizer, model, gradients()[0])
    before = weights_of(optimizer), mean_of(optimizer)
    gradient = gradients()[1]
    gradient[position] = number
    for count in (1, 2):
        step(optimizer, model, gradient)
        assert optimizer.skipped == count
    np.testing.assert_array_equal(weights_of(optimizer), before[0])
    np.testing.assert_array_equal(mean_of(optimizer), before[1])


def test_after_a_useless_gradient_it_goes_on_as_if_without():
    model = variables()
    optimizer = define(model, 0.1, epsilon=1e-5)
    poison = np.full(SIZE, np.nan, np.float32)
    for gradient in (gradients()[0], poison, *gradients()[1:]):
        step(optimizer, model, gradient)
    assert optimizer.skipped == 0
    np.testing.assert_allclose(weights_of(optimizer), adam(gradients()), atol=1e-5)


def test_compiled_is_like_eager():
    model = variables()
    optimizer = define(model, 0.1, epsilon=1e-5)
    compiled_step = compiled(lambda gradient: step(optimizer, model, gradient))
    poison = tf.constant([0.0, 1, 2, np.nan, 4, 5, 6, 7, 8, 9])
    for gradient in (*gradients(), poison):
        compiled_step(tf.constant(gradient))
    assert optimizer.skipped == 1
    np.testing.assert_allclose(weights_of(optimizer), adam(gradients()), atol=1e-5)


def test_too_many_useless_gradients_are_told_of():
    model = variables()
    optimizer = define(model, 0.1)
    poison = gradients()[0]
    poison[7] = np.nan
    for _ in range(MAX_SKIPPED - 1):
        step(optimizer, model, poison)
    assert optimizer.failure() is None
    step(optimizer, model, poison)
    failure = str(optimizer.failure())
    assert f'{MAX_SKIPPED} gradients in a row' in failure
    assert "'bias" in failure
    step(optimizer, model, gradients()[0])
    assert optimizer.failure() is None


def test_weights_are_not_the_optimizers_own():
    names = weights.named_variables(define(variables(), 0.1))
    assert set(names) == {
        'mean', 'square', 'step', 'skipped', 'skipped_weight'
    }  # fmt: skip
