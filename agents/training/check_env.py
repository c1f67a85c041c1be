"""Check of an environment before training."""

import dataclasses
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from agents.config import checks, lookup, overrides
from agents.terminal import console
from agents.tools import errors
from agents.tools.attr_dict import AttrDict
from agents.tools.checking import inspection_worker
from agents.tools.checking.inspection_report import Breach, Report
from agents.training import check_text, env_kinds, env_setup, experiments, plan
from agents.training.experiments import Experiment

# Where lines are broken, if it is no terminal that they are shown on.
WIDTH = 80

# How long a check takes at most, but for imports and a call under way.
SECONDS = 30.0

# The command that follows.
TRAIN = 'agents train'


@dataclasses.dataclass(frozen=True)
class Check:
    """Result of a check; as a string, the output of the command.

    Attributes:
        config: Settings that the environment was made by.
        report: Findings.
        train: Commands to train on the environment.
        steps: Number of steps that were requested.
    """

    config: AttrDict
    report: Report
    train: list[str]
    steps: int

    @property
    def breaches(self) -> list[Breach]:
        """Violations of the API of Gymnasium."""
        return self.report.breaches

    def __str__(self) -> str:
        return '\n'.join(self.lines())

    def lines(self, width: int | None = None, breaches: bool = False) -> Iterator[str]:
        """Return the output as lines.

        Args:
            width: Width of the terminal, by default a usual one.
            breaches: Only list violations.
        """
        width = max(width or WIDTH, 3 * console.TOPIC) - console.TOPIC
        told = check_text.list_breaches(self.report) if breaches else check_text.describe(self)
        for topic, text in told:
            lines = textwrap.wrap(text, width) if isinstance(text, str) else text
            for line in lines:
                yield f'{topic:<{console.TOPIC}}{line}'.rstrip()
                topic = ''


def check(
    env: Any, steps: int = 2000, seed: int = 0, seconds: float = SECONDS, **changes: Any
) -> Check:
    """Step an environment with random actions and report its behaviour and violations of the API.

    Runs in a process of its own, as the environment may crash or hang.

    Args:
        env: Value of the setting `env`: an Id, `module:Id`, or a class or function.
        steps: Number of steps.
        seed: Seed of the environment and the actions.
        seconds: Time limit; what is not done by then is left out, and a call that does not return
            is an error.
        changes: Other settings, such as `env_kwargs`.
    """
    if isinstance(env, str) and not changes:
        experiment = experiments.find(env=env, look=False)
        found = check_config(
            experiment.config, steps, seed, [f'{TRAIN} --env={env}'], seconds=seconds
        )
        return as_trained(found, experiment)
    config = lookup.configs().ppo(env=env, **changes)
    return check_config(config, steps, seed, seconds=seconds)


def check_config(
    config: AttrDict,
    steps: int = 2000,
    seed: int = 0,
    train: Sequence[str] | None = None,
    progress: Callable[[int], None] = lambda step: None,
    seconds: float = SECONDS,
) -> Check:
    """Check the environment of a config, like `check`.

    Args:
        config: Settings.
        steps: Number of steps.
        seed: Seed of the environment and the actions.
        train: Commands to train on it, by default derived from the settings.
        progress: Called with the number of steps from time to time.
        seconds: Time limit.
    """
    errors.require_positive('steps', steps)
    errors.require_integer('seed', seed, 0, 2**32 - 1)
    if not seconds > 0:
        raise errors.ConfigError(
            f'seconds must be positive, got {seconds}. Leave it out for {SECONDS:g}.'
        )
    checks.require_settings(config)
    inspect, make = env_kinds.of(config).inspection(config)
    limit = env_setup.limit(config) or env_setup.ENDLESS
    report = inspection_worker.inspect(
        inspect, seconds, progress, make=make, steps=steps, seed=seed, limit=limit
    )
    _require_room(report, config)
    return Check(config, report, list(train or _how_to_train(config)), steps)


def as_trained(found: Check, experiment: Experiment, changes: Sequence[str] = ()) -> Check:
    """Replace the settings of a check by those that a training would choose."""
    space = found.report.observation_space
    if space is None or any(breach.ends for breach in found.breaches):
        return found
    suited = experiments.suit_observations(experiment, space).config
    return dataclasses.replace(found, config=overrides.apply(suited, changes))


def _require_room(report: Report, config: AttrDict) -> None:
    """Record observations that are too large."""
    if report.observation_space and report.action_space and report.steps:
        both = report.observation_space, report.action_space
        try:
            plan.require_room(*both, config)
        except errors.ConfigError as error:
            report.breaches.append(Breach('spaces', f'{error}', True, 0, 0))


def _how_to_train(config: AttrDict) -> list[str]:
    """Return a command if the environment has a name, else a config to write."""
    default = lookup.configs().ppo()
    changes = {key: config[key] for key in config if config[key] != default[key]}
    if set(changes) <= {'env'} and isinstance(config.env, str):
        return [f'{TRAIN} --env={config.env}']
    shown = ', '.join(
        f'{key}={getattr(value, "__name__", repr(value))}' for key, value in changes.items()
    )
    return [
        f'{TRAIN} --config=FILE.py:mine, where FILE.py has',
        '  from agents import configs',
        '  def mine():',
        f'      return configs.ppo({shown})',
    ]
