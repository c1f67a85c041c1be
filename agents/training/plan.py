"""Numbers of steps, updates and evaluations of a training."""

import dataclasses
import math
import os

import gymnasium as gym

from agents.config import checks
from agents.parts import encodings
from agents.tools import choices, errors, nested, spaces
from agents.tools.attr_dict import AttrDict
from agents.training import env_kinds

# Steps of a call at most, so that it does not take long to be interrupted.
CALL_STEPS = 32_768

# Steps of a rollout up to which one program is faster than several that run at
# the same time.
ONE_PROGRAM_STEPS = 2048

# Most numbers that the networks by name see of an observation.
MAX_INPUTS = 2**18


# Reports of a training, unless the setting `log_every` says otherwise.
LOG_POINTS = 100


@dataclasses.dataclass(frozen=True)
class Plan:
    """Numbers of steps of all agents together.

    Attributes:
        rollout: Steps between two updates.
        rollouts_at_once: Maximum number of rollouts per call of the training operation if it is one
            program, see `agents.tools.graph.simulation.training`; else None.
        steps: Total training steps, rounded up to whole rollouts.
        eval_every: Steps between two evaluations.
        log_every: Steps between two reports of the training.
    """

    rollout: int
    rollouts_at_once: int | None
    steps: int
    eval_every: int
    log_every: int


def require_valid(config: AttrDict, ranks: int = 1) -> None:
    """Refuse settings that no training can start with."""
    checks.require_settings(config, ranks)
    env_kinds.of(config).require(config)


def make(config: AttrDict, in_graph: bool = False) -> Plan:
    """Compute the plan of a configuration.

    Args:
        config: Settings.
        in_graph: Whether environments step in the graph, so that a program can comprise several
            updates.
    """
    rollout = config.num_agents * config.update_every
    at_once = None
    if in_graph and rollout <= ONE_PROGRAM_STEPS:
        at_once = CALL_STEPS // rollout
    return Plan(
        rollout=rollout,
        rollouts_at_once=at_once,
        steps=math.ceil(config.steps / rollout) * rollout,
        eval_every=config.eval_every,
        log_every=config.log_every or math.ceil(config.steps / LOG_POINTS),
    )


def describe(config: AttrDict, plan: Plan, ranks: int = 1) -> str:
    """Describe a training in one line."""
    updates = errors.quantity(plan.steps // plan.rollout, 'update')
    episodes = errors.quantity(config.eval_episodes, 'episode')
    agents = errors.quantity(config.num_agents // ranks, 'agent')
    if ranks > 1:
        agents = f'{ranks} ranks × {agents}'
    every = min(max(plan.eval_every, plan.rollout), plan.steps)
    return (
        f'{agents} × {config.update_every} steps → update of '
        f'{plan.rollout:,} rows; {updates} = {plan.steps:,} steps; '
        f'evaluation of {episodes} every {every:,}'
    )


def require_room(observ_space: gym.Space, action_space: gym.Space, config: AttrDict) -> None:
    """Refuse observations that are too large for a network, or for memory as a rollout.

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
        math.prod(spaces.shape(leaf)) * (1 if leaf.dtype == 'uint8' else 4) for leaf in leaves
    )
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
    """Describe in a few lines how the networks map observations to actions."""
    if callable(config.network):
        name = getattr(config.network, '__name__', repr(config.network))
        return [f'{name}, a function of yours']
    visible = choices.visible_space(observ_space, action_space)
    shared = encodings.shares_encoder(visible, config)
    policy, value = (
        _describe_layers(config[f'{owner}_layers'], config) for owner in ('policy', 'value')
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
