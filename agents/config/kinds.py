"""Kinds of values of settings."""

import dataclasses
import math
import numbers
import re
from collections.abc import Sequence
from typing import Any

from agents.config import sizes

# Names that `encodings.py` knows, which takes long to import.
PRESETS = 'atari', 'small'

# How long a list may be. It may come from a stranger, and so may numbers that
# become memory, for which there are limits below.
MOST_PARTS = 100

TYPES = {
    int: 'a whole number',
    float: 'a number',
    bool: 'true or false',
    str: 'a name',
    dict: 'names with their values, such as {size: 9}',
}


@dataclasses.dataclass(frozen=True)
class Kind:
    """Values that a setting may have.

    Attributes:
        type: Type of the value, or of the elements of a list.
        least: Minimum.
        above: Exclusive minimum.
        most: Maximum.
        choices: Allowed names.
        is_list: Whether the value is a list.
        or_none: Whether it may be None.
        or_function: Whether it may be a function.
        name: Description of the value, where its type is not enough.
        pattern: Regular expression that a text must match.
    """

    type: type
    least: float | None = None
    above: float | None = None
    most: float | None = None
    choices: Sequence[str] = ()
    is_list: bool = False
    or_none: bool = False
    or_function: bool = False
    name: str = ''
    pattern: str = '(?s).*'

    def convert(self, value: Any) -> Any:
        """Convert a value that was read from text.

        Integers may be written as 1e6, for example.
        """
        if self.is_list and isinstance(value, list):
            return [self._convert_one(part) for part in value]
        if self.or_none and str(value).lower() == 'none':
            return None
        return self._convert_one(value)

    def allows(self, value: Any) -> bool:
        if value is None:
            return self.or_none
        if self.or_function and callable(value):
            return True
        if self.is_list:
            parts = value if isinstance(value, (list, tuple)) else [None]
            return len(parts) <= MOST_PARTS and all(self._allows_one(part) for part in parts)
        return self._allows_one(value)

    def describe(self) -> str:
        """Describe the allowed values, to follow 'has to be'."""
        text = f'{self.name or TYPES[self.type]}{self._describe_range()}'
        if self.choices:
            text = f'one of {", ".join(self.choices)}'
        if self.is_list:
            example = '[a, b]' if self.type is str else '[64, 64]'
            text = f'a list of at most {MOST_PARTS} parts, such as {example}, each {text}'
        alternatives = [
            name
            for name, possible in (
                ('a function', self.or_function and not self.name),
                ('None', self.or_none),
            )
            if possible
        ]
        return ' or '.join([text, *alternatives])

    def _convert_one(self, value: Any) -> Any:
        if self.type is float and type(value) is int:
            return float(value)
        if self.type is int and isinstance(value, float) and value % 1 == 0:
            return int(value)
        return value

    def _allows_one(self, value: Any) -> bool:
        if self.choices:
            return value in self.choices
        if self.type not in (int, float):
            fits = re.fullmatch(self.pattern, str(value)) is not None
            return isinstance(value, self.type) and fits
        numeric = numbers.Integral if self.type is int else numbers.Real
        if isinstance(value, bool) or not isinstance(value, numeric):
            return False
        number: Any = value
        return (
            math.isfinite(number)
            and (self.least is None or number >= self.least)
            and (self.above is None or number > self.above)
            and (self.most is None or number <= self.most)
        )

    def _describe_range(self) -> str:
        if self.above is not None:
            return f' above {self.above:g}'
        if self.least is not None and self.most is not None:
            return f' from {self.least:,.12g} to {self.most:,.12g}'
        return '' if self.least is None else f' of at least {self.least:g}'


@dataclasses.dataclass(frozen=True)
class ConvolutionsKind(Kind):
    """Name of convolutions, or a list of [filters, size, stride]."""

    def convert(self, value: Any) -> Any:
        return None if str(value).lower() == 'none' else value

    def allows(self, value: Any) -> bool:
        if value is None or isinstance(value, str):
            return value is None or value in self.choices
        return (
            isinstance(value, (list, tuple))
            and 0 < len(value) <= MOST_PARTS
            and all(
                isinstance(part, (list, tuple))
                and len(part) == 3
                and all(map(self._allows_number, part))
                for part in value
            )
        )

    def describe(self) -> str:
        return (
            f'one of {", ".join(self.choices)} or a list of [filters, size, '
            f'stride], such as [[32, 8, 4], [64, 4, 2]], of whole numbers from '
            f'{self.least} to {self.most:,}, or None'
        )

    def _allows_number(self, value: Any) -> bool:
        return Kind(int, least=self.least, most=self.most).allows(value)


@dataclasses.dataclass(frozen=True)
class FunctionsKind(Kind):
    """List of functions, or of their names."""

    def describe(self) -> str:
        return f'a list of at most {MOST_PARTS} functions, or of their names as file.py:function'

    def _allows_one(self, value: Any) -> bool:
        return callable(value) or super()._allows_one(value)


COUNT = Kind(int, least=1)
COUNT_OR_ZERO = Kind(int, least=0)
PASSES = Kind(int, least=1, most=1_000_000)
PASSES_OR_ZERO = Kind(int, least=0, most=1_000_000)
AGENT_STEPS_OR_NONE = Kind(int, least=1, most=10**9, or_none=True)
ENVIRONMENTS = Kind(int, least=1, most=100_000)
CHECKPOINTS = Kind(int, least=2, most=100_000)
PROCESSES_OR_NONE = Kind(int, least=1, most=10_000, or_none=True)
UNITS = Kind(int, least=1, most=65_536)
LAYERS = Kind(int, least=1, most=65_536, is_list=True)
UNITS_OR_NONE = Kind(int, least=1, most=65_536, or_none=True)
CONVOLUTIONS = ConvolutionsKind(str, least=1, most=1024, choices=PRESETS, or_none=True)
ROWS = Kind(int, least=1, most=sizes.MAX_ROWS)
FLAG = Kind(bool)
FLAG_OR_NONE = Kind(bool, or_none=True)
FRACTION = Kind(float, least=0, most=1)
NAMED_VALUES = Kind(dict)
POSITIVE = Kind(float, above=0)
POSITIVE_OR_NONE = Kind(float, above=0, or_none=True)
WEIGHT = Kind(float, least=0)
COUNT_OR_NONE = Kind(int, least=1, or_none=True)
# Of columns of a table, which has no quotes.
COLUMNS = Kind(
    str,
    is_list=True,
    name='a name without commas, quotes and spaces at its ends',
    pattern=r'[^\s,"]([^,"\r\n]*[^\s,"])?',
)
CALLBACKS = FunctionsKind(str, is_list=True, pattern=r'.+:[^\W\d]\w*')
FILE_OR_NONE = Kind(str, or_none=True, name='the name of a file')
RUN_OR_NONE = Kind(str, or_none=True, name='the directory of a run')
SEED = Kind(int, least=0, most=2**32 - 1)
ENVIRONMENT = Kind(
    str, or_function=True, name='the name of an environment, or a class or function that makes one'
)


def one_of(*choices: str, or_none: bool = False, or_function: bool = False) -> Kind:
    """Return the kind of a setting with a list of choices."""
    return Kind(str, choices=choices, or_none=or_none, or_function=or_function)
