"""Settings of trials: all combinations of a grid, or those of a search."""

import contextlib
import itertools
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from agents.config import overrides, plain_yaml
from agents.tools import errors
from agents.tools.attr_dict import AttrDict

# Digits of numbers that a search comes up with.
DIGITS = 4

# Points after which scores of others are compared with, and the part of the
# evaluations before which none is given up.
PRUNE_AFTER = 5
PRUNE_FROM = 0.25

Settings = Mapping[str, Any]


class Range(NamedTuple):
    """Range of numbers for a setting.

    Attributes:
        low: Minimum.
        high: Maximum.
        log: Sample on a logarithmic scale.
        whole: Integers only.
    """

    low: float
    high: float
    log: bool
    whole: bool

    def allows(self, value: Any) -> bool:
        kinds = (int,) if self.whole else (int, float)
        number = isinstance(value, kinds) and not isinstance(value, bool)
        return number and self.low <= value <= self.high


class Choice(NamedTuple):
    """Choices for a setting."""

    values: list[Any]

    def allows(self, value: Any) -> bool:
        return value in self.values


class Result(NamedTuple):
    """Result of a point that was tried before.

    Attributes:
        settings: Settings.
        score: Score, or None.
        scores: Scores of its evaluations so far.
        state: `finished`, `failed`, `pruned` or `begun`.
    """

    settings: Settings
    score: float | None
    scores: Sequence[float]
    state: str


class Points(Protocol):
    """Sequence of points in the space of settings."""

    def next(self) -> Settings | None:
        """Return the settings of the next point; None at the end."""

    def report(self, point: int, number: int, score: float) -> bool:
        """Receive the score of an evaluation; returns whether to prune the point."""

    def tell(self, point: int, score: float | None, state: str) -> None:
        """Receive the result of a point."""


class Grid:
    """Combinations of all values.

    Args:
        values: Values of each setting.
    """

    def __init__(self, values: Mapping[str, Sequence[Any]]):
        self._points = [
            dict(zip(values, combination, strict=True))
            for combination in itertools.product(*values.values())
        ]
        self._number = 0

    def __len__(self) -> int:
        return len(self._points)

    def __iter__(self) -> Iterator[Settings]:
        return iter(self._points)

    def next(self) -> Settings | None:
        if self._number == len(self._points):
            return None
        self._number += 1
        return self._points[self._number - 1]

    def report(self, point: int, number: int, score: float) -> bool:
        return False

    def tell(self, point: int, score: float | None, state: str) -> None:
        pass


