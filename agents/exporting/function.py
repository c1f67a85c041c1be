"""Policy as a function of named arrays, for conversion to other formats."""

import contextlib
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np

from agents.exporting import description
from agents.parts import masks, normalize, sequences
from agents.parts.policy import Policy
from agents.tools import nested, spaces
from agents.tools.graph import bounds
from agents.tools.graph.backend import tf
from agents.tools.nested import Nest


class Function:
    """Maps observations of the environment to the most probable action.

    Uses operations that converters support.

    Attributes:
        described: See `description.describe`; its `batch` is None for batches of any size.
        program: Function of named arrays, for a signature.
        module: Module with the variables of the program only.

    Args:
        policy: Policy.
        observ_space: Space of its observations.
        described: Inputs and outputs.
        has_doubles: Whether the target supports 64-bit floats.
    """

    def __init__(
        self,
        policy: Policy,
        observ_space: gym.Space,
        described: dict[str, Any],
        has_doubles: bool = True,
    ):
        self._has_doubles = has_doubles
        self._policy = policy
        self._observ_space = observ_space
        self._visible = masks.visible_space(observ_space, policy.action_space)
        self.program, batch = self._trace(described)
        self.described = {**described, 'batch': batch}
        self.module = tf.Module()
        self.module.kept = list(self.program.variables)

    def _trace(self, described: dict[str, Any]) -> tuple[Any, int | None]:
        """Trace the program, for batches of any size if possible."""

        @tf.function(autograph=False)
        def act(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
            return self._act(described, inputs)

        def trace(batch: int | None) -> Nest:
            with _without_pieces():
                return act.get_concrete_function(
                    **{
                        entry['name']: tf.TensorSpec(
                            [batch, *entry['shape']], entry['dtype'], entry['name']
                        )
                        for entry in described['inputs']
                    }
                )

        try:
            return trace(None), None
        except (TypeError, ValueError):  # A network that needs to know it.
            return trace(1), 1

    def _act(self, described: dict[str, Any], inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        names = [entry['name'] for entry in described['inputs']]
        states = [each for each in names if each.startswith(description.STATE)]
        leaves = iter([inputs[name] for name in names])
        visible = self._prepare(leaves)
        mask = ()
        if masks.has_mask(self._observ_space, self._policy.action_space):
            mask = tf.cast(inputs[description.MASK], tf.int32) != 0
        parts = iter([inputs[name] for name in states])
        network = self._policy.network
        sizes = getattr(network, 'state_size', ())
        before = nested.map(lambda _: next(parts), sizes)
        features = self._policy.encode(visible)
        output, after = sequences.step(network, features, before)
        chosen = self._policy.distribution(output, mask).mode
        pairs = zip(states, nested.flatten(after), strict=True)
        return {
            description.ACTION: self._finish(chosen),
            **{f'{description.NEXT}{name}': state for name, state in pairs},
        }

    def _prepare(self, leaves: Iterator[tf.Tensor]) -> Nest:
        """Convert observations of the environment to inputs of the networks."""
        starts = map(spaces.start, spaces.leaves(self._visible))
        normalizers = iter(self._policy.normalizer.of_leaves)

        def prepare(_: Any) -> tf.Tensor:
            leaf, start = next(leaves), next(starts)
            if np.any(start):
                leaf = leaf - np.asarray(start, np.int32)
            normalizer = next(normalizers)
            if normalizer is None:
                return leaf
            return _normalize(normalizer, leaf, self._has_doubles)

        return nested.map(prepare, spaces.specs(self._visible))

    def _finish(self, action: tf.Tensor) -> tf.Tensor:
        """Convert actions to those of the environment."""
        space = self._policy.action_space
        if not isinstance(space, gym.spaces.Discrete):
            action = tf.reshape(action, [-1, *spaces.shape(space)])
        if isinstance(space, gym.spaces.Box):
            action = bounds.to_bounds(action, space)
            return tf.cast(_clip(action, space), space.dtype)
        start = tf.constant(spaces.start(space), tf.int64)
        return tf.cast(tf.cast(action, tf.int64) + start, space.dtype)


@contextlib.contextmanager
def _without_pieces() -> Iterator[None]:
    """Inline compiled functions within this context.

    XLA is not available everywhere.
    """
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)


def _normalize(
    normalizer: normalize.StreamingNormalize, value: tf.Tensor, has_doubles: bool
) -> tf.Tensor:
    """Normalize with constants instead of variables."""
    with tf.init_scope():  # Out of the program that is being made.
        mean, std = normalizer.mean.numpy(), normalizer.std.numpy()
    if has_doubles:
        value = tf.cast(tf.cast(value, tf.float64) - mean, tf.float32)
    else:
        # The difference of numbers that are near is exact. What the mean has
        # beyond 32 bits is subtracted from that.
        near = mean.astype(np.float32)
        value = (value - near) - (mean - near).astype(np.float32)
    value = value / std.astype(np.float32)
    if normalizer.clip is None:
        return value
    return tf.clip_by_value(value, -normalizer.clip, normalizer.clip)


def _clip(action: tf.Tensor, space: gym.spaces.Box) -> tf.Tensor:
    """Clip to bounds of 64 bits, which may be narrower than those of 32 bits."""
    low, high = spaces.bounds32(space)
    one = np.float32(1)
    low = np.where(low < space.low, np.nextafter(low, one * np.inf), low)
    high = np.where(high > space.high, np.nextafter(high, -one * np.inf), high)
    return tf.clip_by_value(action, low, high)
