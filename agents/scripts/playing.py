"""What the commands share that play the policy of a run."""

import contextlib
import pathlib
import signal
from collections.abc import Callable, Iterator
from typing import Any

import agents
from agents import tools
from agents.scripts import console, env_setup, interrupts, vectors
from agents.tools import choices, errors
from agents.tools.attr_dict import AttrDict


@contextlib.contextmanager
def opened(
    logdir: pathlib.Path,
    config: AttrDict,
    changed: AttrDict,
    num_agents: int,
    checkpoint: int | str | None = None,
    env_processes: bool = True,
    signals: interrupts.Interrupts | None = None,
    render_mode: str | None = None,
) -> Iterator[tuple[Any, Any]]:
    """The environments of a run and its policy, for as many agents.

    Args:
        logdir: Directory of the run.
        config: Its settings.
        changed: The settings that environments are made by.
        num_agents: How many environments.
        checkpoint: Training step of a checkpoint or `best`, by default the
            last.
        env_processes: Whether environments have processes of their own.
        signals: Where signals are heard, by default nowhere.
        render_mode: What environments are asked for, if they are to be seen.
    """
    seed = changed.seed, env_setup.VIDEO
    envs: list[Any]
    if vectors.is_vector(changed):
        envs = [
            vectors.start(changed, num_agents, seed, render_mode=render_mode)
        ]
    else:
        envs = env_setup.start(
            env_setup.constructor(changed, render_mode),
            num_agents,
            # Workers have no TensorFlow, which native environments need.
            env_processes and not env_setup.is_native(changed),
            changed.num_workers,
            seed,
            changed.worker_timeout,
        )
    batch_env = tools.BatchEnv(envs, timeout=changed.worker_timeout)
    # Libraries may swallow the exception that a signal raises, but not this.
    (signals or interrupts.Interrupts()).call(batch_env.cancel)
    with contextlib.closing(batch_env):
        policy = agents.load(logdir, config, checkpoint, num_agents)
        _require_same_masks(batch_env, policy)
        yield batch_env, policy


def _require_same_masks(batch_env: Any, policy: Any) -> None:
    """Refuse environments that tell of masks as the training had them not."""
    learnt, found = [
        choices.has_mask(each.observation_space, each.action_space)
        for each in (policy, batch_env)
    ]
    if learnt != found:
        raise errors.ConfigError(
            f'The policy has learnt with{"" if learnt else "out"} masks of '
            'actions, and its environments are made the other way: --set '
            f'action_masks={str(learnt).lower()}.'
        )


def run(
    command: Callable[[interrupts.Interrupts], None], quiet: bool = False
) -> int:
    """Run a command; returns its exit code, with one line for a mistake.

    Args:
        command: What to do, and where it hears of signals.
        quiet: Whether to print errors only.
    """
    with interrupts.Interrupts(quiet=quiet) as signals:
        try:
            command(signals)
        except (Exception, KeyboardInterrupt) as error:
            # What is interrupted may raise anything, such as a pipe's error.
            if signals.signal or isinstance(error, KeyboardInterrupt):
                return 128 + (signals.signal or signal.SIGINT)
            if not isinstance(error, errors.UserError):
                raise
            console.complain(str(error))
            return 1
    return 0