class Search:
    """Points proposed by the TPE sampler of Optuna, with median pruning.

    Args:
        space: Range or choices of each setting.
        count: Number of points.
        evaluations: Number of evaluations of a trial.
        results: Points that were tried before; unfinished ones come first.
    """

    def __init__(
        self,
        space: Mapping[str, Range | Choice],
        count: int,
        evaluations: int,
        results: Sequence[Result] = (),
    ):
        self._optuna = import_optuna()
        self._space, self._count = space, count
        with _quiet():
            self._study = self._optuna.create_study(
                direction='maximize',
                # Another seed, lest what was proposed comes again.
                sampler=self._optuna.samplers.TPESampler(seed=len(results), constant_liar=True),
                pruner=self._optuna.pruners.MedianPruner(
                    n_startup_trials=PRUNE_AFTER, n_warmup_steps=int(PRUNE_FROM * evaluations)
                ),
            )
        self._trials: list[Any] = []
        for result in results:
            self._trials.append(self._add(result))
        self._number = 0

    def next(self) -> Settings | None:
        if self._number == self._count:
            return None
        if self._number == len(self._trials):
            self._trials.append(self._ask())
        self._number += 1
        return self._values(self._trials[self._number - 1])

    def report(self, point: int, number: int, score: float) -> bool:
        trial = self._trials[point]
        with _quiet():
            trial.report(score, number)
            return trial.should_prune()

    def tell(self, point: int, score: float | None, state: str) -> None:
        states = self._optuna.trial.TrialState
        with _quiet():
            if state == 'pruned':
                self._study.tell(self._trials[point], state=states.PRUNED)
            elif score is None:
                self._study.tell(self._trials[point], state=states.FAIL)
            else:
                self._study.tell(self._trials[point], score)

    def _ask(self) -> Any:
        with _quiet():
            return self._study.ask(self._distributions())

    def _add(self, result: Result) -> Any:
        """Add an earlier point to the study."""
        parameters = {
            key: _parameter(self._space[key], value) for key, value in result.settings.items()
        }
        if result.state == 'begun':
            self._study.enqueue_trial(parameters)
            return self._ask()
        states = self._optuna.trial.TrialState
        state = states.COMPLETE if result.score is not None else states.FAIL
        if result.state == 'pruned':
            state = states.PRUNED
        with _quiet():
            trial = self._optuna.trial.create_trial(
                params=parameters,
                distributions=self._distributions(),
                value=result.score if state == states.COMPLETE else None,
                intermediate_values=dict(enumerate(result.scores)),
                state=state,
            )
            self._study.add_trial(trial)
        return trial

    def _values(self, trial: Any) -> Settings:
        """Return the settings of a trial of Optuna."""
        values = {}
        for key, kind in self._space.items():
            value = trial.params[key]
            if isinstance(kind, Choice):
                value = kind.values[int(value)]
            elif not kind.whole:
                rounded = float(f'{value:.{DIGITS}g}')
                value = min(max(rounded, kind.low), kind.high)
            values[key] = value
        return values

    def _distributions(self) -> dict[str, Any]:
        made = self._optuna.distributions
        found: dict[str, Any] = {}
        for key, kind in self._space.items():
            if isinstance(kind, Choice):
                # By number, as lists cannot be told apart there.
                numbers = [str(index) for index in range(len(kind.values))]
                found[key] = made.CategoricalDistribution(numbers)
            elif kind.whole:
                found[key] = made.IntDistribution(int(kind.low), int(kind.high), log=kind.log)
            else:
                found[key] = made.FloatDistribution(kind.low, kind.high, log=kind.log)
        return found


def parse_space(config: AttrDict, texts: Mapping[str, str]) -> dict[str, Range | Choice]:
    """Parse the space of a search.

    Args:
        config: Settings to be improved.
        texts: For each setting `LOW..HIGH`, `log:LOW..HIGH`, or values separated by commas.
    """
    return {key: _parse_kind(config, key, text) for key, text in texts.items()}


def import_optuna() -> Any:
    """Import Optuna, which only a search needs."""
    try:
        import optuna
    except ImportError as error:
        raise errors.ConfigError("A search needs Optuna: pip install 'agents[sweep]'.") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _parse_kind(config: AttrDict, key: str, text: str) -> Range | Choice:
    match = re.fullmatch(r'(log:)?(.+?)\.\.(.+)', text)
    if not match:
        values = overrides.parse_list(config, key, text)
        if len(values) < 2:
            raise errors.ConfigError(
                f'A search must have the form {key}=LOW..HIGH, {key}=log:LOW..HIGH or '
                f'{key}=A,B,C, got {key}={text}. Change it.'
            )
        return Choice(values)
    log, *ends = match.groups()
    found = [value for end in ends for value in overrides.parse_list(config, key, end)]
    for end in found:
        if len(found) != len(ends) or isinstance(end, bool) or not isinstance(end, (int, float)):
            raise errors.ConfigError(
                f'The ends of the range {key}={text} must be numbers. Give values separated '
                'by commas instead.'
            )
    low, high = found
    if not low < high or (log and low <= 0):
        raise errors.ConfigError(
            f'The range {key}={text} must have its low end below the high one'
            f'{" and above 0" if log else ""}. Change its ends.'
        )
    whole = isinstance(low, int) and isinstance(high, int)
    return Range(low, high, bool(log), whole)


def _parameter(kind: Range | Choice, value: Any) -> Any:
    """Return the parameter of Optuna for the value of a setting."""
    if isinstance(kind, Choice):
        return str(kind.values.index(value))
    return value


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence warnings of Optuna within this context."""
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        yield


def describe(settings: Settings, between: str = ' ') -> str:
    """Format settings in one line."""
    return between.join(
        f'{key}={plain_yaml.format_value(value, in_one_line=True)}'
        for key, value in settings.items()
    )
