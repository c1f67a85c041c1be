"""The results of a run in files: progress.csv and events for TensorBoard."""

import contextlib
import csv
import math
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from agents.tools import errors
from agents.tools.backend import tf
from agents.tools.loop import Report

COLUMNS = (
    'step',
    'phase',
    'score',
    'length',
    'episodes',
    'seconds',
    'steps_per_second',
)


class Records:
    """Writes reports and summaries of a run into its directory.

    Args:
        directory: Directory of the run, which exists.
        step: Step at which the run is resumed; rows of later steps, which
            were written after the last checkpoint, are removed, and so are
            rows that were cut short.
    """

    def __init__(self, directory: str | pathlib.Path, step: int = 0):
        self._directory = pathlib.Path(directory)
        self._path = self._directory / 'progress.csv'
        self._names: list[str] = []
        self._writers: dict[str, Any] = {}
        with self._on_disk():
            if self._path.exists():
                self._keep_until(step)

    def report(self, report: Report) -> None:
        """Append a row and the scalars of a report."""
        row = {**report._asdict(), **report.metrics}
        del row['metrics']
        with self._on_disk():
            if not self._names:
                self._names = [*COLUMNS, *report.metrics]
                _write([self._names], self._path, 'w')
            numbers = [_number(row.get(name, '')) for name in self._names]
            _write([numbers], self._path, 'a')
            with self._writer(report.phase).as_default(report.step):
                for name, value in row.items():
                    if name not in ('step', 'phase') and not math.isnan(value):
                        tf.summary.scalar(name, value)
                self._writers[report.phase].flush()

    def summarize(
        self, phase: str, step: int, tensors: Mapping[str, tf.Tensor]
    ) -> None:
        """Write histograms."""
        with self._on_disk(), self._writer(phase).as_default(step):
            for name, tensor in tensors.items():
                tf.summary.histogram(name, tensor)

    def close(self) -> None:
        with self._on_disk():
            for writer in self._writers.values():
                writer.close()

    @contextlib.contextmanager
    def _on_disk(self) -> Iterator[None]:
        try:
            yield
        except (OSError, tf.errors.OpError) as error:
            raise errors.UserError(
                f'The results in {self._directory} cannot be written: {error}.'
            ) from error

    def _writer(self, phase: str) -> Any:
        if phase not in self._writers:
            path = str(self._directory / phase)
            self._writers[phase] = tf.summary.create_file_writer(path)
        return self._writers[phase]

    def _keep_until(self, step: int) -> None:
        with self._path.open(newline='') as file:
            rows = list(csv.reader(file))
        if rows:
            self._names, *rows = rows
            whole = [row for row in rows if len(row) == len(self._names)]
            kept = [row for row in whole if int(row[0]) <= step]
            temporary = self._path.with_suffix('.tmp')
            try:
                _write([self._names, *kept], temporary, 'w')
                temporary.replace(self._path)
            finally:
                temporary.unlink(missing_ok=True)


def _write(rows: list[list], path: pathlib.Path, mode: str) -> None:
    with path.open(mode, newline='') as file:
        csv.writer(file).writerows(rows)


def _number(value: Any) -> Any:
    if isinstance(value, float):
        return '' if math.isnan(value) else f'{value:.6g}'
    return value
