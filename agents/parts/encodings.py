"""Choice of an encoder for each leaf of an observation; needs no TensorFlow.

Images of bytes go through convolutions. Any other leaf becomes a vector: numbers as they are,
choices one-hot. The vectors of all leaves are concatenated.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from agents.tools import errors, nested, spaces


class Filters(NamedTuple):
    """Convolution: number of filters, their size and stride in pixels."""

    number: int
    size: int
    stride: int


class Preset(NamedTuple):
    """Stack of convolutions and the size of the dense layer behind them."""

    filters: tuple[Filters, ...]
    units: int | None


# Convolutions by name. The first are those of Mnih et al. 2015, Human-level
# control through deep reinforcement learning.
PRESETS = {
    'atari': Preset((Filters(32, 8, 4), Filters(64, 4, 2), Filters(64, 3, 1)), 512),
    'small': Preset((Filters(16, 3, 1), Filters(32, 3, 1)), None),
}

# Pixels in height and width from which on images are made smaller at once.
LARGE = 36

# Features that convolutions chosen by size leave at most, which their stride is
# for. More cost much time and learn no better.
MOST_FEATURES = 2048

# Leaves that are described.
MOST_LINES = 6


class Vector(NamedTuple):
    """Leaf that becomes a vector.

    Attributes:
        width: Size of the vector.
        note: Remark on an encoding that a user might not expect.
    """

    width: int
    note: str = ''


class Image(NamedTuple):
    """Leaf that goes through convolutions.

    Attributes:
        size: Height and width.
        channels: Numbers of each pixel.
        largest: Largest value, by the bounds of the space.
        order: Axes of the leaf as `[height, width, channel, ...]`.
        filters: Convolutions.
        units: Size of the dense layer behind them, or None.
        sizes: Height and width after each convolution.
    """

    size: tuple[int, int]
    channels: int
    largest: int
    order: tuple[int, ...]
    filters: tuple[Filters, ...]
    units: int | None
    sizes: list[tuple[int, int]]

    @property
    def is_large(self) -> bool:
        """True if convolutions take most of the time."""
        return max(self.size) >= LARGE

    @property
    def width(self) -> int:
        """Size of the vector that the image becomes."""
        return self.features if self.units is None else self.units

    @property
    def features(self) -> int:
        """Size of the output of the last convolution."""
        return math.prod(self.sizes[-1]) * self.filters[-1].number


def choose(space: gym.Space, config: Mapping[str, Any]) -> Vector | Image:
    """Choose the encoding of a leaf of the observations.

    Args:
        space: Space of the leaf.
        config: Settings.
    """
    width = spaces.width(space)
    order = _pixel_order(space)
    if order is None:
        return Vector(width, _note(space))
    shape = spaces.shape(space)
    size = shape[order[0]], shape[order[1]]
    channels = math.prod(shape) // math.prod(size)
    filters, units = _choose_filters(size, config)
    sizes = _sizes_after(size, filters)
    if sizes:
        assert isinstance(space, gym.spaces.Box)
        largest = max(1, int(np.max(space.high)))
        return Image(size, channels, largest, order, filters, units, sizes)
    if config['convolutions'] is None:
        return Vector(width, 'an image too small for convolutions')
    raise errors.ConfigError(
        f'convolutions={config["convolutions"]} are too many or too large for '
        f'an image of {size[0]} × {size[1]} pixels. Choose others, or None to '
        'have them chosen by its size.'
    )


def has_images(space: gym.Space, config: Mapping[str, Any]) -> bool:
    """Return whether a leaf of the observations goes through convolutions."""
    found = [choose(leaf, config) for leaf in spaces.leaves(space)]
    return any(isinstance(each, Image) for each in found)


def has_large_images(space: gym.Space, config: Mapping[str, Any]) -> bool:
    """Return whether images are large enough for convolutions on all cores."""
    found = [choose(leaf, config) for leaf in spaces.leaves(space)]
    return any(isinstance(each, Image) and each.is_large for each in found)


def shares_encoder(space: gym.Space, config: Mapping[str, Any]) -> bool:
    """Return whether the policy and the value network share an encoder."""
    # An algorithm that learns them apart has no such setting.
    shared = config.get('shared_encoder', False)
    return has_images(space, config) if shared is None else shared


def describe(space: gym.Space, config: Mapping[str, Any]) -> list[str]:
    """Describe the encoding of each leaf, in a line each."""
    names = nested.names(spaces.specs(space))
    pairs = zip(names, spaces.leaves(space), strict=True)
    lines = [
        *(f'{name}: text, left out' for name in spaces.texts(space)),
        *(
            f'{name}: {_describe(leaf, config)}' if name else _describe(leaf, config)
            for name, leaf in pairs
        ),
    ]
    if len(lines) <= MOST_LINES:
        return lines
    return [*lines[:MOST_LINES], f'and {len(lines) - MOST_LINES} more']


def _describe(space: gym.Space, config: Mapping[str, Any]) -> str:
    found = choose(space, config)
    if isinstance(found, Vector):
        note = f' ({found.note})' if found.note else ''
        shape = _describe_shape(space)
        width = _count(found.width)
        return f'{shape}{note}' if shape == width else f'{shape} → {width}{note}'
    rows, columns = found.size
    layers = ', '.join(
        f'{number} filters {size}×{size}/{stride}' for number, size, stride in found.filters
    )
    units = f' → {found.units} units' if found.units else ''
    count = found.channels
    channels = f'{count} channel{"s" if count > 1 else ""}'
    return (
        f'image of {rows} × {columns} pixels, {channels} → {layers} → '
        f'{found.features:,} features{units}'
    )


def _describe_shape(space: gym.Space) -> str:
    if isinstance(space, gym.spaces.Discrete):
        return f'one of {space.n}'
    kind = 'bytes' if space.dtype == 'uint8' else 'numbers'
    if isinstance(space, gym.spaces.MultiDiscrete):
        kind = 'choices'
    shape = ' × '.join(map(str, spaces.shape(space))) or '1'
    return f'{shape} {kind.removesuffix("s") if shape == "1" else kind}'


def _count(width: int) -> str:
    return f'{width:,} number{"s" if width != 1 else ""}'


def _pixel_order(space: gym.Space) -> tuple[int, ...] | None:
    """Return the axes of an image with height and width first, or None if it is no image.

    Two axes of three are equal in most images; the third one holds channels or stacked frames. If
    all differ, it is the shorter one of the first and the last. Of four axes, the first holds
    frames.
    """
    if not isinstance(space, gym.spaces.Box) or space.dtype != 'uint8':
        return None
    shape = spaces.shape(space)
    if not math.prod(shape):
        return None
    if len(shape) == 2:
        return 0, 1
    if len(shape) not in (3, 4):
        return None
    stacked = range(len(shape) - 3)
    first, middle, last = shape[-3:]
    if middle == last != first:
        leading = True
    elif first == middle:
        leading = False
    else:
        leading = first < last
    height = len(stacked) + leading
    channel = len(stacked) + (0 if leading else 2)
    return (height, height + 1, *stacked, channel)


def _choose_filters(
    size: tuple[int, int], config: Mapping[str, Any]
) -> tuple[tuple[Filters, ...], int | None]:
    chosen = config['convolutions']
    units = None
    if chosen is None and min(size) < LARGE:
        filters = _small_filters(size)
    elif chosen is None or isinstance(chosen, str):
        filters, units = PRESETS[chosen or 'atari']
    else:
        filters = tuple(Filters(*each) for each in chosen)
    given = config['image_units']
    return filters, units if given is None else given


def _small_filters(size: tuple[int, int]) -> tuple[Filters, ...]:
    """Choose the smallest stride that leaves a moderate number of features."""
    filters = PRESETS['small'].filters
    for stride in range(1, max(size)):
        strided = tuple(each._replace(stride=stride) for each in filters)
        sizes = _sizes_after(size, strided)
        if not sizes:
            break
        filters = strided
        if math.prod(sizes[-1]) * filters[-1].number <= MOST_FEATURES:
            break
    return filters


def _sizes_after(size: tuple[int, int], filters: Sequence[Filters]) -> list[tuple[int, int]]:
    """Return height and width after each convolution, empty if one does not fit."""
    sizes = []
    for each in filters:
        if min(size) < each.size:
            return []
        height, width = ((n - each.size) // each.stride + 1 for n in size)
        size = height, width
        sizes.append(size)
    return sizes


def _note(space: gym.Space) -> str:
    """Return a remark on a leaf that looks like an image and is not treated as one."""
    shape = spaces.shape(space)
    if len(shape) < 3 or not isinstance(space, gym.spaces.Box):
        return ''
    return 'flattened; images for convolutions are of bytes, uint8'
