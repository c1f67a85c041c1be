"""Result of a sweep: its trials, and a table of their scores."""

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agents.analysis import plotting, tables
from agents.analysis.run_groups import Group, Run
from agents.sweeps import search, trials
from agents.sweeps.sweep_plan import Plan
from agents.sweeps.trials import Trial
from agents.terminal import console
from agents.tools import errors
from agents.tools.attr_dict import AttrDict

CURVES = 'curves.png'

# Points in the plot and in the table; of more, the best.
MOST_LINES = 8

MOST_ROWS = 20


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Result of a sweep; as a string, a table.

    Attributes:
        directory: Directory, with a directory for the run of each trial.
        trials: All trials.
        summaries: Results of the points, the best first.
        best: Settings of the best point that differ between points, None if none has a score.
    """

    directory: pathlib.Path
    trials: list[Trial]
    summaries: list[tables.Summary]
    best: Mapping[str, Any] | None

    def __str__(self) -> str:
        return '\n'.join(self.lines())

    def lines(self, width: int | None = None) -> Iterator[str]:
        """Return the table as lines, within a width if possible."""
        return tables.format_table(self.summaries[:MOST_ROWS], width)

    @property
    def failed(self) -> list[Trial]:
        return [each for each in self.trials if each.state == trials.FAILED]


def by_point(members: Sequence[Trial]) -> list[list[Trial]]:
    """Return the trials of each point, in order."""
    points: dict[int, list[Trial]] = {}
    for each in members:
        points.setdefault(each.point, []).append(each)
    return [points[number] for number in sorted(points)]


def summarize(
    directory: pathlib.Path, plan: Plan, config: AttrDict, done: list[Trial], say: console.Console
) -> Sweep:
    """Write the table and the plot, and print the results."""
    trials.write_table(done, directory)
    labels = {
        search.describe(trials.simplify(members[0].settings)) or plan.name: members
        for members in by_point(done)
    }
    groups = []
    for label, members in labels.items():
        runs = [
            Run(directory / each.name, {**config, **each.settings, 'seed': each.seed})
            for each in members
            if each.state == trials.FINISHED
            and trials.read_curve(directory / each.name) is not None
        ]
        if runs:
            groups.append(Group(errors.escape(label), runs))
    summaries: list[tables.Summary] = []
    best = None
    if groups:
        found = plotting.plot_groups(groups).summaries
        summaries = sorted(found, key=lambda each: -each.score)
        shown = [each.group for each in summaries[:MOST_LINES]]
        drawn = [each for each in groups if each.label in shown]
        plotting.plot_groups(drawn, directory / CURVES, title=plan.name)
        by_label = {errors.escape(key): each for key, each in labels.items()}
        best = by_label[summaries[0].group][0].settings
    made = Sweep(directory, done, summaries, best)
    _tell(made, bool(groups), say)
    return made


def _tell(made: Sweep, drawn: bool, say: console.Console) -> None:
    say.print('')
    for line in made.lines(say.width) if made.summaries else []:
        say.print(line)
    if len(made.summaries) > MOST_ROWS:
        say.print(f'… and {len(made.summaries) - MOST_ROWS} more')
    say.print('')
    for each in made.failed:
        log = console.short(made.directory / trials.LOGS / f'{each.name}.err')
        say.say('failed', f'{errors.escape(each.name)}: {each.reason}')
        say.say('', f'see {log}')
    say.say('table', console.short(made.directory / trials.TABLE))
    if drawn:
        say.say('plot', console.short(made.directory / CURVES))
