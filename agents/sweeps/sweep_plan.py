"""Plan of a sweep, stored in its directory."""

import dataclasses
import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from agents.config import overrides, plain_yaml, trust
from agents.sweeps import search
from agents.sweeps.search import Choice, Grid, Range, Search
from agents.tools import errors
from agents.tools.attr_dict import AttrDict
from agents.tools.runs import files
from agents.training import experiments
from agents.training.plan import require_valid

FILE = 'sweep.yaml'

# The entry of the file that is the signature of what names code.
SIGNATURE = 'signature'

# Limits for files that may come from strangers.
MAX_BYTES = 100_000
MOST_TRIALS = 2_000

# Points of a search, where it is not said how many.
POINTS = 30


@dataclasses.dataclass(frozen=True)
class Plan:
    """Plan of a sweep.

    Attributes:
        config: Name of a config, or file.py:function.
        env: Environment, see `experiments.find`.
        algorithm: Algorithm if there is no config.
        set: Texts `key=value` that replace settings of all trials.
        seeds: Seeds of each point.
        grid: Values of settings, whose combinations are the points.
        search: Ranges of settings to search, as `search.parse_space` reads them.
        points: Number of points of a search.
    """

    config: str | None
    env: str | None
    algorithm: str | None
    set: Sequence[str]
    seeds: Sequence[int]
    grid: Mapping[str, Sequence[Any]]
    search: Mapping[str, str]
    points: int

    @property
    def name(self) -> str:
        """Name for its runs."""
        return experiments.name_of(self.config, self.env, self.algorithm)

    def find(self) -> AttrDict:
        """Return the settings that all trials share."""
        found = experiments.find(self.config, self.env, self.algorithm, changes=self.set)
        return overrides.apply(found.config, self.set)

    def space(self, config: AttrDict) -> dict[str, Range | Choice]:
        return search.parse_space(config, self.search)


def check(plan: Plan) -> AttrDict:
    """Refuse an invalid plan; returns the settings."""
    for key in (*plan.grid, *plan.search, *(text[:5] for text in plan.set)):
        if key in ('seed', 'seed='):
            raise errors.ConfigError('Seeds of a sweep are given by --seeds, as in --seeds=0..7.')
    if plan.grid and plan.search:
        raise errors.ConfigError(
            'A sweep tries a grid or searches: give --grid or --search, with '
            'a list of values such as key=A,B where both are meant.'
        )
    if plan.points < 1 or not plan.seeds:
        raise errors.ConfigError(
            f'There is nothing to try with {plan.points} points and {len(plan.seeds)} seeds.'
        )
    if len({*plan.seeds}) < len(plan.seeds):
        raise errors.ConfigError(f'The seeds {plan.seeds} have one twice.')
    for key, choices in plan.grid.items():
        _require_different(key, choices)
    config = plan.find()
    count = plan.points
    if plan.search:
        search.import_optuna()
        plan.space(config)
        require_valid(config)
    else:
        points = Grid(plan.grid)
        count = len(points)
        _require_few(count * len(plan.seeds))
        for values in points:
            require_valid(config.copy(**values))
    _require_few(count * len(plan.seeds))
    return config


def complete(plan: Plan, grid: Mapping[str, Sequence[Any] | str]) -> Plan:
    """Return a plan with the values of its grid and its seeds converted."""
    if plan.seeds and not grid:
        return plan
    config = plan.find()
    values = {
        key: overrides.parse_list(config, key, some)
        if isinstance(some, str)
        else overrides.convert_list(config, key, some)
        for key, some in grid.items()
    }
    seeds = plan.seeds or [config.seed]
    return dataclasses.replace(plan, grid=values, seeds=seeds)


def _require_different(key: str, values: Sequence[Any]) -> None:
    """Refuse an empty list, and values whose runs would have the same name."""
    texts = [plain_yaml.format_value(each, in_one_line=True) for each in values]
    if not texts:
        raise errors.ConfigError(f'There is no value to try of {key}.')
    if len({*texts}) < len(texts):
        raise errors.ConfigError(f'The values of {key}, {", ".join(texts)}, have one twice.')


def save(plan: Plan, directory: pathlib.Path) -> None:
    """Write the plan of a sweep, and sign values that name code."""
    values = plain_yaml.simplify(dataclasses.asdict(plan))
    path = directory / FILE
    values[SIGNATURE] = trust.sign(path, _list_values(plan))
    text = f'{plain_yaml.format_value(values)}\n'
    files.write(path, text.encode())


def is_in(directory: pathlib.Path) -> bool:
    """Return whether a directory is that of a sweep."""
    return os.path.lexists(directory / FILE)


def load(directory: pathlib.Path) -> tuple[Plan, str]:
    """Read the plan of a sweep; runs no code.

    Returns:
        Plan, and the reason not to use code that it names, if there is one.
    """
    path = directory / FILE
    try:
        text = files.read(path, MAX_BYTES).decode()
    except UnicodeDecodeError as error:
        raise errors.ConfigError(f'Cannot read {path}: {error}.') from error
    values = plain_yaml.parse(text, str(path))
    signature = values.pop(SIGNATURE, '') if isinstance(values, dict) else ''
    plan = _parse(values, path)
    return plan, trust.find_doubt(path, _list_values(plan), signature)


