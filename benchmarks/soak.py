"""Hours of training with workers killed and the run resumed.

    pip install -e '.[bench]'
    python -m benchmarks.soak --minutes 120 --outfile soak.png

Trains on Pendulum-v1 with an evaluation and a checkpoint every second or so.
Meanwhile a worker, of training or of evaluation, is killed every so often; and
every so often the training itself is ended, by SIGTERM and by SIGKILL in turn,
and resumed. Memory, descriptors and shared memory are written down and drawn;
in the end they are compared with what they were after the first minutes.
"""

import argparse
import csv
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence

import numpy as np
import psutil

WARM_UP_MINUTES = 10.0
SAMPLE_SECONDS = 5.0
CONFIG = """
from agents import configs

def soak():
    return configs.pendulum().copy(
        steps=10_000_000_000, worker_restarts=1_000_000)
"""
COLUMNS = {
    'minutes': 'minutes',
    'step': 'training steps',
    'parent': 'memory of the training (MB)',
    'workers': 'memory of the workers (MB)',
    'descriptors': 'open descriptors',
    'shared': 'files in /dev/shm',
    'killed': 'workers killed',
    'resumed': 'times resumed',
}


class Training:
    """A training that is started, and ended in one way or the other.

    Args:
        home: Directory for the config and the run.
    """

    def __init__(self, home: pathlib.Path):
        (home / 'soak.py').write_text(CONFIG)
        self._home = home
        self.starts = 0
        self.step = 0
        self.start()

    def start(self) -> None:
        """Begin the training, or resume it."""
        self.starts += 1
        self._process = subprocess.Popen(
            [
                *(sys.executable, '-m', 'agents.scripts.train'),
                *('--config=soak.py:soak', '--timestamp=now'),
            ],
            cwd=self._home,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self.measured = psutil.Process(self._process.pid)

    def end(self, number: signal.Signals) -> None:
        self._process.send_signal(number)
        self._process.communicate()

    def listen(self) -> None:
        """Take note of how far it is; raises an error if it is over."""
        assert self._process.stdout is not None
        output = (self._process.stdout.read() or b'').decode()
        for found in re.findall(r'step ([\d,]+)', output):
            self.step = int(found.replace(',', ''))
        if self._process.poll() is not None:
            raise RuntimeError(f'The training ended:\n{output}')


def observe(training: Training, options: argparse.Namespace) -> Iterator[list[float]]:
    """Kill and resume now and then; yields what `COLUMNS` names."""
    choice = random.Random(0)
    began = killed_at = started_at = time.monotonic()
    killed = 0
    while (now := time.monotonic()) - began < 60 * options.minutes:
        time.sleep(SAMPLE_SECONDS)
        if now - started_at > 60 * options.resume_minutes:
            even = training.starts % 2 == 0
            training.end(signal.SIGKILL if even else signal.SIGTERM)
            training.start()
            started_at = killed_at = now
            continue
        training.listen()
        workers = training.measured.children()
        if workers and now - killed_at > options.kill_seconds:
            choice.choice(workers).send_signal(signal.SIGKILL)
            killed, killed_at = killed + 1, now
        yield [
            (now - began) / 60,
            training.step,
            training.measured.memory_info().rss / 1e6,
            sum(_memory(worker) for worker in workers),
            training.measured.num_fds(),
            len(list(pathlib.Path('/dev/shm').iterdir())),
            killed,
            training.starts - 1,
        ]


def _memory(worker: psutil.Process) -> float:
    """What a worker has to itself, in MB; nothing if it is gone."""
    try:
        return worker.memory_full_info().uss / 1e6
    except psutil.Error:
        return 0.0


def draw(rows: np.ndarray, file: pathlib.Path) -> None:
    """Draw everything over time."""
    import matplotlib

    matplotlib.use('agg')
    from matplotlib import pyplot

    names = [name for name in COLUMNS if name != 'minutes']
    figure, axes = pyplot.subplots(len(names), figsize=(8, 12), sharex=True, layout='constrained')
    for number, (name, axis) in enumerate(zip(names, axes, strict=True), 1):
        axis.plot(rows[:, 0], rows[:, number], linewidth=1)
        axis.set_title(COLUMNS[name], fontsize=9)
        axis.set_ylim(bottom=0)
        axis.axvline(WARM_UP_MINUTES, color='grey', linewidth=0.5)
    axes[-1].set_xlabel('minutes')
    figure.savefig(file, dpi=120)


def compare(rows: np.ndarray) -> None:
    """Print what the last minutes are beside those after the warm-up."""
    minutes = rows[:, 0]
    span = max(1.0, 0.1 * minutes[-1])
    first = (minutes > WARM_UP_MINUTES) & (minutes < WARM_UP_MINUTES + span)
    last = minutes > minutes[-1] - span
    for number, title in enumerate(COLUMNS.values()):
        early, late = (np.median(rows[which, number]) for which in (first, last))
        print(f'{title:<30}{early:>14,.0f}{late:>14,.0f}')


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parse(arguments)
    rows = []
    with (
        tempfile.TemporaryDirectory() as home,
        options.outfile.with_suffix('.csv').open('w', newline='') as file,
    ):
        table = csv.writer(file)
        table.writerow(COLUMNS)
        training = Training(pathlib.Path(home))
        try:
            for row in observe(training, options):
                rows.append(row)
                table.writerow([f'{number:.6g}' for number in row])
                file.flush()
        finally:
            training.end(signal.SIGKILL)
    draw(np.array(rows), options.outfile)
    compare(np.array(rows))


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog='python -m benchmarks.soak')
    parser.add_argument('--minutes', type=float, default=120.0)
    parser.add_argument('--kill_seconds', type=float, default=20.0)
    parser.add_argument('--resume_minutes', type=float, default=30.0)
    parser.add_argument('--outfile', type=pathlib.Path, default='soak.png')
    return parser.parse_args(arguments)


if __name__ == '__main__':
    main()
