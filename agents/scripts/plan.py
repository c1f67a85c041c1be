"""What a configuration amounts to, in numbers."""

import dataclasses
from typing import Any

from agents.tools import errors
from agents.tools.attr_dict import AttrDict

POSITIVE = (
    'max_length', 'num_agents', 'steps', 'update_every', 'eval_every',
    'eval_episodes', 'checkpoint_every', 'worker_timeout', 'learning_rate',
    'init_std', 'recurrent_units', 'update_epochs', 'value_epochs',
)  # fmt: skip

FRACTIONS = 'discount', 'gae_lambda'

# Steps of a call at most, so that it does not take long to be interrupted.
CALL_STEPS = 32_768

# Steps of a rollout up to which one program is faster than several that run at
# the same time.
ONE_PROGRAM_STEPS = 2048


@dataclasses.dataclass(frozen=True)
class Plan:
    """Numbers of steps, of all agents together.

    Attributes:
        rollout: Steps between two updates.
        updates: How many updates a call of the training operation comprises as
            one program, or None if it is not one program, see
            `agents.tools.simulation.training`.
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


def make(config: AttrDict, in_graph: bool = False) -> Plan:
    """Divide the steps of a configuration into phases.

    The number of evaluations and the number of updates between them are
    rounded, so that the steps in total are near those asked for.

    Args:
        config: Settings.
        in_graph: Whether the environments are in the graph, so that a program
            can comprise several updates.
    """
    for name in POSITIVE:
        if name in config:
            _require_positive(name, config[name])
    for name in FRACTIONS:
        _require_fraction(name, config[name])
    if config.num_workers is not None:
        _require_positive('num_workers', config.num_workers)
    restarts = config.worker_restarts
    if not (isinstance(restarts, int) and restarts >= 0):
        raise errors.ConfigError(
            "The setting 'worker_restarts' has to be a number from 0, not "
            f'{restarts}.'
        )
    if not 0 <= config.seed < 2**32:
        raise errors.ConfigError(
            f'The seed has to be from 0 to 2³² - 1, not {config.seed}.'
        )
    rollout = config.num_agents * config.update_every
    updates = max(1, round(config.steps / rollout))
    cycles = max(1, round(updates * rollout / max(config.eval_every, rollout)))
    updates = max(1, round(updates / cycles))
    together = None
    if in_graph and rollout <= ONE_PROGRAM_STEPS:
        together = _updates_together(rollout, updates)
    return Plan(
        rollout=rollout,
        updates=together,
        train=rollout * updates,
        evaluation=config.eval_episodes * config.max_length,
        cycles=cycles,
    )


def _require_positive(name: str, value: Any) -> None:
    if not (isinstance(value, (int, float)) and value > 0):
        raise errors.ConfigError(
            f'The setting {name!r} has to be positive, not {value}.'
        )


def _require_fraction(name: str, value: Any) -> None:
    if not (isinstance(value, (int, float)) and 0 <= value <= 1):
        raise errors.ConfigError(
            f'The setting {name!r} has to be from 0 to 1, not {value}.'
        )


def _updates_together(rollout: int, updates: int) -> int:
    """A divisor of the number of updates that makes a call worth its while."""
    most = max(1, CALL_STEPS // rollout)
    return max(
        n for n in range(1, updates + 1) if n <= most and not updates % n
    )


def describe(config: AttrDict, plan: Plan) -> str:
    """Say it as a sentence."""
    updates = plan.steps // plan.rollout
    return (
        f'{config.num_agents} agents × {config.update_every} steps → update of '
        f'{plan.rollout:,} rows; {updates:,} updates = {plan.steps:,} steps; '
        f'evaluation of {config.eval_episodes} episodes every {plan.train:,}'
    )
