"""Loading of trained policies."""

import pathlib
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from agents.config import sizes, store
from agents.parts import distributions, policy, sequences
from agents.policies import normalizer
from agents.policies.normalizer import Normalizer
from agents.tools import choices, nested, spaces
from agents.tools.attr_dict import AttrDict
from agents.tools.batch import observations
from agents.tools.graph import bounds, programs, random, state, weights
from agents.tools.graph.backend import bind_concrete, compile_unless_conv, tf
from agents.tools.nested import Nest
from agents.tools.runs import saver
from agents.training import networks, simulation_graph, storage


def load(
    directory: str | pathlib.Path,
    config: AttrDict | None = None,
    checkpoint: int | str | None = None,
    num_agents: int | None = None,
    seed: int | None = None,
    trust: bool = False,
) -> 'LoadedPolicy':
    """Load the policy of a run.

        policy = agents.load('logdir/20261118T101500-pendulum')
        observ, _ = env.reset()
        policy.reset()
        action = policy(observ)

    For environments with an action mask in the info:

        observ, info = env.reset()
        action = policy(observ, mask=info['action_mask'])

    The environment of the run is not made. A network function is imported from where the run has
    it.

    Args:
        directory: Directory of the run.
        config: Configuration of the run, by default as saved.
        checkpoint: Training step of a checkpoint, or 'best' for the highest score of an evaluation;
            by default the last.
        num_agents: Number of observations in a batch; by default observations are single.
        seed: Seed for sampled actions, by default that of the run.
        trust: Run code that the run names though this user has not signed it on this machine.
    """
    directory = pathlib.Path(directory)
    saved = store.restore_config(config, directory, unused=store.UNUSED_BY_POLICY, trusted=trust)
    observ_space, action_space = storage.load_spaces(directory)
    storage.require_checkpoint(directory)
    step = storage.find_checkpoint(directory, checkpoint)
    _require_fit(directory, step, observ_space, action_space, saved)
    made = networks.define(observ_space, action_space, saved)
    loaded = policy.define(made.policy, observ_space, action_space, saved, encoder=made.encoder)
    step = _define_saver(loaded, directory).restore(step)
    assert step is not None
    seed = saved.seed if seed is None else seed
    return LoadedPolicy(
        loaded,
        observ_space,
        seed,
        num_agents,
        step,
        normalizer.of_observations(loaded.normalizer, saved.observ_clip),
        normalizer.of_rewards(directory, step, saved.reward_clip),
    )


def _require_fit(
    directory: pathlib.Path,
    checkpoint: int | None,
    observ_space: gym.Space,
    action_space: gym.Space,
    config: AttrDict,
) -> None:
    """Refuse sizes that differ from those of a checkpoint, before memory is allocated.

    The networks are made in a graph that is never run, in which weights use no memory. A function
    of the user may need some of its weights, so that for those only the layers in the settings are
    counted.
    """
    if callable(config.network):
        storage.require_room(directory, sizes.count_weights(config))
        return
    with tf.Graph().as_default():
        made = networks.define(observ_space, action_space, config)
        sketch = policy.define(
            made.policy, observ_space, action_space, config, encoder=made.encoder
        )
        _define_saver(sketch, directory).require_fit(checkpoint)
        storage.require_room(directory, weights.count_weights(made))


def _define_saver(loaded: policy.Policy, directory: pathlib.Path) -> saver.Saver:
    """Make the saver that restores a policy from a run."""
    variables = simulation_graph.name_policy(loaded)
    return storage.define_saver(variables, directory, partial=True)


