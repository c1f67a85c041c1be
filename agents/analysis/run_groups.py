"""Search for runs in directories, and grouping of equal ones."""

import os
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from agents.config import render, store
from agents.config.settings import SETTINGS
from agents.tools import errors
from agents.tools.runs import progress

# Settings that runs of an experiment may have their own of.
OWN = {
    'seed',
    'num_workers',
    'worker_timeout',
    'worker_restarts',
    'checkpoint_every',
    'keep_checkpoints',
    'log_info',
}

# What else than a setting groups can be made by.
BY = 'config', 'run', 'seed'

# Names of runs, which may begin with their time and end with their seed.
NAME = r'(\d{8}T\d{6}-)?(?P<config>.*?)([-_.](seed|s)[-_=]?\d+)?'

# How deep runs may be in a directory that is looked through, and how many.
DEPTH = 3
MOST_RUNS = 1000

# How long a label may be.
MOST_CHARACTERS = 60


class Run(NamedTuple):
    """Run.

    Attributes:
        directory: Directory.
        settings: Settings as in its file, if there is one.
    """

    directory: pathlib.Path
    settings: Mapping[str, Any]

    @property
    def config(self) -> str:
        """Name without time and seed.

        As in `<time>-pendulum`, `ant-seed=3`, and `ant-3` if 3 is its seed.
        """
        match = re.fullmatch(NAME, self.name)
        name = (match and match['config']) or self.name
        ending = rf'(?<=.)[-_.]{re.escape(str(self.settings.get("seed")))}'
        return re.sub(f'{ending}$', '', name)

    @property
    def name(self) -> str:
        return self.directory.resolve().name


class Group(NamedTuple):
    """Group of runs, with a label."""

    label: str
    runs: list[Run]


def find(paths: Sequence[str | pathlib.Path]) -> list[Run]:
    """Find runs: each path is a run, or a directory that contains some."""
    found: dict[pathlib.Path, Run] = {}
    for path in map(pathlib.Path, paths):
        inside = sorted(find_inside(path))
        if not inside:
            raise errors.ConfigError(
                f'There is no run with results in {path}. Expected the '
                f'directory of a run, which has a {progress.FILE} after its '
                'first report, or one that holds such.'
            )
        for directory in inside:
            found.setdefault(directory.resolve(), _read(directory))
    if len(found) > MOST_RUNS:
        raise errors.ConfigError(
            f'There are {len(found):,} runs in there, where at most '
            f'{MOST_RUNS:,} can be compared. Name fewer.'
        )
    return list(found.values())


def find_inside(path: pathlib.Path, depth: int = DEPTH) -> Iterator[pathlib.Path]:
    """Return directories with results: the directory itself, or those within it.

    Args:
        path: Directory.
        depth: Maximum depth.
    """
    if os.path.lexists(path / progress.FILE):
        yield path
    elif depth:
        try:
            entries = list(os.scandir(path))
        except OSError as error:
            raise errors.ConfigError(
                f'Cannot look for runs in {path}: {error.strerror}.'
            ) from error
        for entry in entries:
            # A link could lead anywhere, or back.
            if entry.is_dir(follow_symlinks=False):
                yield from find_inside(pathlib.Path(entry.path), depth - 1)


def drop_repeated(runs: Sequence[Run]) -> tuple[list[Run], list[str]]:
    """Keep the newest of runs with the same settings and seed.

    They are not independent samples.

    Returns:
        Runs that are kept, and a note on each set of equal ones.
    """
    equal: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        keys = sorted({*run.settings} - OWN | {'seed'})
        values = tuple(f'{key}={_value(run, key)}' for key in keys)
        # Runs without settings may be of anything.
        alone = () if run.settings else (str(run.directory),)
        equal.setdefault(values + alone, []).append(run)
    kept, notes = [], []
    for members in equal.values():
        newest = max(members, key=_age)
        kept.append(newest)
        if len(members) > 1:
            notes.append(
                f'{len(members)} runs of {newest.config} have the same '
                f'settings and seed {newest.settings.get("seed")}; only the '
                f'newest counts, {newest.name}. --by run shows them all'
            )
    return kept, notes


def _age(run: Run) -> tuple[float, str]:
    """Return when a run was last written to, and its name to break ties."""
    return os.lstat(run.directory / progress.FILE).st_mtime, run.name


