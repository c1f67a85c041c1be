"""Comparison of an exported policy with `agents.load`."""

import pathlib
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from agents.exporting import description
from agents.policies import playing
from agents.policies.load import LoadedPolicy
from agents.tools import choices, errors, nested, spaces
from agents.tools.attr_dict import AttrDict
from agents.tools.nested import Nest
from agents.training import env_names

STEPS = 500
IMAGINED_LENGTH = 50

# How far actions may be apart, of those beyond one in relation to them.
TOLERANCE = 1e-5


class Moment(NamedTuple):
    """Observation to compare policies on.

    Attributes:
        observ: Observation of the environment.
        mask: Action mask, or None.
        begins: Whether an episode begins.
    """

    observ: Nest
    mask: np.ndarray | None
    begins: bool


class Found(NamedTuple):
    """Result of a comparison.

    Attributes:
        steps: Number of steps.
        source: Origin of the observations.
        difference: Largest difference of actions.
        microseconds: Duration of an action, of the exported policy and of `agents.load`.
    """

    steps: int
    source: str
    difference: float
    microseconds: tuple[float, float]


def observe(
    loaded: LoadedPolicy,
    logdir: pathlib.Path,
    config: AttrDict | None,
    changes: Sequence[str],
    env: Any = None,
    trust: bool = False,
) -> tuple[list[Moment], str]:
    """Return observations to compare policies on, and their origin.

    Those of episodes that the policy plays, or random ones if its environment cannot be made. An
    environment with other spaces is refused.

    Args:
        loaded: Policy.
        logdir: Directory of its run.
        config: Configuration, if its functions cannot be found again.
        changes: Texts `key=value` that replace settings.
        env: Environment instead of that of the run.
        trust: Run code that the run names though it is not signed.
    """
    try:
        run = playing.open_run(logdir, loaded.checkpoint, config, changes, env, trust)
        with run.start(1, env_processes=False) as (batch_env, policy):
            moments = [*_play(batch_env, policy)]
        return moments, env_names.name_of(run.config.env)
    except (errors.Cancelled, errors.MisfitError):
        raise
    except errors.UserError as error:
        if changes or env is not None:  # It is one that was asked for.
            raise
        reason = str(error).partition('\n')[0].rstrip('.')
        return [*imagine(loaded, STEPS)], f'random observations (no environment: {reason})'


def imagine(loaded: LoadedPolicy, steps: int) -> Iterator[Moment]:
    """Yield random observations, with masks that leave each part a choice."""
    seen = description.environment_space(loaded.observation_space, loaded.action_space)
    seen.seed(0)
    rng = np.random.default_rng(0)
    masked = choices.has_mask(loaded.observation_space, loaded.action_space)
    for step in range(steps):
        mask = None
        if masked:
            sizes = choices.sizes(loaded.action_space)
            parts = [rng.permutation(size) <= size // 2 for size in sizes]
            mask = np.concatenate(parts)
        yield Moment(seen.sample(), mask, step % IMAGINED_LENGTH == 0)


def compare(loaded: LoadedPolicy, exported: Any, moments: list[Moment], source: str) -> Found:
    """Compare the actions of two policies, and their durations.

    Args:
        loaded: Policy as it was trained.
        exported: Exported policy, with `reset` and a call.
        moments: Observations.
        source: Origin of the observations.
    """
    expected, theirs = _act(loaded, moments)
    found, ours = _act(exported, moments)
    apart = [
        float(np.max(_apart(*pair), initial=0.0)) for pair in zip(found, expected, strict=True)
    ]
    worst = int(np.argmax(apart))
    if not apart[worst] <= TOLERANCE:
        raise errors.UserError(
            f'The exported policy does not do what agents.load does: in step '
            f'{worst} of {source} it chooses {found[worst]} instead of '
            f'{expected[worst]}. Nothing was written; --nocheck writes it '
            'without looking.'
        )
    return Found(len(moments), source, apart[worst], (ours, theirs))


def _act(policy: Any, moments: list[Moment]) -> tuple[list[np.ndarray], float]:
    """Return the actions of a policy, and the median microseconds of one."""
    actions, seconds = [], []
    for observ, mask, begins in moments:
        if begins:
            policy.reset()
        start = time.perf_counter()
        action = policy(observ, mask=mask)
        seconds.append(time.perf_counter() - start)
        actions.append(np.asarray(action))
    return actions, 1e6 * statistics.median(seconds)


def _apart(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return the differences of actions, relative where the expected action exceeds 1."""
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    return np.abs(found - expected) / np.maximum(np.abs(expected), 1.0)


def _play(batch_env: Any, policy: LoadedPolicy) -> Iterator[Moment]:
    """Yield the observations of the first environment while a policy plays."""
    observ, begins = batch_env.reset(), True
    policy.reset()
    for _ in range(STEPS):
        row = nested.map(lambda leaf: leaf[0].copy(), observ)
        yield _to_moment(policy, row, begins)
        action = policy.choose(observ)
        observ, _, terminated, truncated, _ = batch_env.step(action)
        done = terminated | truncated | batch_env.lost
        policy.reset(done)
        begins = bool(done[0])


def _to_moment(policy: LoadedPolicy, observ: Nest, begins: bool) -> Moment:
    """Convert an observation of the training to one of the environment."""
    space, mask = policy.observation_space, None
    starts = iter(map(spaces.start, spaces.leaves(space)))
    observ = nested.map(lambda leaf: leaf + next(starts), observ)
    if choices.has_mask(space, policy.action_space):
        mask = observ.pop(choices.KEY)
        if {*observ} == {choices.OBSERVATION}:
            observ = observ[choices.OBSERVATION]
    return Moment(observ, mask, begins)
