"""The results of a run in files: progress.csv and events for TensorBoard."""

import contextlib
import itertools
import math
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.histogram.summary_v2 import histogram_pb
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.plugins.scalar.summary_v2 import scalar_pb

from agents.tools import errors
from agents.tools.graph.backend import tf
from agents.tools.runs import files, progress
from agents.tools.runs.loop import Report

# The phase whose numbers runs are compared by.
COMPARED = 'eval'


class Records:
    """Writes reports and summaries of a run into its directory.

    Args:
        directory: Directory of the run, which exists.
        step: Step at which the run is resumed. Rows of later steps, which
            were written after the last checkpoint, are removed, and so are
            rows that were cut short. A table from before there were all of
            `progress.COLUMNS` gets those that it lacks, at its end.
        columns: Further columns that a table gets in the same way.
        settings: Numbers and texts by name that TensorBoard compares runs by,
            beside the numbers of the evaluation.

    A metric that no report had before becomes a column of the whole table.
    """

    def __init__(
        self,
        directory: str | pathlib.Path,
        step: int = 0,
        columns: Sequence[str] = (),
        settings: Mapping[str, bool | float | str] | None = None,
    ):
        self._directory = pathlib.Path(directory)
        self._path = self._directory / progress.FILE
        self._columns = [*progress.COLUMNS, *columns]
        self._settings = settings
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
        scalars = [
            scalar_pb(name, value)
            for name, value in row.items()
            if name not in ('step', 'phase') and not math.isnan(value)
        ]
        self._write_event(report.phase, report.step, scalars)
        with self._tell_failures():
            self._writers[report.phase].flush()

    def summarize(
        self, phase: str, step: int, tensors: Mapping[str, tf.Tensor]
    ) -> None:
        """Write histograms.

        NumPy counts what is in their buckets, as TensorFlow takes eight times
        as long where it runs operations one by one.
        """
        with np.errstate(all='ignore'):  # Not all numbers are finite.
            histograms = [
                histogram_pb(name, tensor) for name, tensor in tensors.items()
            ]
        self._write_event(phase, step, histograms)

    def close(self) -> None:
        """Write what is left; nothing can be written afterwards."""
        with self._tell_failures():
            for writer in self._writers.values():
                writer.close()

    @contextlib.contextmanager
    def _tell_failures(self) -> Iterator[None]:
        """Say in one sentence why events cannot be written."""
        try:
            yield
        except tf.errors.OpError as error:
            reason = errors.in_an_operation(error.message)
            raise errors.WriteError(
                f'The results in {self._directory} cannot be written: {reason}.'
            ) from error

    def _write_event(
        self, phase: str, step: int, summaries: Sequence[Summary]
    ) -> None:
        """Write summaries as one event, which takes as long as a single one."""
        values = itertools.chain(*(summary.value for summary in summaries))
        event = Summary(value=values).SerializeToString()
        with self._tell_failures(), self._open_writer(phase).as_default(step):
            tf.summary.experimental.write_raw_pb(event)

    def _open_writer(self, phase: str) -> Any:
        if phase not in self._writers:
            directory = self._directory / phase
            files.make_directory(directory)
            files.require_no_links(directory)  # TensorFlow would follow them.
            writer = tf.summary.create_file_writer(str(directory))
            self._writers[phase] = writer
            if self._settings and phase == COMPARED:
                self._write_event(phase, 0, [hparams_pb(self._settings)])
        return self._writers[phase]

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


def _format(value: Any) -> Any:
    if isinstance(value, float):
        return '' if math.isnan(value) else f'{value:.6g}'
    return value