def rename(groups: Sequence[Group], labels: Sequence[str], runs: Sequence[Run]) -> list[Group]:
    """Replace the labels of groups, in the order of their first runs.

    Groups with the same label, in several environments, keep a common one.

    Args:
        groups: Groups.
        labels: New labels.
        runs: All runs of the groups.

    Returns:
        Groups in that order.
    """
    order = {run.directory: number for number, run in enumerate(runs)}
    groups = sorted(groups, key=lambda each: min(order[run.directory] for run in each.runs))
    before = list(dict.fromkeys(each.label for each in groups))
    if len(labels) != len(before):
        raise errors.ConfigError(
            f'labels must be one for each of {", ".join(before)}, got '
            f'{len(labels)}: {", ".join(labels)}.'
        )
    renamed = dict(zip(before, labels, strict=True))
    return [Group(renamed[each.label], each.runs) for each in groups]


def group(runs: Sequence[Run], by: str = 'config') -> list[Group]:
    """Group runs, separately for each environment.

    Args:
        runs: Runs.
        by: `config` for equal settings but the seed and those without influence on results; `run`;
            `seed`; or the name of a setting.
    """
    if by not in (*BY, *SETTINGS) and not any(by in run.settings for run in runs):
        errors.require_known('setting', by, [*BY, *SETTINGS])
    by_env = _split(runs, ['env'])
    return [each for members in by_env for each in _group(members, by)]


def _group(runs: Sequence[Run], by: str) -> list[Group]:
    """Group runs of any environments."""
    if by == 'run':
        return _label([[run] for run in runs], [run.name for run in runs])
    if by == 'config':
        groups = _split(runs, sorted(_differing(runs) - OWN))
        return _label_configs(groups)
    groups = _split(runs, [by])
    return _label(groups, [describe(each[0], [by]) for each in groups])


def describe(run: Run, keys: Sequence[str]) -> str:
    """Format settings of a run, as in `learning_rate=0.001 seed=3`."""
    return ' '.join(
        f'{key}={render.format_value(run.settings[key])}' if key in run.settings else f'{key}=?'
        for key in keys
    )


def _read(directory: pathlib.Path) -> Run:
    if not os.path.lexists(directory / store.CONFIG_FILE):
        return Run(directory, {})
    return Run(directory, store.load_config(directory))


def _differing(runs: Sequence[Run]) -> set[str]:
    """Return the names of settings that differ between runs."""
    keys = {key for run in runs for key in run.settings}
    return {key for key in keys if len({_value(run, key) for run in runs}) > 1}


def _value(run: Run, key: str) -> str:
    return repr(run.settings[key]) if key in run.settings else ''


def _split(runs: Sequence[Run], keys: Sequence[str]) -> list[list[Run]]:
    """Split runs by the values of settings, in order of appearance."""
    groups: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        values = tuple(_value(run, key) for key in keys)
        groups.setdefault(values, []).append(run)
    return sorted(groups.values(), key=lambda each: _order(each[0], keys))


def _order(run: Run, keys: Sequence[str]) -> list[tuple[float, str]]:
    """Return a sort key: numbers by value, texts alphabetically."""
    values = [run.settings.get(key) for key in keys]
    return [
        (float(value), '') if isinstance(value, (int, float)) else (float('inf'), repr(value))
        for value in values
    ]


def _label_configs(groups: list[list[Run]]) -> list[Group]:
    """Label groups by their configs, and by settings where those are equal."""
    names = [_common_name(runs) for runs in groups]
    labels = []
    for runs, name in zip(groups, names, strict=True):
        rivals = [other[0] for other, called in zip(groups, names, strict=True) if called == name]
        keys = sorted(_differing(rivals) - OWN)
        alone = len({*names}) == 1  # So that the name tells nothing.
        own = describe(runs[0], keys)
        labels.append(own if own and alone else f'{name} {own}'.strip())
    return _label(groups, labels)


def _common_name(runs: Sequence[Run]) -> str:
    """Return the name of the config of runs, or a description."""
    names = {run.config for run in runs}
    settings = runs[0].settings
    if len(names) == 1 or not {'algorithm', 'env'} <= set(settings):
        return min(names)
    return f'{settings["algorithm"]} on {settings["env"]}'


def _label(groups: list[list[Run]], labels: Sequence[str]) -> list[Group]:
    """Make labels printable and unique."""
    counts: dict[str, int] = {}
    made = []
    for label, runs in zip(labels, groups, strict=True):
        short = errors.shorten(errors.escape(label), MOST_CHARACTERS)
        counts[short] = counts.get(short, 0) + 1
        number = f' ({counts[short]})' if counts[short] > 1 else ''
        made.append(Group(f'{short}{number}', runs))
    return made