class LoadedPolicy:
    """Chooses actions for observations of an environment.

    Observations and actions are those of the environment: normalization, scaling and clipping are
    part of the policy, and so is the recurrent state, which `reset` clears.

    A policy that was trained with action masks needs them. Its observation space is a Dict with
    `action_mask`. It accepts such observations, or those of the environment and the mask
    separately.

    Attributes:
        observation_space: Space of the observations.
        action_space: Space of the actions.
        convolutional: Whether networks have convolutions.
        checkpoint: Training step of the policy.
        normalizer: Mean and standard deviation of observations, see `agents.policies.normalizer`;
            None if they are not normalized.
        reward_normalizer: Statistics of the rewards of the training, in the same form.

    Args:
        policy: Policy.
        observ_space: Space of the observations.
        seed: Seed for sampled actions.
        num_agents: Number of observations in a batch, or None for single observations.
        checkpoint: Training step of the policy.
        normalizer: Statistics of observations.
        reward_normalizer: Statistics of rewards.
    """

    def __init__(
        self,
        policy: policy.Policy,
        observ_space: gym.Space,
        seed: int = 0,
        num_agents: int | None = None,
        checkpoint: int | None = None,
        normalizer: Normalizer | None = None,
        reward_normalizer: Normalizer | None = None,
    ):
        self.checkpoint = checkpoint
        self.normalizer = normalizer
        self.reward_normalizer = reward_normalizer
        self.observation_space = observ_space
        self.action_space = policy.action_space
        self.convolutional = policy.convolutional
        self._policy = policy
        self._seed = seed
        self._batched = num_agents is not None
        self._count = num_agents or 1
        self._calls = tf.Variable(0, trainable=False)
        self._state = state.variables(sequences.zero_state(policy.network, self._count))
        self._observ = observations.zeros(observ_space, self._count)
        self._writer = observations.Writer(observ_space, self._observ)
        self._has_text = bool(spaces.texts(observ_space))
        self._begins = np.ones(self._count, bool)
        masked = choices.has_mask(observ_space, self.action_space)
        self._watch = choices.Watch(self.action_space) if masked else None
        self._programs: dict[bool, Callable[..., tf.Tensor]] = {}

    def __repr__(self) -> str:
        return (
            f'LoadedPolicy(checkpoint={self.checkpoint}, '
            f'observation_space={self.observation_space}, '
            f'action_space={self.action_space})'
        )

    @property
    def policy(self) -> policy.Policy:
        """Policy as algorithms use it."""
        return self._policy

    def reset(self, mask: np.ndarray | None = None) -> None:
        """Start new episodes, of all agents or where a mask is true."""
        self._begins |= True if mask is None else np.asarray(mask, bool)

    def __call__(self, observ: Nest, deterministic: bool = True, mask: Nest = None) -> Nest:
        """Choose the action for an observation, or actions for a batch.

        Args:
            observ: Observation, or `num_agents` of them, leaves `[agent, ...]`.
            deterministic: Take the most probable action instead of sampling.
            mask: Action mask that is not part of the observation: a vector, or one for each part of
                the action; leaves `[agent, ...]` for a batch.
        """
        if self._has_text:
            observ = spaces.without_text(self.observation_space, observ)
        given = (observ,) if mask is None else (observ, mask)
        if self._batched:
            self._require_batch(given)
        for row in range(self._count):
            self._writer.write(row, self._join(*self._row(given, row)))
        if self._watch is not None:
            self._require_choices(self._watch)
        actions = self.choose(self._observ, deterministic)
        actions = actions + spaces.start(self.action_space)
        actions = actions.astype(self.action_space.dtype)
        if isinstance(self.action_space, gym.spaces.Box):
            # Bounds of 64 bits lie between two numbers of 32 bits.
            limits = self.action_space.low, self.action_space.high
            actions = np.clip(actions, *limits)
        return actions if self._batched else actions[0]

    def choose(self, observ: Nest, deterministic: bool = True) -> np.ndarray:
        """Choose actions for a `BatchEnv`, with discrete values starting at zero.

        Args:
            observ: Observations, leaves `[agent, ...]`.
            deterministic: Take the most probable actions instead of sampling.
        """
        inputs = nested.map(tf.constant, observ)
        begins = tf.constant(self._begins)
        if deterministic not in self._programs:
            self._programs[deterministic] = bind_concrete(self._act, inputs, begins, deterministic)
        act = self._programs[deterministic]
        try:
            action = act(*nested.flatten(inputs), begins)
        except tf.errors.OpError as error:
            if not programs.give_up_cache(error):
                raise
            action = act(*nested.flatten(inputs), begins)
        self._begins[:] = False
        return action.numpy()

    def _join(self, observ: Nest, mask: Nest = None) -> Nest:
        """Add a mask to an observation, as in the training."""
        keys = {*observ} if isinstance(observ, dict) else set()
        if mask is None:
            if self._watch is not None and choices.KEY not in keys:
                raise ValueError(
                    'The policy has learnt with masks of actions: give it one '
                    "beside the observation, as policy(observ, mask=info['"
                    f"{choices.KEY}']) or mask=env.action_masks()."
                )
            return observ
        if self._watch is None:
            raise ValueError('The policy has learnt without masks of actions.')
        flat = choices.flatten(mask, self.action_space)
        space: Any = self.observation_space
        alone = {*space} == {choices.OBSERVATION, choices.KEY}
        if alone and choices.OBSERVATION not in keys:
            observ = {choices.OBSERVATION: observ}
        return {**observ, choices.KEY: flat}

    def _require_choices(self, watch: choices.Watch) -> None:
        """Refuse observations without a possible choice."""
        found = watch.first_stuck(self._observ[choices.KEY])
        if found is not None:
            row, part = found
            what = choices.describe_stuck(part, self.action_space)
            which = f' of observation {row}' if self._batched else ''
            raise ValueError(f'By the mask{which}, {what}.')

    def _require_batch(self, observ: Nest) -> None:
        for leaf in nested.flatten(observ):
            if len(leaf) != self._count:
                raise ValueError(f'Expected {self._count} observations, got {len(leaf)}.')

    def _row(self, observ: Nest, row: int) -> Nest:
        if not self._batched:
            return observ
        return nested.map(lambda leaf: leaf[row], observ)

    @compile_unless_conv
    def _act(self, observ: Nest, begins: tf.Tensor, deterministic: bool) -> tf.Tensor:
        before = sequences.forget(state.read(self._state), begins)
        distribution, after = self._policy.step(observ, before)
        state.assign(self._state, after)
        key = random.key(self._seed, 'loaded', self._calls)
        self._calls.assign_add(1)
        action = distribution.mode if deterministic else distribution.sample(key)
        action = distributions.unflatten(self.action_space, action)
        return bounds.to_bounds(action, self.action_space)