def require_trust(plan: Plan, directory: pathlib.Path, doubt: str, trusted: bool) -> None:
    """Refuse a plan that names code, unless trusted.

    Args:
        plan: Plan.
        directory: Directory of the sweep.
        doubt: Reason not to use code, see `load`.
        trusted: Use it nevertheless.
    """
    path = directory / FILE
    for key, value in _list_values(plan) if doubt else []:
        if trust.names_code(key, value):
            if not trusted:
                raise trust.refuse(key, value, str(path), doubt)
            trust.show(key, value, path)


def require_same(plan: Plan, saved: Plan, directory: pathlib.Path) -> None:
    """Refuse to resume with a different plan."""
    before, now = [plain_yaml.simplify(dataclasses.asdict(each)) for each in (saved, plan)]
    for key, value in now.items():
        if before[key] != value:
            old, new = [
                errors.shorten(plain_yaml.format_value(each, True), 100)
                for each in (before[key], value)
            ]
            raise errors.ConfigError(
                f'{directory} has a sweep of {key}: {old}, where you ask for '
                f'{new}. Go on with that one by --logdir={directory} alone, '
                'or choose another --name.'
            )


def parse_seeds(text: str) -> list[int]:
    """Parse seeds as in `0..7` or `0,3,5`."""
    seeds: list[int] = []
    for part in text.split(','):
        match = re.fullmatch(r'(\d{1,9})(?:\.\.(\d{1,9}))?', part.strip())
        if not match:
            raise errors.ConfigError(f'Expected seeds such as 0..7 or 0,3,5, not {text!r}.')
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise errors.ConfigError(f'There are no seeds in {part}.')
        _require_few(last - first)
        seeds += range(first, last + 1)
    return seeds


def parse_search(texts: Sequence[str]) -> dict[str, str]:
    """Parse `key=TEXT`, or a YAML file of such entries."""
    if len(texts) == 1 and '=' not in texts[0]:
        path = pathlib.Path(texts[0])
        read = files.read(path, MAX_BYTES).decode(errors='replace')
        found = plain_yaml.parse(read, str(path))
        if not isinstance(found, dict) or not found:
            raise errors.ConfigError(
                f'{path} must hold lines such as learning_rate: log:1e-5..1e-2. Change its format.'
            )
        return {
            key: value
            if isinstance(value, str)
            else plain_yaml.format_value(value, True).strip('[]')
            for key, value in found.items()
        }
    return dict(overrides.split(text, '--search') for text in texts)


def _parse(values: Any, path: pathlib.Path) -> Plan:
    """Make a plan from the values of a file."""
    names = [field.name for field in dataclasses.fields(Plan)]
    if not isinstance(values, dict) or sorted(values) != sorted(names):
        raise errors.ConfigError(
            f'{path} does not hold the plan of a sweep: expected {", ".join(names)}.'
        )
    kinds = {
        'config': lambda value: value is None or isinstance(value, str),
        'env': lambda value: value is None or isinstance(value, str),
        'algorithm': lambda value: value is None or isinstance(value, str),
        'set': lambda value: _is_list(value, str),
        'seeds': lambda value: _is_list(value, int) and min(value, default=-1) >= 0,
        'grid': lambda value: (
            isinstance(value, dict) and all(isinstance(each, list) for each in value.values())
        ),
        'search': lambda value: isinstance(value, dict) and _is_list([*value.values()], str),
        'points': lambda value: type(value) is int,
    }
    for key, fits in kinds.items():
        if not fits(values[key]):
            shown = errors.shorten(repr(values[key]), 100)
            raise errors.ConfigError(f'{path} has {key}: {shown}.')
    return Plan(**values)


def _is_list(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(type(each) is kind for each in value)


def _list_values(plan: Plan) -> list[tuple[str, Any]]:
    """Return the values of a plan that are passed to trials, by setting.

    As trials will parse them: texts may contain escapes.
    """
    named = [overrides.split(text, '--set') for text in plan.set]
    return [
        ('config', plan.config),
        ('env', plan.env),
        *((key.strip(), _read(key, text)) for key, text in named),
        *((key.strip(), each) for key, some in plan.grid.items() for each in some),
        *((key.strip(), _read(key, f'[{text}]')) for key, text in plan.search.items()),
    ]


def _read(key: str, text: str) -> Any:
    return plain_yaml.parse(text, f'The value of {key}')


def _require_few(count: int) -> None:
    if count > MOST_TRIALS:
        raise errors.ConfigError(
            f'These are {count:,} trials, where at most {MOST_TRIALS:,} can be run.'
        )


def make_points(plan: Plan, config: AttrDict, results: Sequence[search.Result]) -> Grid | Search:
    """Return the points of a plan, after those that were tried before."""
    if not plan.search:
        return Grid(plan.grid)
    space = plan.space(config)
    for result in results:
        if {*result.settings} != {*space} or not all(
            space[key].allows(value) for key, value in result.settings.items()
        ):
            shown = errors.shorten(search.describe(result.settings), 100)
            raise errors.ConfigError(
                f'A trial of the sweep has {shown}, which the plan does not '
                'search for. Begin another sweep by another --name.'
            )
    evaluations = max(1, config.steps // config.eval_every)
    return Search(space, plan.points, evaluations, results)
