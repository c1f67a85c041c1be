"""The results of a run in files: progress.csv and events for TensorBoard."""

import contextlib
import math
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from agents.tools import errors
from agents.tools.graph.backend import tf
from agents.tools.runs import files, progress
from agents.tools.runs.loop import Report


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
        self._path = self._directory / progress.FILE
        self._names: list[str] = []
        self._writers: dict[str, Any] = {}
        if os.path.lexists(self._path):
            self._keep_until(step)

    def report(self, report: Report) -> None:
        """Append a row and the scalars of a report."""
        row = {**report._asdict(), **report.metrics}
        del row['metrics']
        with self._on_disk():
            if not self._names:
                self._names = [*progress.COLUMNS, *report.metrics]
                files.write(self._path, progress.encode([self._names]))
            numbers = [_number(row.get(name, '')) for name in self._names]
            files.append(self._path, progress.encode([numbers]))
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
        except tf.errors.OpError as error:
            raise errors.WriteError(
                f'The results in {self._directory} cannot be written: {error}.'
            ) from error

    def _writer(self, phase: str) -> Any:
        if phase not in self._writers:
            directory = self._directory / phase
            files.make_directory(directory)
            files.require_no_links(directory)  # TensorFlow would follow them.
            writer = tf.summary.create_file_writer(str(directory))
            self._writers[phase] = writer
        return self._writers[phase]

    def _keep_until(self, step: int) -> None:
        with files.replacing(self._path) as file:
            for row in progress.read(self._directory):
                if not self._names:
                    self._names = list(row.cells)
                    file.write(progress.encode([self._names]))
                if row.step <= step:
                    file.write(progress.encode([row.cells.values()]))


def _number(value: Any) -> Any:
    if isinstance(value, float):
        return '' if math.isnan(value) else f'{value:.6g}'
    return value
