"""Calls of user callbacks, and their effects."""

import math
import numbers
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from agents.config import kinds, lookup
from agents.tools import errors
from agents.tools.world import ALONE, World
from agents.training import env_names

if TYPE_CHECKING:  # It imports TensorFlow.
    from agents.tools.runs.loop import Report

EXPECTED = 'numbers by name, False to stop, or nothing'


def find(callbacks: Sequence[Any]) -> list[Callable[['Report'], Any]]:
    """Import the callbacks that are given by name, as file.py:function."""
    kind = kinds.CALLBACKS
    if not kind.allows(callbacks):
        raise errors.ConfigError(f'Callbacks have to be {kind.describe()}, not {callbacks!r}.')
    return [
        each if callable(each) else lookup.find_in_file(*each.rsplit(':', 1)) for each in callbacks
    ]


class Calling:
    """Calls callbacks with every report.

    Attributes:
        stopped_by: Name of the callback that ended the training, if any.
        failure: Exception of a callback, including that of `sys.exit`, or on other ranks a
            substitute.

    Args:
        functions: Callbacks, see `agents.training.callbacks`.
        ranks: Ranks that follow the first one.
    """

    def __init__(self, functions: Sequence[Callable[['Report'], Any]], ranks: World = ALONE):
        self.stopped_by: str | None = None
        self.failure: BaseException | None = None
        self._functions = list(functions)
        self._ranks = ranks

    def complete(self, report: 'Report') -> 'Report':
        """Call all callbacks; returns the report with their metrics added."""
        if not self._functions:
            return report
        found: dict[str, float] = {}
        if self._ranks.is_first:
            found = self._call_all(report)
        failed = self.failure is not None
        found, self.stopped_by, failed = self._ranks.share([found, self.stopped_by, failed])
        if failed and not self.failure:
            self.failure = errors.ElsewhereError(
                'A callback of the first rank has raised an error.'
            )
        return report._replace(metrics={**report.metrics, **found})

    def _call_all(self, report: 'Report') -> dict[str, float]:
        found: dict[str, float] = {}
        for function in self._functions:
            try:
                answer = function(report)
                if isinstance(answer, Mapping):
                    taken = {*report._fields, *report.metrics, *found}
                    found.update(_numbers(function, answer, taken))
                elif not _is_verdict(answer):
                    raise _refuse(function, f'returned {answer!r}')
                elif answer is not None and not answer:
                    self.stopped_by = env_names.name_of(function)
            except (Exception, SystemExit) as error:
                self.failure = error
                break
        return found


def _is_verdict(answer: Any) -> bool:
    """Return whether a result is None, True or False."""
    return answer is None or isinstance(answer, (bool, np.bool_))


def _numbers(function: Callable, answer: Mapping[str, Any], taken: set[str]) -> dict[str, float]:
    """Validate the metrics that a callback returned."""
    for name, value in answer.items():
        if not re.fullmatch(kinds.COLUMNS.pattern, str(name)):
            raise _refuse(
                function, f'named a number {name!r}, which has to be {kinds.COLUMNS.name}'
            )
        if name in taken:
            raise _refuse(function, f'named a number {name!r}, which is there already')
        if not _is_number(value):
            raise _refuse(function, f'returned {value!r} as {name!r}')
    return {str(name): _finite(value) for name, value in answer.items()}


def _is_number(value: Any) -> bool:
    """Return whether a value is a number, including arrays and tensors of one element."""
    return isinstance(value, numbers.Real) or (hasattr(value, 'shape') and tuple(value.shape) == ())


def _finite(value: Any) -> float:
    """Convert a metric for tables and curves; NaN if it is not finite."""
    number = float(value)
    return number if math.isfinite(number) else math.nan


def _refuse(function: Callable, problem: str) -> errors.ConfigError:
    return errors.ConfigError(
        f'The callback {env_names.name_of(function)} {problem}. A callback returns {EXPECTED}.'
    )
