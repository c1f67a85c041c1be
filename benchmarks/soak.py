"""Hours of training with workers killed and the run resumed, in one process.

    pip install -e '.[bench]'
    python -m benchmarks.soak --minutes 120 --outfile soak.png

Trains on Pendulum-v1 with an evaluation and a checkpoint every second or so.
Meanwhile a worker, of training or of evaluation, is killed every so often and
the run is stopped and resumed within the same process. Memory, descriptors and
shared memory are written down and drawn; in the end they are compared with
what they were after the first minutes.
"""

import argparse
import csv
import os
import pathlib
import random
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


def train(directory: pathlib.Path, seconds: float) -> None:
    """Train for ever, resumed from its own checkpoint every so often."""
    import agents

    config = agents.configs.pendulum().copy(
        steps=10_000_000_000, worker_restarts=1_000_000
    )
    while True:
        until = time.monotonic() + seconds
        scores = agents.train(config, directory)
        for score in scores:
            print(score.report.step, flush=True)
            if time.monotonic() > until:
                break
        scores.close()
        print('resumed', flush=True)


def observe(
    process: subprocess.Popen, minutes: float, kill_seconds: float
) -> Iterator[list[float]]:
    """Kill a worker now and then; yields what `COLUMNS` names."""
    choice = random.Random(0)
    began = killed_at = time.monotonic()
    killed = resumed = step = 0
    training = psutil.Process(process.pid)
    while (now := time.monotonic()) - began < 60 * minutes:
        time.sleep(SAMPLE_SECONDS)
        for line in _lines(process):
            resumed += line == 'resumed'
            step = int(line) if line.isdigit() else step
        workers = training.children()
        if workers and now - killed_at > kill_seconds:
            choice.choice(workers).send_signal(signal.SIGKILL)
            killed, killed_at = killed + 1, now
        yield [
            (now - began) / 60,
            step,
            training.memory_info().rss / 1e6,
            sum(_memory(worker) for worker in workers),
            training.num_fds(),
            len(list(pathlib.Path('/dev/shm').iterdir())),
            killed,
            resumed,
        ]


def _lines(process: subprocess.Popen) -> list[str]:
    """What the training has said since the last time."""
    if process.poll() is not None:
        raise RuntimeError(f'The training ended with {process.returncode}.')
    assert process.stdout is not None
    return (process.stdout.read() or '').split()


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
    figure, axes = pyplot.subplots(
        len(names), figsize=(8, 12), sharex=True, layout='constrained'
    )
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
        early, late = (
            np.median(rows[which, number]) for which in (first, last)
        )
        print(f'{title:<30}{early:>14,.0f}{late:>14,.0f}')


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parse(arguments)
    if options.train:
        train(options.train, 60 * options.resume_minutes)
    with tempfile.TemporaryDirectory() as directory:
        process = subprocess.Popen(
            [
                *(sys.executable, '-m', 'benchmarks.soak'),
                *('--train', str(pathlib.Path(directory) / 'run')),
                *('--resume_minutes', str(options.resume_minutes)),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        rows = []
        with options.outfile.with_suffix('.csv').open('w', newline='') as file:
            table = csv.writer(file)
            table.writerow(COLUMNS)
            try:
                for row in observe(
                    process, options.minutes, options.kill_seconds
                ):
                    rows.append(row)
                    table.writerow([f'{number:.6g}' for number in row])
                    file.flush()
            finally:
                process.kill()
                process.wait()
    draw(np.array(rows), options.outfile)
    compare(np.array(rows))


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog='python -m benchmarks.soak')
    parser.add_argument('--minutes', type=float, default=120.0)
    parser.add_argument('--kill_seconds', type=float, default=20.0)
    parser.add_argument('--resume_minutes', type=float, default=10.0)
    parser.add_argument('--outfile', type=pathlib.Path, default='soak.png')
    parser.add_argument('--train', type=pathlib.Path, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


if __name__ == '__main__':
    main()
