"""Results of a run in files: progress.csv and events for TensorBoard."""

import contextlib
import math
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.histogram.summary_v2 import histogram_pb
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.plugins.text.summary_v2 import text_pb

from agents.tools import errors
from agents.tools.graph.backend import tf
from agents.tools.runs import files, progress
from agents.tools.runs.loop import Report

# Directories of events. What hyperparameters are compared by has its own, since
# TensorBoard compares them by every curve that is beside them, in order.
EVENTS, COMPARED = 'train', 'eval'

# Columns of the episodes that ended.
EPISODES = progress.COLUMNS[2:8]


class Records:
    """Writes reports and summaries of a run into its directory.

    A metric that no earlier report had becomes a new column of the whole table.

    Args:
        directory: Directory of the run, which exists.
        step: Step at which the run resumes. Later rows, written after the last checkpoint, are
            removed, as are rows that were cut short. Missing `progress.COLUMNS` are added at the
            end.
        columns: Further columns to add.
        settings: Numbers and texts by name as hyperparameters of TensorBoard.
        text: Settings in Markdown for TensorBoard.
    """

    def __init__(
        self,
        directory: str | pathlib.Path,
        step: int = 0,
        columns: Sequence[str] = (),
        settings: Mapping[str, bool | float | str] | None = None,
        text: str = '',
    ):
        self._directory = pathlib.Path(directory)
        self._path = self._directory / progress.FILE
        self._columns = [*progress.COLUMNS, *columns]
        self._settings, self._text = settings, text
        self._names: list[str] = []
        self._writers: dict[str, Any] = {}
        if os.path.lexists(self._path):
            self._keep_until(step)

    def report(self, report: Report) -> None:
        """Append a row to the table, and write its numbers as events."""
        row = {**report._asdict(), **report.metrics}
        del row['metrics']
        if not self._names:
            self._names = [*progress.COLUMNS, *report.metrics]
            files.write(self._path, progress.encode([self._names]))
        new = [name for name in report.metrics if name not in self._names]
        if new:
            self._columns += new
            self._keep_until(report.step)
        cells = [_format(row.get(name, '')) for name in self._names]
        files.append(self._path, progress.encode([cells]))
        events: dict[str, list[Summary.Value]] = {EVENTS: [], COMPARED: []}
        for name, value in row.items():
            if name not in ('step', 'phase') and not math.isnan(value):
                tag = tag_of(report.phase, name)
                place = COMPARED if tag.startswith('eval/score') else EVENTS
                scalar = Summary.Value(tag=tag, simple_value=value)
                events[place].append(scalar)
        for place, values in events.items():
            if values:
                self._write_event(place, report.step, values)
                with self._tell_failures():
                    self._writers[place].flush()

    def summarize(self, step: int, tensors: Mapping[str, tf.Tensor]) -> None:
        """Write histograms.

        NumPy counts the buckets, as TensorFlow takes eight times as long in eager mode.
        """
        with np.errstate(all='ignore'):  # Not all numbers are finite.
            histograms = [
                histogram_pb(f'histograms/{name}', tensor).value[0]
                for name, tensor in tensors.items()
            ]
        self._write_event(EVENTS, step, histograms)

    def close(self) -> None:
        """Write what is left; nothing can be written afterwards."""
        with self._tell_failures():
            for writer in self._writers.values():
                writer.close()

    @contextlib.contextmanager
    def _tell_failures(self) -> Iterator[None]:
        """Turn errors of the writer into one sentence."""
        try:
            yield
        except tf.errors.OpError as error:
            reason = errors.in_an_operation(error.message)
            raise errors.WriteError(
                f'The results in {self._directory} cannot be written: {reason}.'
            ) from error

    def _write_event(self, place: str, step: int, values: Iterable[Summary.Value]) -> None:
        """Write values as one event, which takes as long as a single value."""
        event = Summary(value=values).SerializeToString()
        with self._tell_failures(), self._open_writer(place).as_default(step):
            tf.summary.experimental.write_raw_pb(event)

    def _open_writer(self, place: str) -> Any:
        if place not in self._writers:
            directory = self._directory / place
            files.make_directory(directory)
            files.require_no_links(directory)  # TensorFlow would follow them.
            writer = tf.summary.create_file_writer(str(directory))
            self._writers[place] = writer
            if self._settings and place == COMPARED:
                # With the directory above, as sweeps have runs of equal names.
                name = '/'.join(self._directory.absolute().parts[-2:])
                found = hparams_pb(self._settings, trial_id=name)
                self._write_event(place, 0, found.value)
            if self._text and place == EVENTS:
                self._write_event(place, 0, text_pb('config', self._text).value)
        return self._writers[place]

    def _keep_until(self, step: int) -> None:
        """Keep the rows of the table until a step, with all columns."""
        self._names = []
        with files.replacing(self._path) as file:
            for row in progress.read(self._directory):
                if not self._names:
                    new = [n for n in self._columns if n not in row.cells]
                    self._names = [*row.cells, *new]
                    file.write(progress.encode([self._names]))
                if row.step <= step:
                    cells = [row.cells.get(name, '') for name in self._names]
                    file.write(progress.encode([cells]))


def tag_of(phase: str, column: str) -> str:
    """Return the TensorBoard tag of a column of a phase."""
    if column == 'steps_per_second' or column.endswith('seconds'):
        return f'time/{column}' if phase == 'train' else f'time/eval_{column}'
    if phase == 'train':
        is_of_episodes = column in EPISODES or column.startswith('info/')
        return f'{"rollout" if is_of_episodes else "train"}/{column}'
    return f'{phase}/{column}'


def _format(value: Any) -> Any:
    if isinstance(value, float):
        return '' if math.isnan(value) else f'{value:.6g}'
    return value
