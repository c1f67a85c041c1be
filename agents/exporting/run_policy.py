"""Runner of policies exported as .npz; needs only NumPy: copy it freely.

    policy = Policy('policy.npz')
    policy.reset()                              # An episode begins.
    action = policy(observ)                     # Or, with action masks:
    action = policy(observ, mask=info['action_mask'])

Without state, for one observation or a batch of them; the state is None where episodes begin:

    action, state = policy.step(observ, state)

A file may come from a stranger: a damaged one is a ValueError.
"""

import json
import math
import os
import zipfile

import numpy as np

# Limits for an observation, and for the patches of it that a layer convolves.
MAX_NUMBERS, MAX_PATCHES = 2**22, 2**24


class Policy:
    def __init__(self, path):
        try:
            self._load(path)
        except FileNotFoundError:
            raise
        except Exception as error:  # Of zipfile, NumPy, JSON or the values.
            raise ValueError(f'{path} is no exported policy: {error}') from error
        self.reset()

    def _load(self, path):
        with zipfile.ZipFile(path) as file:
            entries = file.infolist()
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            raise ValueError('it is compressed')
        if sum(entry.file_size for entry in entries) > os.path.getsize(path):
            raise ValueError('its arrays are larger than the file')
        with np.load(path, allow_pickle=False, max_header_size=1000) as file:
            arrays = dict(file)
        self.description = json.loads(str(arrays.pop('policy')))
        self._arrays = {}
        for key, array in arrays.items():
            layer, _, name = key.rpartition('/')
            self._arrays.setdefault(layer, {})[name] = array
        for leaf in self.description['network']['leaves']:
            if not 0 <= math.prod(leaf['shape']) <= MAX_NUMBERS:
                raise ValueError(f'it observes an array of {leaf["shape"]}')

    def reset(self):
        self._state = None

    def __call__(self, observ, mask=None):
        action, self._state = self.step(observ, self._state, mask)
        return action

    def step(self, observ, state=None, mask=None):
        try:
            return self._step(observ, state, mask)
        except ValueError:
            raise
        except Exception as error:
            text = f'{type(error).__name__}: {error}'
            raise ValueError(f'The policy cannot be applied: {text}') from error

    def _step(self, observ, state, mask):
        network = self.description['network']
        found = [self._encode(leaf, observ) for leaf in network['leaves']]
        x = np.concatenate([vector for vector, _ in found], -1)
        x, state = self._apply(network['layers'], x, state)
        if network['masked']:
            mask = observ['action_mask'] if mask is None else mask
            if isinstance(mask, tuple):  # One for each part of the action.
                mask = np.concatenate(mask, -1)
            x = np.where(np.reshape(mask, x.shape), x, np.float32(-1e9))
        action, _ = self._apply(network['head'], x)
        return (action if found[0][1] else action[0]), state

    def _encode(self, leaf, observ):
        for key in leaf['path']:
            observ = observ[key]
        value, shape = np.asarray(observ, leaf['dtype']), tuple(leaf['shape'])
        if value.shape[value.ndim - len(shape) :] != shape:
            raise ValueError(f'Expected the shape {shape}, got {value.shape}.')
        x = value if value.ndim > len(shape) else value[None]
        return self._apply(leaf['layers'], x)[0], value.ndim > len(shape)

    def _apply(self, layers, x, state=None):
        for layer in layers:
            arrays = self._arrays.get(layer['name'], {})
            if layer['kind'] == 'gru':
                x = state = gru(x, state, **arrays)
            else:
                rows = len(x)
                x = LAYERS[layer['kind']](x, layer, **arrays)
                if len(x) != rows:
                    raise ValueError(f'A {layer["kind"]} mixes observations.')
            if 'activation' in layer:
                x = ACTIVATIONS[layer['activation']](x)
        return x, state


def normalize(x, layer, mean, std):
    x = (x - mean).astype(np.float32) / std
    return np.clip(x, -layer['clip'], layer['clip'])


def one_hot(x, layer, sizes, start):
    x = x.reshape(len(x), -1) - start
    if sizes.sum() > MAX_NUMBERS:
        raise ValueError(f'There are {sizes.sum()} choices.')
    if ((x < 0) | (x >= sizes)).any():
        raise ValueError(f'{x + start} is not within the space.')
    parts = [np.arange(size) == x[:, [i]] for i, size in enumerate(sizes)]
    return np.concatenate(parts, -1).astype(np.float32)


def scale(x, layer, factor):
    x = x.transpose(0, *[1 + axis for axis in layer['order']])
    x = x.reshape(len(x), *layer['shape']).astype(np.float32)
    return x * factor


def convolve(x, layer, kernel, bias):
    x = np.lib.stride_tricks.sliding_window_view(x, kernel.shape[:2], (1, 2))
    x = x[:, :: layer['stride'], :: layer['stride']]
    if x[0].size > MAX_PATCHES:
        raise ValueError('The image is too large.')
    return np.tensordot(x, kernel, ((4, 5, 3), (0, 1, 2))) + bias


def gru(x, state, kernel, recurrent, bias):
    state = np.zeros(len(recurrent)) if state is None else np.asarray(state)
    state = state.astype(np.float32) + np.zeros((len(x), 1), np.float32)
    x, y = x @ kernel + bias[0], state @ recurrent + bias[1]
    (xz, xr, xh), (yz, yr, yh) = np.split(x, 3, -1), np.split(y, 3, -1)
    keep, reset = sigmoid(xz + yz), sigmoid(xr + yr)
    return keep * state + (1 - keep) * np.tanh(xh + reset * yh)


def bound(x, layer, low, high):
    x = x[:, : low.size].reshape(-1, *low.shape)
    x = low + (x + 1) * (high - low) / 2 if layer['scaled'] else x
    return np.clip(x.astype(low.dtype), low, high)


def choose(x, layer, ends, start):
    parts = np.split(x, ends, -1)
    if any((part.max(-1) <= -1e9).any() for part in parts):
        raise ValueError('By the mask, nothing is possible.')
    x = np.stack([part.argmax(-1) for part in parts], -1)
    return (x.reshape(-1, *start.shape) + start).astype(layer['dtype'])


def sigmoid(x):
    return 0.5 + 0.5 * np.tanh(0.5 * x)


LAYERS = {
    'normalize': normalize,
    'one_hot': one_hot,
    'scale': scale,
    'convolve': convolve,
    'dense': lambda x, layer, kernel, bias: x @ kernel + bias,
    'bound': bound,
    'choose': choose,
    'decide': lambda x, layer: np.int8(x > 0).reshape(-1, *layer['shape']),
}
ACTIVATIONS = {
    'relu': lambda x: np.maximum(x, 0),
    'elu': lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    'tanh': np.tanh,
    'sigmoid': sigmoid,
    'silu': lambda x: x * sigmoid(x),
}
