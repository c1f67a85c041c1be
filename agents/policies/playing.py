"""Playing of episodes, shared by evaluation, recording and videos."""

import contextlib
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import agents
from agents.config import overrides, store
from agents.terminal import interrupts
from agents.tools import errors
from agents.tools.attr_dict import AttrDict
from agents.tools.nested import Nest
from agents.training import env_kinds, env_setup, storage

# How many episodes can be kept.
MOST_EPISODES = 10**7

# Settings that environments are played with, which may be replaced.
PLAYED = (
    'env',
    'env_kwargs',
    'max_length',
    'observ_bounds',
    'action_masks',
    'seed',
    'num_workers',
    'worker_timeout',
)


class Run(NamedTuple):
    """Run whose policy is played.

    Attributes:
        logdir: Directory of the run.
        config: Settings of the training.
        env_config: Settings of the environments.
        checkpoint: Training step of a checkpoint, or 'best'; None for the last.
    """

    logdir: pathlib.Path
    config: AttrDict
    env_config: AttrDict
    checkpoint: int | str | None

    @contextlib.contextmanager
    def start(
        self, num_agents: int, env_processes: bool | None = None, render_mode: str | None = None
    ) -> Iterator[tuple[Any, Any]]:
        """Start environments and load the policy for as many agents.

        Args:
            num_agents: Number of environments.
            env_processes: Use worker processes, None for whichever is faster.
            render_mode: Render mode, or None.
        """
        config = self.env_config
        kind = env_kinds.of(config)
        batch_env = kind.start_playing(config, num_agents, env_processes, render_mode)
        # Libraries may swallow the exception that a signal raises, not this.
        interrupts.current().call(batch_env.cancel)
        with contextlib.closing(batch_env):
            storage.require_same_spaces(
                batch_env, self.logdir, 'choose the environment by --env or --config'
            )
            policy = agents.load(self.logdir, self.config, self.checkpoint, num_agents, config.seed)
            yield batch_env, policy


def open_run(
    logdir: pathlib.Path,
    checkpoint: int | str | None = None,
    config: AttrDict | None = None,
    changes: Sequence[str] = (),
    env: Any = None,
    trust: bool = False,
) -> Run:
    """Read the settings of a run, and change those of its environment.

    Args:
        logdir: Directory of the run.
        checkpoint: Training step of a checkpoint, or 'best'; by default the last.
        config: Configuration, if its functions cannot be found again.
        changes: Texts `key=value` that replace settings of the environment.
        env: Environment instead of that of the run.
        trust: Run code that the run names though it is not signed.
    """
    config = store.restore_config(config, logdir, changes, env=env, trusted=trust)
    changed = overrides.apply(config, changes)
    _require_played(config, changed)
    storage.require_checkpoint(logdir)
    env_kinds.of(changed).require(changed)
    if env_setup.limit(changed) is None:
        changed = changed.copy(max_length=env_setup.ENDLESS)
    return Run(logdir, config, changed, checkpoint)


class Step(NamedTuple):
    """Step of all agents; the fields are `[agent, ...]`.

    Attributes:
        observ: Observations that were acted on.
        action: Actions, within bounds and starting at zero.
        reward: Rewards.
        terminated: Mask of terminated episodes.
        truncated: Mask of truncated episodes.
        counts: Mask of agents whose step belongs to a requested episode.
        lost: Mask of lost steps, after which the episode starts again.
    """

    observ: Nest
    action: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    counts: np.ndarray
    lost: np.ndarray

    @property
    def done(self) -> np.ndarray:
        return self.terminated | self.truncated


def play(batch_env: Any, policy: Any, num_episodes: int, deterministic: bool) -> Iterator[Step]:
    """Play episodes, equally many in each environment up to one.

    Taking those that end first would make short episodes more frequent.

    Args:
        batch_env: Environments, at most as many as episodes.
        policy: Policy for as many agents, see `agents.load`.
        num_episodes: Number of episodes of all environments together.
        deterministic: Take the most probable actions instead of sampling.
    """
    share, rest = divmod(num_episodes, len(batch_env))
    left = share + (np.arange(len(batch_env)) < rest)
    observ = batch_env.reset()
    policy.reset()
    while left.any():
        action = policy.choose(observ, deterministic)
        after, reward, terminated, truncated, _ = batch_env.step(action)
        step = Step(observ, action, reward, terminated, truncated, left > 0, batch_env.lost)
        yield step
        left -= step.done & step.counts & ~step.lost
        observ = after
        policy.reset(step.done)


def _require_played(config: AttrDict, changed: AttrDict) -> None:
    """Refuse changed settings that would have no effect, such as those of a network."""
    for key in changed:
        if key not in PLAYED and changed[key] != config[key]:
            raise errors.ConfigError(
                f'A policy is played with the {key} of its training, '
                f'{config[key]}, got {key}={changed[key]}. Leave it as it was; '
                f'what can be replaced is {", ".join(PLAYED)}.'
            )
