"""What a configuration amounts to, in numbers."""

import dataclasses
import math
import os

import gymnasium as gym

from agents.parts import encodings
from agents.tools import choices, errors, nested, spaces
from agents.tools.attr_dict import AttrDict

# Steps of a call at most, so that it does not take long to be interrupted.
CALL_STEPS = 32_768

# Steps of a rollout up to which one program is faster than several that run at
# the same time.
ONE_PROGRAM_STEPS = 2048

# Most numbers that the networks by name see of an observation.
MAX_INPUTS = 2**18

# Most frames that are stacked along the first axis of an observation.
MOST_FRAMES = 16


@dataclasses.dataclass(frozen=True)
class Plan:
    """Numbers of steps, of all agents together.

    Attributes:
        rollout: Steps between two updates.
        updates: How many updates a call of the training operation comprises as
            one program, or None if it is not one program, see
            `agents.tools.graph.simulation.training`.
        train: Steps of a training phase, a multiple of the rollout.
        evaluation: Steps of an evaluation, as many as it may take.
        cycles: How often training and evaluation take turns.
    """

    rollout: int
    updates: int | None
    train: int
    evaluation: int
    cycles: int

    @property
    def call(self) -> int:
        """Steps of a call of the training operation."""
        return self.rollout * (self.updates or 1)

    @property
    def steps(self) -> int:
        """Training steps in total."""
        return self.cycles * self.train

    @property
    def last_step(self) -> int:
        """Steps in total, those of evaluation included."""
        return self.cycles * (self.train + self.evaluation)


def make(config: AttrDict, native: bool = False, begun: int = 0) -> Plan:
    """Divide the steps of a configuration into phases.

    The number of evaluations and the number of updates between them are
    rounded, so that the steps in total are near those asked for.

    Args:
        config: Settings.
        native: Whether the environments are native, so that a program
            can comprise several updates.
        begun: The training step that a run goes on from. Where sizes have
            changed it may lie within a training phase, of which the rest is
            divided into calls as well.
    """
    rollout = config.num_agents * config.update_every
    updates = max(1, round(config.steps / rollout))
    cycles = max(1, round(updates * rollout / max(config.eval_every, rollout)))
    updates = max(1, round(updates / cycles))
    together = None
    if native and rollout <= ONE_PROGRAM_STEPS:
        behind = math.ceil(begun % (rollout * updates) / rollout)
        together = _updates_together(rollout, math.gcd(updates, behind))
    return Plan(
        rollout=rollout,
        updates=together,
        train=rollout * updates,
        evaluation=config.eval_episodes * config.max_length,
        cycles=cycles,
    )


def _updates_together(rollout: int, updates: int) -> int:
    """Find how many updates a call comprises: a divisor of their number.

    It is the largest with which the call does not take long.
    """
    most = max(1, CALL_STEPS // rollout)
    return max(
        n for n in range(1, updates + 1) if n <= most and not updates % n
    )


def describe(config: AttrDict, plan: Plan, ranks: int = 1) -> str:
    """Say in a line what a training consists of."""
    updates = plan.steps // plan.rollout
    agents = f'{config.num_agents} agents'
    if ranks > 1:
        agents = f'{ranks} ranks × {config.num_agents // ranks} agents'
    return (
        f'{agents} × {config.update_every} steps → update of '
        f'{plan.rollout:,} rows; {updates:,} updates = {plan.steps:,} steps; '
        f'evaluation of {config.eval_episodes} episodes every {plan.train:,}'
    )


def require_room(
    observ_space: gym.Space, action_space: gym.Space, config: AttrDict
) -> None:
    """Refuse observations too large for a network or for a rollout in memory.

    Args:
        observ_space: Space of the observations.
        action_space: Space of the actions.
        config: Settings of this rank.
    """
    visible = choices.visible_space(observ_space, action_space)
    names = nested.names(spaces.specs(visible))
    leaves = spaces.leaves(visible)
    if not callable(config.network):
        inputs = [encodings.choose(leaf, config).width for leaf in leaves]
        if sum(inputs) > MAX_INPUTS:
            most = inputs.index(max(inputs))
            name = f' {names[most]}' if names[most] else ''
            raise errors.ConfigError(
                f'Networks must see at most {MAX_INPUTS:,} numbers of an '
                f'observation, got {sum(inputs):,}, of which {max(inputs):,} '
                f'are of observation{name}, {leaves[most]}. Make it smaller in '
                'a wrapper, images of bytes, or write a network of your own '
                'that takes it.'
            )
    size = sum(
        math.prod(spaces.shape(leaf)) * (1 if leaf.dtype == 'uint8' else 4)
        for leaf in leaves
    )
    frames = spaces.shape(visible)[:1]
    if config.get('single_frames') and frames and 0 < frames[0] <= MOST_FRAMES:
        size //= frames[0]  # Frames that are stacked may be kept once.
    rows = config.num_agents * config.update_every
    memory = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')
    if rows * size > memory:
        raise errors.ConfigError(
            f'The observations of a rollout must fit into the memory of '
            f'{memory / 1e9:,.1f} GB, got {rows * size / 1e9:,.1f} GB of '
            f'num_agents={config.num_agents} × '
            f'update_every={config.update_every} = {rows:,} observations of '
            f'{size / 1e6:,.1f} MB each. Lower one of these, or make '
            'observations smaller in a wrapper.'
        )


def describe_network(
    observ_space: gym.Space, action_space: gym.Space, config: AttrDict
) -> list[str]:
    """Say in a few lines what observations go through to become actions."""
    if callable(config.network):
        name = getattr(config.network, '__name__', repr(config.network))
        return [f'{name}, a function of yours']
    visible = choices.visible_space(observ_space, action_space)
    shared = encodings.shares_encoder(visible, config)
    policy, value = (
        _describe_layers(config[f'{owner}_layers'], config)
        for owner in ('policy', 'value')
    )
    masked = ', masked' if visible is not observ_space else ''
    actions = f'policy{policy} → {_describe_actions(action_space)}{masked}'
    joined = 'one encoder for policy and value, ' if shared else ''
    seen = encodings.describe(visible, config)
    made = f'{joined}{actions}; value{value} → 1 number'
    if len(seen) == 1 and not encodings.has_images(visible, config):
        return [f'{seen[0]}; {made}']
    return [*seen, made]


def _describe_layers(sizes: list[int], config: AttrDict) -> str:
    parts = [*map(str, sizes)]
    if config.network == 'recurrent':
        parts.append(f'memory of {config.recurrent_units} units')
    return ''.join(f' → {part}' for part in parts)


def _describe_actions(space: gym.Space) -> str:
    if isinstance(space, gym.spaces.Box):
        return f'normal distribution of {spaces.width(space)}'
    if isinstance(space, gym.spaces.MultiDiscrete):
        counts = ' + '.join(map(str, space.nvec.ravel()))
        return f'choices of {counts}'
    if isinstance(space, gym.spaces.MultiBinary):
        return f'{spaces.width(space)} times yes or no'
    return f'choice of {spaces.width(space)}'
